"""`/records` of the admin address: shows an unsettled record of a pool, and carries out an operator's action on some.

    GET /records?group=billing                                 the record held longest
    GET /records?group=billing&member=m-1                      the same, of one member
    GET /records?group=billing&partition=eu/orders-3&offset=4711
    POST /records?group=billing&partition=eu/orders-3&offset=4711&action=settle        or bury, or release
      &last=4720        up to this offset
      &dry_run=true     only say what would be done

`virtual_cluster=` names the virtual cluster, if there are several. Every request is logged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from anyio.to_thread import run_sync
from confluent_kafka import KafkaException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mesh.admin.request_parameters import NO_TOKEN, RefusedRequest, offset_of, partition_of, pool_of
from mesh.admin.shown_records import may_be_shown, shown
from mesh.config.model import Look
from mesh.pool.interventions import Action, NotPossible, RunPlace
from mesh.pool.pool import Pool
from mesh.records.spans import ClusterName, Span, UpstreamPartition
from mesh.runtime.pool.runtime import PoolRuntime
from mesh.telemetry.logs import get_logger
from mesh.upstream.librdkafka_properties import Properties
from mesh.upstream.one_record import read_record

log = get_logger(__name__)
TIMEOUT: Final = 10.0
"""Seconds for reading a record from upstream."""
MOST: Final = 100_000
"""The most offsets of one action."""


class RecordApi:
    """The HTTP interface for stuck records.

    pools: returns the pools of the current virtual clusters.
    properties: returns librdkafka's properties for a cluster.
    look: returns the parts of records to show, None for nothing.
    may_change: returns whether requests may be answered at all.
    """

    def __init__(
        self,
        pools: Callable[[], Sequence[PoolRuntime]],
        properties: Callable[[ClusterName], Properties],
        look: Callable[[], Look | None],
        may_change: Callable[[], bool],
    ) -> None:
        self._pools = pools
        self._properties = properties
        self._look = look
        self._may_change = may_change

    def routes(self) -> list[Route]:
        async def records(request: Request) -> Response:
            host = request.client.host if request.client is not None else ""
            try:
                if not self._may_change():
                    raise RefusedRequest(403, NO_TOKEN)
                server, pool = pool_of(self._pools(), request.query_params)
                answer = self._change if request.method == "POST" else self._show
                return JSONResponse(await answer(server, pool, request.query_params, host))
            except RefusedRequest as refusal:
                return JSONResponse({"problem": str(refusal)}, status_code=refusal.status)

        return [Route("/records", records, methods=["GET", "POST"])]

    async def _show(self, server: PoolRuntime, pool: Pool, asked: Mapping[str, str], host: str) -> dict[str, Any]:
        source, offset = self._place(server, pool, asked)
        try:
            places = pool.interventions.places(source, Span(offset, offset))
        except NotPossible as problem:
            raise RefusedRequest(409, str(problem)) from problem
        body: dict[str, Any] = {
            "virtual_cluster": server.name,
            "group": pool.group,
            "partition": str(source),
            "offset": offset,
            "places": [_described(place, server.now()) for place in places],
        }
        fields = {"group": pool.group, "partition": str(source), "offset": offset, "client_host": host}
        log.info("record shown to an operator", virtual_cluster=server.name, **fields)
        return {**body, **await self._record(server, source, offset)}

    async def _record(self, server: PoolRuntime, source: UpstreamPartition, offset: int) -> dict[str, Any]:
        """Returns the record under the key `record`, or the reason why it is not shown under `not_shown`."""
        look, number = self._look(), server.core.topics.number(source)
        topic = number[0] if number is not None else source.topic
        if look is None:
            return {"not_shown": "admin.look is not configured"}
        if not may_be_shown(topic, look):
            return {"not_shown": f"admin.look.topics does not name {topic}"}
        if server.is_intercepted(topic):
            return {"not_shown": f"interceptors see the records of {topic}, and a look would bypass them"}
        try:
            properties = self._properties(source.cluster)
            record = await run_sync(read_record, properties, source, offset, TIMEOUT, abandon_on_cancel=True)
        except KafkaException as problem:
            return {"not_shown": f"cannot be read from {source.cluster}: {problem.args[0].str()}"}
        if record is None:
            return {"not_shown": "no record at this offset or behind it"}
        return {"record": shown(record, look)}

    def _place(self, server: PoolRuntime, pool: Pool, asked: Mapping[str, str]) -> tuple[UpstreamPartition, int]:
        if "partition" in asked:
            return partition_of(asked["partition"]), offset_of("offset", asked.get("offset"))
        oldest = pool.interventions.longest_held(asked.get("member"))
        if oldest is None:
            whom = f"member {asked['member']!r}" if "member" in asked else "no member"
            raise RefusedRequest(404, f"{whom} holds {'no' if 'member' in asked else 'a'} record")
        return oldest

    async def _change(self, server: PoolRuntime, pool: Pool, asked: Mapping[str, str], host: str) -> dict[str, Any]:
        try:
            action = Action(asked.get("action", ""))
        except ValueError:
            raise RefusedRequest(
                400, f"action: {asked.get('action', '')!r}, not one of settle, bury, release"
            ) from None
        source, first = partition_of(asked.get("partition", "")), offset_of("offset", asked.get("offset"))
        last = offset_of("last", asked["last"]) if "last" in asked else first
        if not first <= last < first + MOST:
            raise RefusedRequest(400, f"last: {last}, not an offset from {first} to {first + MOST - 1}")
        is_dry = asked.get("dry_run", "false")
        if is_dry not in {"true", "false"}:
            raise RefusedRequest(400, f"dry_run: {is_dry!r}, not true or false")
        places = self._carry_out(server, pool, action, source, Span(first, last), is_dry == "true")
        if is_dry != "true":
            fields = {
                "group": pool.group,
                "partition": str(source),
                "span": str(Span(first, last)),
                "client_host": host,
            }
            log.warning("action of an operator", virtual_cluster=server.name, action=action.value, **fields)
        return {
            "virtual_cluster": server.name,
            "group": pool.group,
            "partition": str(source),
            "action": action.value,
            "dry_run": is_dry == "true",
            "records": sum(len(place.span) for place in places),
            "places": [_described(place, server.now()) for place in places],
        }

    def _carry_out(
        self, server: PoolRuntime, pool: Pool, action: Action, source: UpstreamPartition, span: Span, is_dry: bool
    ) -> list[RunPlace]:
        found: list[RunPlace] = []
        problems: list[NotPossible] = []

        def step(stepping: Pool) -> None:
            try:
                interventions = stepping.interventions
                now = server.now()
                found.extend(
                    interventions.preview(action, source, span)
                    if is_dry
                    else interventions.carry_out(action, source, span, now)
                )
            except NotPossible as problem:
                problems.append(problem)

        server.step(lambda core, now: core.upstream(pool, step, now))
        if problems:
            raise RefusedRequest(409, str(problems[0])) from problems[0]
        return found


def _described(place: RunPlace, now: float) -> dict[str, Any]:
    return {
        "first": place.span.first,
        "last": place.span.last,
        "state": place.state,
        "member": place.member or None,
        "held_seconds": round(now - place.since, 1) if place.since is not None else None,
        "deliveries": place.deliveries,
    }
