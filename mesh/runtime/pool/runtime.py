"""The runtime of a virtual cluster with pools: its connections, its engines, its timer. It executes the decisions of
the pools.

Every decision is a synchronous step of `mesh.pool` (`mesh.runtime.pool.step_loop`). The steps that clients ask for
begin with a request (`mesh.runtime.pool.pool_requests`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from mesh.apis.answers import Answer, Ticket
from mesh.config.listeners import FIRST, ListenerName
from mesh.listener.listener import Listener
from mesh.listener.requests import PendingRequest, Requests
from mesh.pool.apis.context import Endpoint
from mesh.pool.apis.elsewhere import GROUPS_ELSEWHERE, RECORDS_ELSEWHERE
from mesh.pool.common.delivery_events import DeliveryEvent
from mesh.pool.common.effects import (
    AskUpstream,
    ChangeGroupConfigs,
    DeadLetterUpstream,
    Effect,
    GivenUp,
    Gone,
    KeepShareGroup,
    LeaveUpstream,
    RefreshTopics,
    Report,
    SubscribeUpstream,
)
from mesh.pool.common.ids import GroupId
from mesh.pool.common.queries import LogOffset
from mesh.pool.core import PoolCore
from mesh.pool.pool import Pool
from mesh.records.spans import ClusterName, CommitPosition, TopicName, UpstreamPartition
from mesh.runtime.pool.administration import Administration
from mesh.runtime.pool.connection import PoolConnection
from mesh.runtime.pool.dead_letters import WriteDeadLetter, no_dead_letters
from mesh.runtime.pool.engine_events import EngineEvents
from mesh.runtime.pool.engines import EngineFactory, Engines
from mesh.runtime.pool.pool_requests import PoolRequests
from mesh.runtime.pool.pool_status import Status, status_of
from mesh.runtime.pool.reports import Reports
from mesh.runtime.pool.share_groups import ShareGroups
from mesh.runtime.pool.step_loop import StepLoop
from mesh.runtime.pool.tool_queries import ToolQueries
from mesh.tasks import OwnedTask, TaskName, guarded, is_order, report
from mesh.telemetry.journal import DeliveryLog
from mesh.telemetry.logs import get_logger
from mesh.telemetry.upstream_health import UpstreamHealth
from mesh.upstream.engine import Isolation
from mesh.wire.errors import ErrorCode

log = get_logger(__name__)

FETCHES: Final = 1.5
HEARTBEATS: Final = 4.0
"""Seconds in which clients learn to use another process: they fetch several times a second, and most send a heartbeat
every three seconds."""


class PoolRuntime:
    """The runtime of one virtual cluster with pools behind it. Implements `mesh.listener.target.Target`.

    create: makes the engine of a pool on an upstream cluster. refresh: requests that topics are looked up soon.
    share_groups: the share groups in the store. write_dead_letter: writes a dead letter. journal: takes delivery
    events, if the pools produce them. isolation: the isolation level of the engines. is_intercepted: returns True if
    interceptors see the records of a topic.
    """

    def __init__(
        self,
        core: PoolCore,
        listener: Listener,
        endpoint: Endpoint,
        create: EngineFactory,
        refresh: Callable[[], None],
        upstream_health: UpstreamHealth,
        administration: Administration,
        share_groups: ShareGroups,
        write_dead_letter: WriteDeadLetter = no_dead_letters,
        journal: DeliveryLog | None = None,
        isolation: Isolation = "read_committed",
        is_intercepted: Callable[[TopicName], bool] = lambda _: False,
    ) -> None:
        self.core = core
        self.is_intercepted: Final = is_intercepted
        self.isolation = isolation
        self.name = core.name
        self.listener = listener
        self._metrics = listener.metrics
        self._loop = asyncio.get_running_loop()
        self.now: Final[Callable[[], float]] = self._loop.time
        self._step_loop = StepLoop(core, self._do, self._not_done)
        self._handler = PoolRequests(listener, core, endpoint, self._step_loop)
        self._requests = Requests(listener, self._handler)
        self._versions = {key: (served.lowest, served.highest) for key, served in self._requests.served.items()}
        self._events = EngineEvents(core, self._metrics, upstream_health, self.now, self._step_loop.carry_out)
        self.engines = Engines(create, self._events)
        self._refresh = refresh
        self._write_dead_letter = write_dead_letter
        self._reports = Reports(self.name, self._metrics, journal)
        self._share_groups = share_groups
        self.tool_queries = ToolQueries(administration, share_groups, self._step_loop.carry_out)
        self._is_draining = False

    # Connections

    def accept(self, node: int | None = None, listener: ListenerName = FIRST) -> PoolConnection:
        """Makes a connection for a client. All addresses serve a client alike, but a share member has a session with
        each node."""
        return PoolConnection(self.listener, self.core, self._step_loop, self._requests, self._versions, node or 0)

    def status(self) -> Status:
        """Returns the state of all pools, with their members and partitions."""
        return status_of(self.core, self.now(), time.time())

    def admits(self, group: GroupId) -> bool:
        """True if this target admits a group. Of several targets at one address at most one does."""
        return self.core.rules.refusal(group) is ErrorCode.NONE

    # Leases

    def leasing(self, group: GroupId, step: Callable[[Pool, Ticket], None]) -> asyncio.Future[object] | ErrorCode:
        """Runs a step for a holder of leases in the pool of a group. Returns the future of the answer, which is the
        ticket that the step gets, or the error with which the step is refused."""
        if self._is_draining:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        reply: asyncio.Future[object] = self._loop.create_future()
        error, effects = self.core.leasing(group, lambda pool: step(pool, reply), self.now())
        self._step_loop.carry_out(effects)
        return reply if error is ErrorCode.NONE else error

    async def offsets_at(self, times: Mapping[UpstreamPartition, int]) -> Mapping[UpstreamPartition, LogOffset]:
        """Looks up the offsets of times, as `ToolQueries.offsets_at` does."""
        return await self.tool_queries.offsets_at(times)

    def missing_topic(self, name: TopicName) -> None:
        """Notes that clients ask for an unknown topic. The mesh soon checks whether it exists upstream by now."""
        self._step_loop.carry_out(self.core.missing_topic(name))

    # Upstream

    def topics_changed(self, cluster: ClusterName, topics: Mapping[TopicName, int]) -> None:
        self._step_loop.carry_out(self.core.topics_changed(cluster, topics, self.now()))

    # Changes and the end

    def step(self, step: Callable[[PoolCore, float], Sequence[Effect]]) -> None:
        """Runs a step for an operator, now."""
        self._step_loop.carry_out(step(self.core, self.now()))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until the condition holds after a step."""
        await self._step_loop.until(condition)

    @property
    def groups(self) -> list[GroupId]:
        """The groups of the pools that exist at present."""
        return list(self.core.pools)

    async def renew(self, group: GroupId, cluster: ClusterName, grace: float) -> None:
        """Lets a group join an upstream cluster again, with another client. Members have `grace` seconds to commit
        their records from it."""
        self.step(lambda core, now: core.renew_cluster(group, cluster, grace, now))
        await self.until(lambda: self.core.is_renewed(group, cluster))
        await self.engines.replaced(group, cluster)

    def change_login(self, cluster: ClusterName, username: str, password: str) -> None:
        """Uses another user name and password at a cluster from the next connections on."""
        self.engines.change_login(cluster, username, password)
        self.tool_queries.change_login(cluster, username, password)

    def change_endpoint(self, endpoint: Endpoint) -> None:
        """Changes the addresses for clients, from the next response on."""
        self._handler.endpoint = endpoint

    @property
    def endpoint(self) -> Endpoint:
        """The addresses for clients."""
        return self._handler.endpoint

    async def move_clients_to(self, endpoint: Endpoint) -> None:
        """Leads clients to another process, from the next response on. Returns when most of them have got one."""
        self.change_endpoint(endpoint)
        self._requests.replace(RECORDS_ELSEWHERE)
        await asyncio.sleep(FETCHES)
        self._requests.replace(GROUPS_ELSEWHERE)
        await asyncio.sleep(HEARTBEATS)

    def begin_stop(self, grace: float) -> None:
        """Delivers no more records; members have `grace` seconds to commit what they hold."""
        self.step(lambda cluster, now: cluster.begin_stop(grace, now))

    async def drained(self) -> None:
        """Waits until all that members hold is committed, or their time is over."""
        await self.until(lambda: self.core.is_drained)

    def drain_pool(self, group: GroupId, grace: float) -> None:
        """Delivers no more records of one group; its members have `grace` seconds to commit what they hold. Then the
        pool leaves its upstream groups, and its members stay."""
        self.step(lambda cluster, now: cluster.drain_pool(group, grace, now))

    def serve_again(self, group: GroupId) -> None:
        self.step(lambda cluster, now: cluster.serve_again(group, now))

    def drain(self) -> None:
        """Answers waiting requests, commits, and leaves the upstream groups. `engines.closed` returns when that is
        done.

        From now on no request is handled: it could open again what was just closed.
        """
        self._is_draining = True
        self.listener.begin_stop()
        self._step_loop.stop_requests()
        self._step_loop.carry_out(self.core.drain(self.now()))

    async def closed(self) -> None:
        await self.engines.closed()

    def close_connections(self) -> None:
        self.tool_queries.close()
        self._share_groups.close()
        self.listener.close()
        self._step_loop.close()

    # Effects

    def _do(self, effect: Effect) -> None:
        match effect:
            case Answer(ticket, result):
                self._reply(ticket, result)
            case SubscribeUpstream(group):
                pool = self.core.pools.get(group)
                if pool is not None:  # a later effect of the same step may have closed it
                    self._metrics.watch_group(self.name, group, effect.cluster)
                    self.engines.subscribe(pool, effect)
            case LeaveUpstream(group, positions, cluster):
                self._leave(group, positions, cluster, comes_back=effect.comes_back)
            case DeadLetterUpstream():
                self._bury(effect)
            case AskUpstream(ticket, question):
                assert isinstance(ticket, PendingRequest)
                self.tool_queries.ask(ticket, question)
            case KeepShareGroup(group):
                self._share_groups.keep(group)
            case ChangeGroupConfigs():
                self._share_groups.change(effect, self._step_loop.carry_out)
            case RefreshTopics():
                self._refresh()
            case DeliveryEvent() | GivenUp() | Gone() | Report():
                self._reports.report(effect)
            case _:
                self.engines.command(effect)

    def _not_done(self, effect: Effect, problem: BaseException) -> None:
        """Reports an effect that failed. The client whose request caused the step may have no part in it."""
        group = getattr(effect, "group", "")
        report(OwnedTask(TaskName.EFFECT, self.name, group=group), problem)

    def _bury(self, effect: DeadLetterUpstream) -> None:
        pool = self.core.pools.get(effect.group)
        if pool is None:
            return
        ended = partial(self._events.dead_letter_written, pool, effect)
        try:
            self._write_dead_letter(effect, ended)
        except BaseException as problem:
            if is_order(problem):
                raise
            # A writer that cannot be made is one that failed. The pool tries again.
            self._loop.call_soon(
                guarded(OwnedTask(TaskName.EFFECT, self.name, group=effect.group), ended), repr(problem)
            )

    def _leave(
        self,
        group: GroupId,
        positions: Mapping[UpstreamPartition, CommitPosition],
        cluster: ClusterName | None,
        *,
        comes_back: bool,
    ) -> None:
        self.engines.close(group, positions, cluster, leaves=not comes_back)
        if cluster is not None:
            self._events.left(group, cluster)
        else:
            self._events.ended(group)
            self._metrics.forget_group(self.name, group)

    def _reply(self, ticket: Ticket, result: object) -> None:
        """Gives a result to a client or to a holder of leases."""
        if isinstance(ticket, asyncio.Future):
            if not ticket.done():
                ticket.set_result(result)
            return
        assert isinstance(ticket, PendingRequest)
        self._requests.answer(ticket, result)
