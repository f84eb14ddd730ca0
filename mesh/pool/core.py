"""A virtual cluster with target `pool`: what its clients see, and which pool each of their requests belongs to.

Every public method is one step and returns all that the outbox has then: the effects to be carried out, in order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum

from mesh.apis.answers import ConnectionId, Ticket
from mesh.memory import MemoryBudget
from mesh.pool.common.client import ClientIdentity
from mesh.pool.common.effects import Effect, RefreshTopics
from mesh.pool.common.group_rules import GroupRules
from mesh.pool.common.ids import GroupId, MemberId
from mesh.pool.common.outbox import Outbox
from mesh.pool.common.results import (
    CommitResult,
    CommittedOffsets,
    TopicPartition,
)
from mesh.pool.common.settings import PoolSettings
from mesh.pool.common.topics import VirtualTopics
from mesh.pool.groups.member_index import MemberIndex
from mesh.pool.identity.connections import Connections
from mesh.pool.identity.group_requests import GroupRequests
from mesh.pool.identity.share_requests import ShareRequests
from mesh.pool.identity.tools import Tools
from mesh.pool.identity.unidentified_fetches import UnidentifiedFetches
from mesh.pool.intake.drain import DrainState
from mesh.pool.pool import Pool
from mesh.pool.pools import Pools
from mesh.pool.state.fetch import FetchedPartition, FetchParameters, FetchResult
from mesh.pool.state.member import Member
from mesh.pool.state.partition import Fetch
from mesh.pool.state.slots import Slots, SlotsExhausted
from mesh.records.spans import ClusterName, TopicName
from mesh.security.principals import Principal
from mesh.wire.errors import ErrorCode


class ListOffset(IntEnum):
    """The timestamps of ListOffsets that stand for an end of the log."""

    EARLIEST = -2
    LATEST = -1


class PoolCore:
    def __init__(
        self,
        name: str,
        topics: VirtualTopics,
        rules: GroupRules,
        settings: PoolSettings,
        memory: MemoryBudget,
        generator: random.Random,
    ) -> None:
        self.name = name
        self.topics = topics
        self._outbox = outbox = Outbox()
        self.slots: Slots[Member] = Slots(generator)
        self.clients = MemberIndex()
        self._parked: dict[Ticket, Fetch] = {}
        """Every Fetch that waits in a pool, of all pools."""
        self._pools = Pools(topics, self.slots, self.clients, rules, settings, memory, self._parked, outbox)
        self.connections = Connections(topics, self.slots, self.clients, self._pools, settings)
        self.groups = GroupRequests(self._pools, self.connections, self.slots, outbox)
        self.shares = ShareRequests(self._pools, self.connections, self.slots, settings.share, outbox)
        self._unidentified = UnidentifiedFetches(self.connections, outbox)
        self.tools = Tools()

    @property
    def pools(self) -> dict[GroupId, Pool]:
        return self._pools.by_group

    @property
    def rules(self) -> GroupRules:
        return self._pools.rules

    @property
    def violations(self) -> int:
        """How many pools had to be closed because they contradicted themselves."""
        return self._pools.violations

    # Time and topics

    def next_deadline(self) -> float | None:
        """When `tick` may have something to do, at the earliest; None for never."""
        unidentified, pools = self._unidentified.timers.next(), self._pools.deadlines.next()
        if unidentified is None or pools is None:
            return pools if unidentified is None else unidentified
        return min(unidentified, pools)

    def tick(self, now: float) -> list[Effect]:
        """Do what is due."""
        while self._unidentified.timers.fire_next(now):
            pass
        self._pools.tick(now)
        return self._outbox.take_all()

    def topics_changed(self, cluster: ClusterName, topics: Mapping[TopicName, int], now: float) -> list[Effect]:
        """All topics of one upstream cluster and how many partitions each has."""
        before = self.topics.counts()
        if self.topics.update(cluster, topics):
            self._see_topics(before, now)
        return self._outbox.take_all()

    def change_topics(self, topics: VirtualTopics, now: float) -> list[Effect]:
        """Another configuration of topics, of which nothing moves (`VirtualTopics.compare`). Clusters of which
        something is not consumed any more have been left before."""
        before = self.topics.counts()
        self.topics.change(topics)
        self._see_topics(before, now)  # also where clients see no difference: a source may be there again
        return self._outbox.take_all()

    def change_rules(self, rules: GroupRules, grace: float, now: float) -> list[Effect]:
        """grace: seconds that members of groups have which are not admitted any more."""
        self._pools.change_rules(rules, grace, now)
        return self._outbox.take_all()

    def leave_cluster(self, cluster: ClusterName, grace: float, now: float) -> list[Effect]:
        """Consume nothing of an upstream cluster, until `come_back_to`; members have `grace` seconds to commit what
        they hold of it. `has_left` tells when that is over."""
        self.topics.withheld.add(cluster)
        for pool in list(self.pools.values()):
            with self._pools.step(pool, now):
                pool.leaving.begin(cluster, grace, now)
        return self._outbox.take_all()

    def has_left(self, cluster: ClusterName) -> bool:
        return not any(cluster in pool.leaving.deadlines for pool in self.pools.values())

    def come_back_to(self, cluster: ClusterName, now: float) -> list[Effect]:
        self.topics.withheld.discard(cluster)
        for pool in list(self.pools.values()):
            with self._pools.step(pool, now):
                pool.leaving.come_back(cluster, now)
        return self._outbox.take_all()

    def _see_topics(self, before: Mapping[TopicName, int], now: float) -> None:
        counts = self.topics.counts()
        grown = frozenset(name for name, count in counts.items() if 0 < before.get(name, 0) < count)
        for pool in list(self.pools.values()):
            with self._pools.step(pool, now):
                pool.intake.topics_changed()
                pool.partitions_grew(grown, now)

    def missing_topic(self, name: TopicName) -> list[Effect]:
        """A client asked for a topic that is not known."""
        if self.topics.might_exist(name):
            self._outbox.put(RefreshTopics())
        return self._outbox.take_all()

    def list_offset(self, timestamp: int) -> int:
        """Earliest is 0; latest lies above every offset given, where no record ever is; no other time is known."""
        match timestamp:
            case ListOffset.EARLIEST:
                return 0
            case ListOffset.LATEST:
                return self.slots.latest
            case _:
                return -1

    # Connections

    def connected(self, connection: ConnectionId, client_host: str) -> None:
        self.connections.open(connection, ClientIdentity("", client_host))

    def authenticated(self, connection: ConnectionId, principal: Principal) -> None:
        """It is known who the client is; before that it may not ask for anything that comes here."""
        state = self.connections[connection]
        state.client = replace(state.client, principal=principal)

    def disconnected(self, connection: ConnectionId, now: float) -> list[Effect]:
        state = self.connections.close(connection)
        if state is not None:
            self._unidentified.disconnected(state)
        for member in state.members if state is not None else ():
            pool = self._pools.of_member(member)
            if pool is not None:
                with self._pools.step(pool, now):
                    pool.disconnected(member, connection, now)
        return self._outbox.take_all()

    def answer_early(self, ticket: Ticket, now: float) -> list[Effect]:
        """Another request waits behind this one on its connection: if it is a parked Fetch, answer it."""
        fetch = self._parked.get(ticket)
        if fetch is None:
            self._unidentified.answer(ticket)
        else:
            pool = self.pools[fetch.member.group]
            with self._pools.step(pool, now):
                pool.serving.answer(fetch, now)
        return self._outbox.take_all()

    # Offsets

    def committed_offsets(
        self,
        connection: ConnectionId,
        client_id: str,
        group: GroupId,
        member_id: str,
        names: Sequence[TopicPartition],
        now: float,
        epoch: int = -1,
    ) -> tuple[CommittedOffsets, list[Effect]]:
        """Where the asking member stands. A consumer that names a group without having joined it is given a slot of
        its own in that group's pool: it is about to fetch from there (assign() mode)."""
        error = self._pools.refusal(group, now)
        if error is ErrorCode.NONE and self.connections.is_anothers(connection, group, member_id):
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if error is ErrorCode.NONE and member_id and epoch >= 0:
            error = self._refuse_epoch(group, MemberId(member_id), epoch)
        if error is not ErrorCode.NONE:
            return CommittedOffsets(error, {}), self._outbox.take_all()
        pool = self._pools.of_group(group, now)
        state = self.connections[connection]
        state.set_client_id(client_id)
        member, joined = pool.members.by_id.get(MemberId(member_id)), state.joined.get(group)
        if member is None and joined is not None and joined.id and self._pools.of_member(joined) is None:
            # It has expired, and learns so by its next heartbeat; until then it stands nowhere.
            return CommittedOffsets(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, {}), self._outbox.take_all()
        member = member or joined
        if member is not None and self._pools.of_member(member) is not pool:
            member = None
        if member is None and not self._pools.has_room_for_groupless(pool):
            return CommittedOffsets(ErrorCode.GROUP_MAX_SIZE_REACHED, {}), self._outbox.take_all()
        committed = CommittedOffsets(ErrorCode.COORDINATOR_NOT_AVAILABLE, {})
        with self._pools.step(pool, now):
            if member is None:
                member = pool.members.add_groupless(state.client, now)
                state.joined[group] = member
                member.connections.add(connection)
            committed = CommittedOffsets(ErrorCode.NONE, pool.committed_offsets(member, names))
        return committed, self._outbox.take_all()

    def _refuse_epoch(self, group: GroupId, member_id: MemberId, epoch: int) -> ErrorCode:
        """Of OffsetFetch, which names its member from v9 on."""
        pool = self.pools.get(group)
        membership = pool.coordinator.members.get(member_id) if pool is not None else None
        if membership is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        is_stale = membership.subscription is not None and membership.generation != epoch
        return ErrorCode.STALE_MEMBER_EPOCH if is_stale else ErrorCode.NONE

    def commit(
        self,
        connection: ConnectionId,
        ticket: Ticket,
        group: GroupId,
        member_id: MemberId,
        instance_id: str | None,
        generation: int,
        positions: Sequence[tuple[TopicName, int, int]],
        now: float,
    ) -> list[Effect]:
        pool, member, error = self.connections.committer(
            connection, group, member_id, instance_id, generation, positions
        )
        if pool is None or member is None:
            self._outbox.answer(ticket, CommitResult({(topic, index): error for topic, index, _ in positions}))
            return self._outbox.take_all()
        with self._pools.step(pool, now):
            pool.coordinator.hear(member_id, now)
            meant = self.connections.correct(pool, member, [offset for _, _, offset in positions])
            self.connections.heard(connection, meant)
            pool.commit(meant, ticket, positions, now)
        return self._outbox.take_all()

    # Fetch

    def fetch(
        self, connection: ConnectionId, client_id: str, ticket: Ticket, request: FetchParameters, now: float
    ) -> list[Effect]:
        state = self.connections[connection]
        state.set_client_id(client_id)
        try:
            member, guessed = self.connections.fetching_member(state, request, now)
        except SlotsExhausted:
            member, guessed = None, False
        if member is not None:
            pool = self._pools.of_member(member)
            assert pool is not None
            with self._pools.step(pool, now):
                before = state.fetching
                self.connections.bind(state, member, guessed)
                self.connections.rebind(before, state, now)
                pool.fetch(member, connection, ticket, request, now)
            return self._outbox.take_all()
        if self.rules.group_less is None and state.unidentified_since is None:
            refused = FetchedPartition(ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1)
            self._outbox.answer(ticket, FetchResult(tuple(refused for _ in request.partitions)))
        else:
            self._unidentified.park(state, ticket, request, now)
        return self._outbox.take_all()

    # Leases

    def leasing(self, group: GroupId, step: Callable[[Pool], None], now: float) -> tuple[ErrorCode, list[Effect]]:
        """A holder of leases, or one about to be, asks for something; `step` does it. An error if it may not."""
        error = self._pools.refusal(group, now)
        if error is ErrorCode.NONE:
            pool = self._pools.of_group(group, now)
            with self._pools.step(pool, now):
                step(pool)
        return error, self._outbox.take_all()

    # Upstream

    def upstream(self, pool: Pool, event: Callable[[Pool], None], now: float) -> list[Effect]:
        """Tell a pool what happened upstream; ignored when that pool has ended."""
        if self.pools.get(pool.group) is pool:
            with self._pools.step(pool, now):
                event(pool)
        return self._outbox.take_all()

    def drain_pool(self, group: GroupId, grace: float, now: float) -> list[Effect]:
        self._pools.drain(group, grace, now)
        return self._outbox.take_all()

    def serve_again(self, group: GroupId, now: float) -> list[Effect]:
        self._pools.serve_again(group, now)
        return self._outbox.take_all()

    def begin_stop(self, grace: float, now: float) -> list[Effect]:
        """The process stops: give nothing any more. `is_drained` tells when all is committed, or the time is over."""
        self._pools.drain_all(grace, now)
        return self._outbox.take_all()

    def drain_state(self, group: GroupId) -> tuple[DrainState, int]:
        return self._pools.drain_state(group)

    @property
    def is_drained(self) -> bool:
        return self._pools.are_drained

    def drain(self, now: float) -> list[Effect]:
        """Answer what waits, and leave every upstream group."""
        self._unidentified.answer_all()
        for pool in list(self.pools.values()):
            with self._pools.step(pool, now):
                pool.answer_all(now)
                pool.end()
        return self._outbox.take_all()
