"""A virtual cluster at work: its connections, its engines, its timer. It carries out what the pools decide.

Every decision is a synchronous step of `mesh.pool`; the effects of a step are carried out one by one before the next
request is taken up, whoever caused it.

A bug in a handler ends the connection whose request it was, loudly, and nothing else: it is logged with its traceback
and counted as a request that ended in UNKNOWN_SERVER_ERROR, which is never sent. Any other exception goes to the event
loop, which logs it; what else was to be done is done.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mesh.apis import TABLE
from mesh.apis.api import Authentication, Context, Endpoint, HandlerEffect
from mesh.apis.dispatch import Work, begin
from mesh.pool.effects import (
    Answer,
    AskUpstream,
    DeadLetterUpstream,
    Effect,
    Gone,
    LeaveUpstream,
    RefreshTopics,
    Report,
    SubscribeUpstream,
)
from mesh.pool.fetching import Delivered, FetchResult
from mesh.pool.ids import ConnectionId, GroupId, Ticket
from mesh.pool.notes import Note
from mesh.pool.pool import Pool
from mesh.pool.results import CommitResult
from mesh.pool.virtual_cluster import VirtualCluster
from mesh.records.spans import ClusterName, CommitPosition, TopicName, UpstreamPartition
from mesh.server.administration import Administration
from mesh.server.admission import Admission
from mesh.server.audit import Audit
from mesh.server.authentication import Authenticator
from mesh.server.connection import DownstreamConnection
from mesh.server.dead_letters import Bury, bury_nothing
from mesh.server.engines import EngineFactory, Engines
from mesh.server.journal import Journal
from mesh.server.limits import Descriptors, Gate, Limits
from mesh.server.logs import get_logger
from mesh.server.metrics import Metrics
from mesh.server.outcomes import error_of
from mesh.server.questions import Questions
from mesh.server.security import ListenerSecurity
from mesh.server.telling import Telling
from mesh.server.troubles import Troubles
from mesh.server.upstream_events import UpstreamEvents
from mesh.wire.apis import ApiKey
from mesh.wire.connection import Request
from mesh.wire.errors import ErrorCode, ProtocolError
from mesh.wire.messages import (
    OffsetCommitRequest,
    RequestMessage,
    ResponseMessage,
    SaslAuthenticateResponse,
    SaslHandshakeResponse,
)

log = get_logger(__name__)

_AUTHENTICATION = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})


@dataclass(frozen=True, slots=True)
class _InWork:
    connection: DownstreamConnection
    work: Work


class VirtualClusterServer:
    """create: makes the engine of a pool on an upstream cluster. refresh: look upstream for topics soon. bury: write a
    dead letter. journal: keeps one, if pools leave notes."""

    def __init__(
        self,
        cluster: VirtualCluster,
        endpoint: Endpoint,
        metrics: Metrics,
        create: EngineFactory,
        refresh: Callable[[], None],
        troubles: Troubles,
        administration: Administration,
        bury: Bury = bury_nothing,
        journal: Journal | None = None,
        security: ListenerSecurity | None = None,
        gate: Gate | None = None,
    ) -> None:
        self.cluster = cluster
        self.name = cluster.name
        self.endpoint = endpoint
        self.metrics = metrics
        metrics.watch_virtual_cluster(self.name)
        self.security = security or ListenerSecurity()
        self.authenticator = Authenticator(self.name, metrics, self._answer)
        self._audit = Audit(self.name, metrics)
        self.served = {key: api.versions for key, api in TABLE.items()}
        self.versions = {key: (versions.lowest, versions.highest) for key, versions in self.served.items()}
        self.engines = Engines(create, lambda pool, name, event: self._upstream.happened(pool, name, event))
        self._upstream = UpstreamEvents(cluster, self.engines, metrics, troubles, self.now, self._carry_out)
        self._refresh = refresh
        self._bury = bury
        self._telling = Telling(self.name, metrics, journal)
        self.questions = Questions(administration, self._carry_out)
        self._loop = asyncio.get_running_loop()
        self.admission = Admission(self.name, gate or Gate(Limits(), Descriptors(1 << 20)), metrics, self._loop.time)
        self._connections: dict[ConnectionId, DownstreamConnection] = {}
        self._in_work: dict[Request, _InWork] = {}
        self._ids = itertools.count(1)
        self._effects: deque[HandlerEffect] = deque()
        self._ready: deque[DownstreamConnection] = deque()
        self._carrying_out = False
        self._draining = False
        self._awaited: list[tuple[Callable[[], bool], asyncio.Event]] = []
        """What somebody waits for."""
        self._timer: asyncio.Handle | None = None
        self._due = 0.0

    # Connections

    @property
    def connections(self) -> int:
        return len(self._connections)

    def accept(self) -> DownstreamConnection:
        """A protocol for a connection that is being accepted."""
        return DownstreamConnection(self, ConnectionId(next(self._ids)))

    def connected(self, connection: DownstreamConnection) -> None:
        self._connections[connection.id] = connection
        if self._draining:  # its handshake began before that
            self._loop.call_soon(connection.close)
        self.cluster.connected(connection.id, connection.client_host)
        log.debug("a client connected", virtual_cluster=self.name, connection=connection.id)

    def authenticated(self, connection: DownstreamConnection) -> None:
        assert connection.session.principal is not None
        self.cluster.authenticated(connection.id, connection.session.principal)

    def disconnected(self, connection: DownstreamConnection) -> None:
        del self._connections[connection.id]
        self.admission.leave(connection)
        if connection.in_work is not None:
            self._in_work.pop(connection.in_work, None)
        self._carry_out(self.cluster.disconnected(connection.id, self.now()))

    # Requests

    def now(self) -> float:
        return self._loop.time()

    @property
    def requests_in_work(self) -> int:
        return len(self._in_work)

    def work_soon(self, connection: DownstreamConnection) -> None:
        """Let a connection take up its next request, once everything that was decided before is done."""
        if not self._draining:
            self._ready.append(connection)
            self._carry_out([])

    def handle(self, connection: DownstreamConnection, request: Request) -> None:
        """Raises ProtocolError, also for what may not be asked before the client has authenticated, or authenticated
        again. Such a request is not even decoded."""
        if request.api_key not in _AUTHENTICATION:
            reason = connection.session.refusal(self.now())
            if reason is not None and (reason, request.api_key) != ("unauthenticated", ApiKey.API_VERSIONS):
                raise ProtocolError(reason, f"{request.api_key.name} needs an authentication first")
        message = request.decode()
        context = Context(
            self.cluster,
            self.endpoint,
            self.served,
            connection.id,
            request.client_id or "",
            connection.client_host,
            request.api_version,
            request,
            self.now(),
            time.time(),
            connection.session,
            connection.access,
            connection.empty_answer,
        )
        violations = self.cluster.violations
        work, effects = begin(request.api_key, context, message)
        self._in_work[request] = _InWork(connection, work)
        for refusal in work.refusals:
            self._audit.refused(connection, request, refusal, self.now())
        self._carry_out(effects)
        if self.cluster.violations > violations and not any(_answers(effect, request) for effect in effects):
            connection.abort()  # what was to answer it is closed

    def hurry(self, request: Request) -> None:
        self._carry_out(self.cluster.hurry(request, self.now()))

    def _answer(self, request: Request, result: object) -> None:
        in_work = self._in_work.pop(request, None)
        if in_work is None:
            return
        work = in_work.work
        try:
            response, rest = self._throttled(in_work, work.respond(result), result)
            in_work.connection.answer(request, response)
            in_work.connection.rest(rest)
        except Exception:  # noqa: BLE001 - see the module
            self._failed(in_work.connection, request)
        else:
            self._count(work.request, result)
            self.metrics.request(self.name, request.api_key.name, error_of(response), self.now() - work.context.now)

    def _throttled(self, in_work: _InWork, response: ResponseMessage, result: object) -> tuple[ResponseMessage, float]:
        """The answer, with the time that its connection must rest, as Kafka's quotas have it (KIP-219)."""
        if isinstance(result, FetchResult) and result.delivered is not None and result.delivered.is_new:
            return response, 0.0
        rest = self.admission.take(in_work.connection)
        if rest > 0:
            self.metrics.throttled(self.name, in_work.work.api_key.name)
            if not isinstance(response, SaslHandshakeResponse | SaslAuthenticateResponse):
                response = replace(response, throttle_time_ms=math.ceil(rest * 1000))
        return response, rest

    def _work(self, connection: DownstreamConnection) -> None:
        try:
            connection.work()
        except Exception:  # noqa: BLE001 - see the module
            self._failed(connection, connection.in_work)

    def _failed(self, connection: DownstreamConnection, request: Request | None) -> None:
        log.exception(
            "a connection was closed: kafka-mesh has a bug",
            virtual_cluster=self.name,
            connection=connection.id,
            client_host=connection.client_host,
            detail=repr(request),
        )
        if request is not None:
            self.metrics.request(self.name, request.api_key.name, ErrorCode.UNKNOWN_SERVER_ERROR, 0.0)
        connection.abort()

    def _count(self, message: RequestMessage, result: object) -> None:
        match result:
            case FetchResult(delivered=Delivered(group, topics, redelivered)):
                for topic, (records, size) in topics.items():
                    self.metrics.sent(self.name, group, topic, records, size)
                if redelivered:
                    self.metrics.redelivered(self.name, group, redelivered)
            case CommitResult(errors) if isinstance(message, OffsetCommitRequest):
                for error in errors.values():
                    self.metrics.committed(self.name, message.group_id, error)
            case _:
                pass

    # Leases

    def leasing(self, group: GroupId, step: Callable[[Pool, Ticket], None]) -> asyncio.Future[object] | ErrorCode:
        """Let a holder of leases do a step in the pool of a group, with the ticket that its answer will name. An error
        if it may not."""
        if self._draining:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        reply: asyncio.Future[object] = self._loop.create_future()
        error, effects = self.cluster.leasing(group, lambda pool: step(pool, reply), self.now())
        self._carry_out(effects)
        return reply if error is ErrorCode.NONE else error

    def missing_topic(self, name: TopicName) -> None:
        """Look upstream again soon."""
        self._carry_out(self.cluster.missing_topic(name))

    # Upstream

    def topics_changed(self, cluster: ClusterName, topics: Mapping[TopicName, int]) -> None:
        self._carry_out(self.cluster.topics_changed(cluster, topics, self.now()))

    # Changes, and the end

    def step(self, step: Callable[[VirtualCluster, float], Sequence[Effect]]) -> None:
        """Let an operator do a step, at this time."""
        self._carry_out(step(self.cluster, self.now()))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a step has made it so."""
        if not condition():
            event = asyncio.Event()
            self._awaited.append((condition, event))
            await event.wait()

    def change_limits(self, limits: Limits) -> None:
        self.admission.change(limits, self._connections.values())

    def begin_stop(self, grace: float) -> None:
        """Give no records any more; members have `grace` seconds to commit what they hold."""
        self.step(lambda cluster, now: cluster.begin_stop(grace, now))

    async def drained(self) -> None:
        """Wait until all that members hold is committed, or their time is over."""
        await self.until(lambda: self.cluster.is_drained)

    def drain_pool(self, group: GroupId, grace: float) -> None:
        """As `begin_stop`, for one group; then its upstream groups are left, and its members stay."""
        self.step(lambda cluster, now: cluster.drain_pool(group, grace, now))

    def serve_again(self, group: GroupId) -> None:
        self.step(lambda cluster, now: cluster.serve_again(group, now))

    def drain(self) -> None:
        """Answer what waits, commit, leave the upstream groups. `engines.closed` tells when that is done.

        No request is taken up from now on: it could open what was just closed."""
        self._draining = True
        self._carry_out(self.cluster.drain(self.now()))

    def rules_changed(self) -> None:
        """What connected clients may do is looked at again, from their next request on."""
        for connection in self._connections.values():
            connection.judge()

    def close_connections(self) -> None:
        self.authenticator.close()
        self.questions.close()
        for connection in list(self._connections.values()):
            connection.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Effects

    def _carry_out(self, effects: Sequence[HandlerEffect]) -> None:
        self._effects.extend(effects)
        if self._carrying_out:
            return
        self._carrying_out = True
        try:
            while self._effects or self._ready:
                if self._effects:
                    self._do(self._effects.popleft())
                else:
                    self._work(self._ready.popleft())
        finally:
            self._carrying_out = False
            for each in [each for each in self._awaited if each[0]()]:
                self._awaited.remove(each)
                each[1].set()
            if self._effects or self._ready:
                self._loop.call_soon(self._carry_out, [])
            self._arm()

    def _do(self, effect: HandlerEffect) -> None:
        match effect:
            case Answer(ticket, result):
                self._reply(ticket, result)
            case SubscribeUpstream(group):
                pool = self.cluster.pools.get(group)
                if pool is not None:  # it may have been closed by what followed in the same step
                    self.metrics.watch_group(self.name, group, effect.cluster)
                    self.engines.subscribe(pool, effect)
            case LeaveUpstream(group, positions, cluster):
                self._leave(group, positions, cluster)
            case DeadLetterUpstream(group):
                pool = self.cluster.pools.get(group)
                if pool is not None:
                    self._bury(effect, partial(self._upstream.buried, pool, effect))
            case AskUpstream(ticket, question):
                assert isinstance(ticket, Request)
                self.questions.ask(ticket, question)
            case RefreshTopics():
                self._refresh()
            case Authentication(ticket):
                assert isinstance(ticket, Request)
                in_work = self._in_work.get(ticket)
                if in_work is not None:
                    self.authenticator.carry_out(in_work.connection, effect)
            case Note() | Gone() | Report():
                self._telling.tell(effect)
            case _:
                self.engines.command(effect)

    def _leave(
        self,
        group: GroupId,
        positions: Mapping[UpstreamPartition, CommitPosition],
        cluster: ClusterName | None,
    ) -> None:
        self.engines.close(group, positions, cluster)
        if cluster is not None:
            self._upstream.left(group, cluster)
        else:
            self._upstream.ended(group)
            self.metrics.forget_group(self.name, group)

    def _reply(self, ticket: Ticket, result: object) -> None:
        """To a client, or to a holder of leases."""
        if isinstance(ticket, asyncio.Future):
            if not ticket.done():
                ticket.set_result(result)
            return
        assert isinstance(ticket, Request)
        self._answer(ticket, result)

    def _arm(self) -> None:
        deadline = self.cluster.next_deadline()
        if deadline is None or (self._timer is not None and self._due <= deadline):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._tick)
        self._due = deadline

    def _tick(self) -> None:
        self._timer = None
        # The loop counts milliseconds and may be early by a part of one; asking again would spin until that has passed.
        self._carry_out(self.cluster.tick(max(self.now(), self._due)))


def _answers(effect: HandlerEffect, request: Request) -> bool:
    return isinstance(effect, Answer | Authentication) and effect.ticket is request
