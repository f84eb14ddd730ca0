"""Range leases over HTTP, on the admin address: the requests of batch engines to a pool. docs/spark.md explains them.

Bodies and answers are JSON, described by the OpenAPI document at `OPENAPI`; errors are `{"error": ..., "detail": ...}`.
Times are seconds; `deadline` is a time of day, seconds since 1970.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mesh.admin.lease_bodies import (
    AcknowledgeBody,
    BacklogAnswer,
    BacklogBody,
    ClaimBody,
    CreateBody,
    GroupBody,
    HeldLease,
    HolderBody,
    LeaseAnswer,
    LeaseBody,
    LeaseError,
    LeaseList,
    PartitionAnswer,
    RangeBody,
    RenewBody,
    SettledAnswer,
)
from mesh.admin.openapi import OpenApiOperation, document
from mesh.apis.answers import Ticket
from mesh.pool.common.ids import GroupId
from mesh.pool.pool import Pool
from mesh.pool.state.leases import (
    LONGEST_NAME,
    Acknowledgement,
    Claim,
    EndUnknown,
    HolderId,
    LeaseBacklog,
    LeaseGranted,
    LeaseId,
    LeaseRequest,
    LeaseSettled,
    NoRoom,
    NotStored,
    PartitionBacklog,
    Range,
    UnknownLease,
)
from mesh.records.spans import ClusterName, TopicName
from mesh.runtime.pool.runtime import PoolRuntime
from mesh.wire.errors import ErrorCode

PREFIX: Final = "/leases"
OPENAPI: Final = "/openapi.json"
LARGEST_BODY: Final = 2 << 20
"""The largest body of a request, in bytes."""
NO_TOKEN: Final = "the admin address has no token (admin.token); then there are leases on loopback addresses only"
GRACE: Final = 10.0
"""Seconds that a request may take beyond its own wait."""


class LeaseRefused(Exception):
    """Raised for a request that cannot be done, with its answer."""

    def __init__(self, status: int, error: LeaseError, detail: str) -> None:
        super().__init__(detail)
        self.status, self.error, self.detail = status, error, detail


_LEASE: Final = PREFIX + "/{lease}"
OPERATIONS: Final = (
    OpenApiOperation("create", "POST", PREFIX, "Lease records", CreateBody, LeaseAnswer),
    OpenApiOperation("list", "GET", PREFIX, "List the leases of this process", None, LeaseList),
    OpenApiOperation("backlog", "POST", f"{PREFIX}/backlog", "Show the backlog", BacklogBody, BacklogAnswer),
    OpenApiOperation("claim", "POST", f"{_LEASE}/claim", "Claim a lease", ClaimBody, SettledAnswer),
    OpenApiOperation("renew", "POST", f"{_LEASE}/renew", "Renew a lease", RenewBody, LeaseAnswer),
    OpenApiOperation(
        "acknowledge", "POST", f"{_LEASE}/acknowledge", "Acknowledge a lease", AcknowledgeBody, SettledAnswer
    ),
    OpenApiOperation("release", "POST", f"{_LEASE}/release", "Release a lease", HolderBody, SettledAnswer),
)

Given = TypeVar("Given", bound=LeaseBody)
Handler = Callable[[Request], Awaitable[Response]]


class LeaseApi:
    """The HTTP interface for holders of leases.

    pools: returns the pools of the current virtual clusters.
    clusters: bootstrap servers by name.
    is_serving: whether the process serves clients. If not, unknown things are answered as unavailable.
    may_change: whether every client that reaches the address may use leases. Leased records are kept from members.
    """

    def __init__(
        self,
        pools: Callable[[], Sequence[PoolRuntime]],
        clusters: Mapping[ClusterName, str],
        is_serving: Callable[[], bool],
        may_change: bool = True,
    ) -> None:
        self._pools = pools
        self._clusters = clusters
        self._is_serving = is_serving
        self.may_change = may_change

    def routes(self) -> list[Route]:
        handlers = {
            "create": self.create,
            "list": self.list,
            "backlog": self.backlog,
            "claim": self.claim,
            "renew": self.renew,
            "acknowledge": self.acknowledge,
            "release": self.release,
        }
        described = document(OPERATIONS)

        async def openapi(_request: Request) -> Response:
            return JSONResponse(described)

        routes = [Route(each.path, self._answered(handlers[each.name]), methods=[each.method]) for each in OPERATIONS]
        return [*routes, Route(OPENAPI, openapi, methods=["GET"])]

    # Requests

    async def create(self, request: Request) -> LeaseAnswer:
        body = await _body(request, CreateBody)
        wanted = LeaseRequest(
            id=LeaseId(uuid.uuid4().hex[:16]),
            holder=HolderId(body.holder),
            topics=tuple(map(TopicName, body.topics)),
            most=body.max_records,
            most_bytes=body.max_bytes,
            ttl=body.ttl,
            completed=LeaseId(body.completed) if body.completed is not None else None,
            wait=body.wait,
            ends={each.place: each.end for each in body.ends} if body.ends is not None else None,
        )
        server = self._server(body)
        self._refuse_unknown(server, wanted.topics)
        _refuse_intercepted(server, wanted.topics)
        result = await self._ask(body, lambda pool, ticket: pool.lease(ticket, wanted, server.now()), body.wait)
        return self._granted(server, _expect(result, LeaseGranted))

    async def claim(self, request: Request) -> SettledAnswer:
        body = await _body(request, ClaimBody)
        claim = Claim(
            id=_lease_of(request),
            holder=HolderId(body.holder),
            ranges=_ranges(body.ranges),
            ttl=body.ttl,
            wait=body.wait,
        )
        server = self._server(body)
        places = [server.core.topics.number(each.partition) for each in claim.ranges]
        _refuse_intercepted(server, [place[0] for place in places if place is not None])
        result = await self._ask(body, lambda pool, ticket: pool.claim(ticket, claim, server.now()), body.wait)
        return _settled(_expect(result, LeaseSettled))

    async def renew(self, request: Request) -> LeaseAnswer:
        body, id = await _body(request, RenewBody), _lease_of(request)
        server, holder = self._server(body), HolderId(body.holder)
        result = await self._ask(
            body, lambda pool, ticket: pool.leases.renew(ticket, id, holder, body.ttl, server.now())
        )
        return self._granted(server, _expect(result, LeaseGranted))

    async def acknowledge(self, request: Request) -> SettledAnswer:
        body = await _body(request, AcknowledgeBody)
        wanted = Acknowledgement(
            id=_lease_of(request),
            holder=HolderId(body.holder),
            ranges=_ranges(body.ranges) if body.ranges is not None else None,
            size=body.bytes,
        )
        server = self._server(body)
        result = await self._ask(body, lambda pool, ticket: pool.acknowledge_lease(ticket, wanted, server.now()))
        return _settled(_expect(result, LeaseSettled))

    async def release(self, request: Request) -> SettledAnswer:
        body, id = await _body(request, HolderBody), _lease_of(request)
        server, holder = self._server(body), HolderId(body.holder)
        result = await self._ask(body, lambda pool, ticket: pool.leases.release(ticket, id, holder, server.now()))
        return _settled(_expect(result, LeaseSettled))

    async def list(self, _request: Request) -> LeaseList:
        return LeaseList(
            leases=tuple(
                HeldLease(
                    virtual_cluster=server.name,
                    group=pool.group,
                    lease=lease.id,
                    holder=lease.holder,
                    deadline=_time_of_day(server, lease.deadline),
                    ranges=_bodies(ranges),
                )
                for server in self._pools()
                for pool in server.core.pools.values()
                for lease, ranges in pool.leases.view()
            )
        )

    async def backlog(self, request: Request) -> BacklogAnswer:
        """Answers a request for the backlog. Without `wait` it changes nothing, and does not make the mesh join the
        upstream group."""
        body = await _body(request, BacklogBody)
        server, topics = self._server(body), tuple(map(TopicName, body.topics))
        pool = server.core.pools.get(GroupId(body.group))
        known: Iterable[PartitionBacklog] = pool.leases.backlog(topics) if pool is not None else ()
        if body.wait:
            self._refuse_unknown(server, topics)
            asked = await self._ask(
                body, lambda pool, ticket: pool.await_lease_backlog(ticket, topics, body.wait, server.now()), body.wait
            )
            known = _expect(asked, LeaseBacklog).partitions
        elif body.ends_within and pool is not None:
            asked = await self._ask(
                body,
                lambda pool, ticket: pool.leases.await_ends(ticket, topics, body.ends_within, server.now()),
                body.ends_within,
            )
            known = _expect(asked, LeaseBacklog).partitions
        return BacklogAnswer(
            active=pool is not None or body.wait > 0,
            partitions=tuple(
                PartitionAnswer(
                    cluster=each.partition.cluster,
                    topic=each.partition.topic,
                    partition=each.partition.partition,
                    available=each.available,
                    leased=each.leased,
                    lag=each.lag,
                    end=each.end,
                )
                for each in known
            ),
            isolation=server.isolation,
        )

    # Internals

    def _server(self, body: GroupBody) -> PoolRuntime:
        named = [server for server in self._pools() if server.name == body.virtual_cluster]
        if named:
            return next((each for each in named if each.admits(GroupId(body.group))), named[0])
        known = ", ".join(sorted({server.name for server in self._pools()})) or "none"
        raise self._unknown("unknown_virtual_cluster", f"no virtual cluster {body.virtual_cluster!r}; known: {known}")

    def _unknown(self, error: LeaseError, detail: str) -> LeaseRefused:
        if self._is_serving():
            return LeaseRefused(404, error, detail)
        return LeaseRefused(503, "unavailable", "this process is starting or stopping; ask again, or another one")

    def _refuse_unknown(self, server: PoolRuntime, topics: Iterable[TopicName]) -> None:
        for topic in topics:
            if topic not in server.core.topics:
                server.missing_topic(topic)
                raise self._unknown("unknown_topic", f"virtual cluster {server.name!r} has no topic {topic!r}")

    async def _ask(self, body: GroupBody, step: Callable[[Pool, Ticket], None], wait: float = 0.0) -> object:
        server, group = self._server(body), GroupId(body.group)
        reply = server.leasing(group, step)
        if reply is ErrorCode.COORDINATOR_NOT_AVAILABLE:
            raise LeaseRefused(503, "unavailable", "this process is stopping; ask again, or another one")
        if isinstance(reply, ErrorCode):
            raise LeaseRefused(403, "refused_group", f"group {body.group!r} may not be used here: {reply.name}")
        try:
            async with asyncio.timeout(wait + GRACE):
                return await reply
        except TimeoutError:
            raise LeaseRefused(503, "unavailable", "no answer in time; ask again") from None

    def _granted(self, server: PoolRuntime, granted: LeaseGranted) -> LeaseAnswer:
        named = sorted({each.partition.cluster for each in granted.ranges})
        return LeaseAnswer(
            lease=granted.id,
            deadline=_time_of_day(server, granted.deadline),
            ranges=_bodies(granted.ranges),
            bootstrap_servers={name: self._clusters[name] for name in named},
            isolation=server.isolation,
        )

    def _answered(self, handle: Callable[[Request], Awaitable[LeaseBody]]) -> Handler:
        async def answer(request: Request) -> Response:
            try:
                if not self.may_change:
                    raise LeaseRefused(403, "no_token_set", NO_TOKEN)
                return JSONResponse((await handle(request)).model_dump())
            except LeaseRefused as refused:
                return JSONResponse({"error": refused.error, "detail": refused.detail}, status_code=refused.status)

        return answer


def _refuse_intercepted(server: PoolRuntime, topics: Iterable[TopicName]) -> None:
    """Refuses topics with interceptors. A lease holder reads the upstream cluster itself, and would bypass interceptors
    that hide, check or decrypt records here."""
    for topic in topics:
        if server.is_intercepted(topic):
            detail = f"interceptors see the records of topic {topic!r}, and a lease would bypass them"
            raise LeaseRefused(403, "intercepted_topic", detail)


async def _body(request: Request, kind: type[Given]) -> Given:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > LARGEST_BODY:
            raise LeaseRefused(413, "too_large", f"the body may have {LARGEST_BODY} bytes at most")
    try:
        return kind.model_validate_json(bytes(data))
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the body"
        raise LeaseRefused(422, "invalid", f"{where}: {first['msg']}") from problem


def _lease_of(request: Request) -> LeaseId:
    name = request.path_params["lease"]
    if not 0 < len(name) <= LONGEST_NAME or not name.isascii():
        raise LeaseRefused(422, "invalid", f"a lease's name has 1 to {LONGEST_NAME} ASCII characters")
    return LeaseId(name)


def _expect(result: object, kind: type[Any]) -> Any:
    match result:
        case NotStored():
            raise LeaseRefused(503, "not_stored", "the upstream cluster did not store it in time; ask again")
        case NoRoom(partition, runs):
            detail = f"leases of {partition} would be {runs} runs, for which its commit metadata has no room"
            raise LeaseRefused(503, "no_room", f"{detail}; nothing was done")
        case EndUnknown(partition):
            detail = f"the cluster did not say in time where the log of {partition} ends; ask again"
            raise LeaseRefused(503, "end_unknown", detail)
        case UnknownLease():
            raise LeaseRefused(404, "unknown_lease", "this holder has no such lease; it may have ended")
        case _:
            assert isinstance(result, kind)
            return result


def _time_of_day(server: PoolRuntime, deadline: float) -> float:
    return round(time.time() + deadline - server.now(), 3)


def _ranges(bodies: Iterable[RangeBody]) -> tuple[Range, ...]:
    return tuple(each.to_range() for each in bodies)


def _bodies(ranges: Iterable[Range]) -> tuple[RangeBody, ...]:
    return tuple(
        RangeBody(
            cluster=each.partition.cluster,
            topic=each.partition.topic,
            partition=each.partition.partition,
            first=each.span.first,
            last=each.span.last,
            topic_id=each.topic_id,
        )
        for each in ranges
    )


def _settled(settled: LeaseSettled) -> SettledAnswer:
    return SettledAnswer(done=_bodies(settled.done), lost=_bodies(settled.lost), absent=_bodies(settled.absent))
