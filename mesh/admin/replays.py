"""`/replays` of the admin address: delivers acknowledged records again, while the group continues.

    GET /replays                                                   show all unfinished replays of this process
    POST /replays?group=billing&from=2h                            replay the last two hours
      &to=2026-11-26T12:00:00Z   up to this time; default: now
      &topic=orders              only this topic; repeat for several; default: all that the group consumes
      &partition=eu/orders-3&offset=4711&last=4720                 these offsets, instead of times
      &header=region=eu&key=k-1  only records with all of these headers, and this key
      &rate=100                  records a second
      &to_group=audit            deliver to the members of another group
      &replay=fix-17             name the replay: use the same name in several processes
      &dry_run=true              only say what would be delivered
    DELETE /replays?group=billing&replay=1f2e3d4c                  cancel it

`virtual_cluster=` names the virtual cluster, if there are several. Every action is logged.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mesh.admin.replay_bodies import ReplayRequest, replay_request_of
from mesh.admin.request_parameters import NO_TOKEN, RefusedRequest, pool_of
from mesh.pool.common.queries import LogOffset
from mesh.pool.pool import Pool
from mesh.pool.replay.service import NotReplayed, ReplayedPartition
from mesh.pool.state.replayed import Replay, ReplayId
from mesh.records.span_lists import count
from mesh.records.spans import Span, UpstreamPartition
from mesh.runtime.pool.replay_status import replay_shown, replays_of
from mesh.runtime.pool.runtime import PoolRuntime
from mesh.telemetry.logs import get_logger
from mesh.wire.errors import ErrorCode

log = get_logger(__name__)
LAST: Final = (1 << 63) - 1


class ReplayApi:
    """The HTTP interface for replays. pools: returns the pools of the current virtual clusters. may_change: returns
    whether requests may be answered at all."""

    def __init__(self, pools: Callable[[], Sequence[PoolRuntime]], may_change: Callable[[], bool]) -> None:
        self._pools = pools
        self._may_change = may_change

    def routes(self) -> list[Route]:
        async def replays(request: Request) -> Response:
            host = request.client.host if request.client is not None else ""
            try:
                if not self._may_change():
                    raise RefusedRequest(403, NO_TOKEN)
                match request.method:
                    case "POST":
                        answer = await self._begin(request.query_params, host)
                    case "DELETE":
                        answer = self._cancel(request.query_params, host)
                    case _:
                        answer = self._list(request.query_params)
                return JSONResponse(answer)
            except RefusedRequest as refusal:
                return JSONResponse({"problem": str(refusal)}, status_code=refusal.status)

        return [Route("/replays", replays, methods=["GET", "POST", "DELETE"])]

    def _list(self, asked: Mapping[str, str]) -> dict[str, Any]:
        found: list[dict[str, Any]] = []
        for server in self._pools():
            if asked.get("virtual_cluster", server.name) == server.name:
                for group, pool in sorted(server.core.pools.items()):
                    if asked.get("group", group) == group:
                        found += [_named(server, pool, each) for each in replays_of(pool)]
        return {"replays": found}

    async def _begin(self, asked: QueryParams, host: str) -> dict[str, Any]:
        wanted = replay_request_of(asked, time.time())
        of = pool_of(self._pools(), asked)
        server, pool = pool_of(self._pools(), asked, "to_group") if "to_group" in asked else of
        partitions = _partitions(of, pool, wanted)
        spans = await _spans(server, partitions, wanted)
        if pool.is_closed:
            raise RefusedRequest(409, f"group: the pool of {pool.group!r} has just ended")
        id = wanted.id or ReplayId(secrets.token_hex(4))
        replay = Replay(id, round(time.time() * 1000), wanted.rate, wanted.filter)
        body = {"dry_run": wanted.is_dry, "elsewhere": _elsewhere(of, pool, wanted)}
        if wanted.is_dry:
            found = _would(server, pool, replay, spans)
        else:
            found = _step(server, pool, lambda stepping: stepping.replaying.begin(replay, spans, server.now()))
            offsets = sum(each.total for each in found)
            fields = {"group": pool.group, "replay": replay.id, "offsets": offsets, "client_host": host}
            log.warning("action of an operator", virtual_cluster=server.name, action="replay", **fields)
        return body | _named(server, pool, replay_shown(found))

    def _cancel(self, asked: Mapping[str, str], host: str) -> dict[str, Any]:
        server, pool = pool_of(self._pools(), asked)
        id = ReplayId(asked.get("replay", ""))
        if not id:
            raise RefusedRequest(400, "replay: name it")
        stopped = _step(server, pool, lambda stepping: stepping.replaying.cancel(id, server.now()))
        fields = {"group": pool.group, "replay": id, "client_host": host}
        log.warning("action of an operator", virtual_cluster=server.name, action="cancel a replay", **fields)
        return _named(server, pool, replay_shown(stopped))


def _named(server: PoolRuntime, pool: Pool, shown: dict[str, Any]) -> dict[str, Any]:
    return {"virtual_cluster": server.name, "group": pool.group, **shown}


def _consumed(server: PoolRuntime, pool: Pool, wanted: ReplayRequest) -> list[UpstreamPartition]:
    """Returns the upstream partitions of the topics that a group consumes, or of the requested ones among them."""
    numbers = {source: server.core.topics.number(source) for source in pool.partitions}
    topics = {number[0] for number in numbers.values() if number is not None}
    if unknown := sorted(set(wanted.topics) - topics):
        known = ", ".join(sorted(topics)) or "none: it has not asked for any"
        raise RefusedRequest(400, f"topic: {unknown[0]!r}, not one that {pool.group!r} consumes: {known}")
    chosen = set(wanted.topics) or topics
    return [source for source, number in numbers.items() if number is not None and number[0] in chosen]


def _partitions(of: tuple[PoolRuntime, Pool], to: Pool, wanted: ReplayRequest) -> list[UpstreamPartition]:
    if wanted.offsets is not None:
        return [wanted.offsets[0]]
    here = [source for source, partition in to.partitions.items() if partition.is_active]
    found = [source for source in _consumed(*of, wanted) if source in here]
    if not found:
        raise RefusedRequest(409, f"group: {to.group!r} has none of these partitions in this process")
    return found


def _elsewhere(of: tuple[PoolRuntime, Pool], to: Pool, wanted: ReplayRequest) -> list[str]:
    """Returns the partitions of other processes, which the operator must ask, too."""
    if wanted.offsets is not None:
        return []
    consumed = _consumed(*of, wanted)
    return sorted(str(each) for each in consumed if each not in to.partitions or not to.partitions[each].is_active)


async def _spans(
    server: PoolRuntime, partitions: Sequence[UpstreamPartition], wanted: ReplayRequest
) -> dict[UpstreamPartition, Span]:
    if wanted.offsets is not None:
        return dict([wanted.offsets])
    begins = await _offsets_at(server, partitions, wanted.begin)
    ends = await _offsets_at(server, partitions, wanted.end) if wanted.end is not None else {}
    spans: dict[UpstreamPartition, Span] = {}
    for source, begin in begins.items():
        end = ends.get(source, -1)
        last = end - 1 if end >= 0 else LAST
        if 0 <= begin <= last:  # otherwise no record is that recent, or the range is empty
            spans[source] = Span(begin, last)
    return spans


async def _offsets_at(
    server: PoolRuntime, partitions: Sequence[UpstreamPartition], time: int
) -> dict[UpstreamPartition, int]:
    """Returns the first offset of each partition with a record of that time (ms since the epoch) or later; -1 for
    none."""
    found: Mapping[UpstreamPartition, LogOffset] = await server.offsets_at(dict.fromkeys(partitions, time))
    failed = next((source for source, each in found.items() if each.error is not ErrorCode.NONE), None)
    if failed is not None:
        error = found[failed].error.name
        raise RefusedRequest(503, f"the cluster of {failed} gave no offset for that time: {error}")
    return {source: each.offset for source, each in found.items()}


def _would(
    server: PoolRuntime, pool: Pool, replay: Replay, spans: Mapping[UpstreamPartition, Span]
) -> list[ReplayedPartition]:
    def look(stepping: Pool) -> list[ReplayedPartition]:
        found = stepping.replaying.preview(spans)
        return [
            ReplayedPartition(source, replay, Span(each[0].first, each[-1].last), count(each), count(each), 0, False)
            for source, each in found.items()
        ]

    return _step(server, pool, look)


def _step(server: PoolRuntime, pool: Pool, do: Callable[[Pool], list[ReplayedPartition]]) -> list[ReplayedPartition]:
    found: list[ReplayedPartition] = []
    problems: list[NotReplayed] = []

    def step(stepping: Pool) -> None:
        try:
            found.extend(do(stepping))
        except NotReplayed as problem:
            problems.append(problem)

    server.step(lambda core, now: core.upstream(pool, step, now))
    if problems:
        raise RefusedRequest(409, str(problems[0])) from problems[0]
    return found
