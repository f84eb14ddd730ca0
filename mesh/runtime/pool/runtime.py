"""A virtual cluster at work: its connections, its engines, its timer. It carries out what the pools decide.

Every decision is a synchronous step of `mesh.pool` (`mesh.runtime.pool.step_loop`); those that clients ask for begin
with a request (`mesh.runtime.pool.requests`).
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from mesh.apis import TABLE
from mesh.apis.api import Authentication, Endpoint, HandlerEffect
from mesh.listener.admission import Admission
from mesh.listener.authentication import Authenticator
from mesh.listener.connection import DownstreamConnection
from mesh.listener.limits import Descriptors, Gate, Limits
from mesh.listener.security import ListenerSecurity
from mesh.pool.common.delivery_events import DeliveryEvent
from mesh.pool.common.effects import (
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
from mesh.pool.common.ids import ConnectionId, GroupId, Ticket
from mesh.pool.core import PoolCore
from mesh.pool.pool import Pool
from mesh.records.spans import ClusterName, CommitPosition, TopicName, UpstreamPartition
from mesh.runtime.pool.administration import Administration
from mesh.runtime.pool.dead_letters import WriteDeadLetter, no_dead_letters
from mesh.runtime.pool.engine_events import EngineEvents
from mesh.runtime.pool.engines import EngineFactory, Engines
from mesh.runtime.pool.reports import Reports
from mesh.runtime.pool.requests import Requests
from mesh.runtime.pool.step_loop import StepLoop
from mesh.runtime.pool.tool_queries import ToolQueries
from mesh.telemetry.journal import Journal
from mesh.telemetry.logs import get_logger
from mesh.telemetry.metrics import Metrics
from mesh.telemetry.upstream_health import UpstreamHealth
from mesh.upstream.engine import Isolation
from mesh.wire.connection import Request
from mesh.wire.errors import ErrorCode

log = get_logger(__name__)


class PoolRuntime:
    """create: makes the engine of a pool on an upstream cluster. refresh: look upstream for topics soon. bury: write a
    dead letter. journal: keeps one, if pools leave notes. isolation: by which the engines read."""

    def __init__(
        self,
        cluster: PoolCore,
        endpoint: Endpoint,
        metrics: Metrics,
        create: EngineFactory,
        refresh: Callable[[], None],
        upstream_health: UpstreamHealth,
        administration: Administration,
        write_dead_letter: WriteDeadLetter = no_dead_letters,
        journal: Journal | None = None,
        security: ListenerSecurity | None = None,
        gate: Gate | None = None,
        isolation: Isolation = "read_committed",
    ) -> None:
        self.cluster = cluster
        self.isolation = isolation
        self.name = cluster.name
        self.metrics = metrics
        metrics.watch_virtual_cluster(self.name)
        self.security = security or ListenerSecurity()
        self.versions = {key: (api.versions.lowest, api.versions.highest) for key, api in TABLE.items()}
        self._loop = asyncio.get_running_loop()
        self.admission = Admission(self.name, gate or Gate(Limits(), Descriptors(1 << 20)), metrics, self._loop.time)
        self._step_loop = StepLoop(cluster, self._do, lambda connection: self._requests.work(connection))
        self._requests = Requests(cluster, endpoint, metrics, self.admission, self._step_loop)
        self.authenticator = Authenticator(self.name, metrics, self._requests.answer)
        self.engines = Engines(create, lambda pool, name, event: self._upstream.happened(pool, name, event))
        self._upstream = EngineEvents(
            cluster, self.engines, metrics, upstream_health, self.now, self._step_loop.carry_out
        )
        self._refresh = refresh
        self._write_dead_letter = write_dead_letter
        self._reports = Reports(self.name, metrics, journal)
        self.questions = ToolQueries(administration, self._step_loop.carry_out)
        self._connections: dict[ConnectionId, DownstreamConnection] = {}
        self._ids = itertools.count(1)
        self._draining = False

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
            self._requests.forget(connection.in_work)
        self._step_loop.carry_out(self.cluster.disconnected(connection.id, self.now()))

    # Requests

    def now(self) -> float:
        return self._loop.time()

    @property
    def requests_in_work(self) -> int:
        return len(self._requests)

    def work_soon(self, connection: DownstreamConnection) -> None:
        """Let a connection take up its next request, once everything that was decided before is done."""
        if not self._draining:
            self._step_loop.work_soon(connection)

    def handle(self, connection: DownstreamConnection, request: Request) -> None:
        """Raises ProtocolError for what may not be asked yet, or cannot be read."""
        self._requests.handle(connection, request)

    def answer_early(self, request: Request) -> None:
        self._step_loop.carry_out(self.cluster.answer_early(request, self.now()))

    # Leases

    def leasing(self, group: GroupId, step: Callable[[Pool, Ticket], None]) -> asyncio.Future[object] | ErrorCode:
        """Let a holder of leases do a step in the pool of a group, with the ticket that its answer will name. An error
        if it may not."""
        if self._draining:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        reply: asyncio.Future[object] = self._loop.create_future()
        error, effects = self.cluster.leasing(group, lambda pool: step(pool, reply), self.now())
        self._step_loop.carry_out(effects)
        return reply if error is ErrorCode.NONE else error

    def missing_topic(self, name: TopicName) -> None:
        """Look upstream again soon."""
        self._step_loop.carry_out(self.cluster.missing_topic(name))

    # Upstream

    def topics_changed(self, cluster: ClusterName, topics: Mapping[TopicName, int]) -> None:
        self._step_loop.carry_out(self.cluster.topics_changed(cluster, topics, self.now()))

    # Changes, and the end

    def step(self, step: Callable[[PoolCore, float], Sequence[Effect]]) -> None:
        """Let an operator do a step, at this time."""
        self._step_loop.carry_out(step(self.cluster, self.now()))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a step has made it so."""
        await self._step_loop.until(condition)

    def change_endpoint(self, endpoint: Endpoint) -> None:
        """What clients are told to come to, from the next answer on."""
        self._requests.endpoint = endpoint

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
        self._step_loop.carry_out(self.cluster.drain(self.now()))

    def rules_changed(self) -> None:
        """What connected clients may do is looked at again, from their next request on."""
        for connection in self._connections.values():
            connection.judge()

    def close_connections(self) -> None:
        self.authenticator.close()
        self.questions.close()
        for connection in list(self._connections.values()):
            connection.close()
        self._step_loop.close()

    # Effects

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
                    self._write_dead_letter(effect, partial(self._upstream.dead_letter_written, pool, effect))
            case AskUpstream(ticket, question):
                assert isinstance(ticket, Request)
                self.questions.ask(ticket, question)
            case RefreshTopics():
                self._refresh()
            case Authentication(ticket):
                assert isinstance(ticket, Request)
                connection = self._requests.connection(ticket)
                if connection is not None:
                    self.authenticator.carry_out(connection, effect)
            case DeliveryEvent() | Gone() | Report():
                self._reports.tell(effect)
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
        self._requests.answer(ticket, result)
