"""The core of a virtual cluster with target `pool`: finds the pool of each request, and presents the pools to clients.

Every public method that returns a list of effects is one step. It returns all effects in the outbox, in the order in
which to carry them out.
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
from mesh.pool.common.group_configs import NOTHING_KEPT, KeptShareGroups
from mesh.pool.common.group_rules import GroupRules
from mesh.pool.common.ids import GroupId, MemberId
from mesh.pool.common.outbox import Outbox
from mesh.pool.common.results import (
    CommitResult,
    CommittedOffsets,
    TopicPartition,
)
from mesh.pool.common.settings import PoolSettings, ShareSettings
from mesh.pool.common.sharing import Sharing
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
    """The special timestamps of a ListOffsets request."""

    EARLIEST = -2
    LATEST = -1


class PoolCore:
    """The pools of one virtual cluster, with the connections and requests of its clients."""

    def __init__(
        self,
        name: str,
        topics: VirtualTopics,
        rules: GroupRules,
        settings: PoolSettings,
        memory: MemoryBudget,
        generator: random.Random,
        kept: KeptShareGroups = NOTHING_KEPT,
    ) -> None:
        self.name = name
        self.topics = topics
        self._outbox = outbox = Outbox()
        self.slots: Slots[Member] = Slots(generator)
        self.clients = MemberIndex()
        self._parked: dict[Ticket, Fetch] = {}
        """All parked Fetches of all pools."""
        self._pools = Pools(topics, self.slots, self.clients, rules, settings, memory, self._parked, outbox, kept)
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
    def kept_share_groups(self) -> KeptShareGroups:
        return self._pools.kept

    @property
    def configured_share_settings(self) -> ShareSettings:
        """The settings of share members in groups without overrides."""
        return self._pools.settings.share

    @property
    def violations(self) -> int:
        """The number of pools that were closed because an invariant was violated."""
        return self._pools.violations

    # Time and topics

    def next_deadline(self) -> float | None:
        """Returns the earliest time at which `tick` may have something to do; None for never."""
        unidentified, pools = self._unidentified.timers.next(), self._pools.deadlines.next()
        if unidentified is None or pools is None:
            return pools if unidentified is None else unidentified
        return min(unidentified, pools)

    def tick(self, now: float) -> list[Effect]:
        """Carries out everything that is due."""
        while self._unidentified.timers.fire_next(now):
            pass
        self._pools.tick(now)
        return self._outbox.take_all()

    def topics_changed(self, cluster: ClusterName, topics: Mapping[TopicName, int], now: float) -> list[Effect]:
        """Takes over the topics of one upstream cluster, with their numbers of partitions."""
        before = self.topics.counts()
        if self.topics.update(cluster, topics):
            self._see_topics(before, now)
        return self._outbox.take_all()

    def change_topics(self, topics: VirtualTopics, now: float) -> list[Effect]:
        """Applies a changed configuration of topics. No partition may change its place in it (`VirtualTopics.compare`).
        The caller has drained each cluster with a source that is no longer consumed."""
        before = self.topics.counts()
        self.topics.change(topics)
        self._see_topics(before, now)  # also if no count changed: a source may be back
        return self._outbox.take_all()

    def change_rules(self, rules: GroupRules, grace: float, now: float) -> list[Effect]:
        """Applies changed rules for groups. grace: seconds in which members of groups that are no longer admitted may
        commit."""
        self._pools.change_rules(rules, grace, now)
        return self._outbox.take_all()

    def change_sharing(self, sharing: Sharing, now: float) -> list[Effect]:
        """Applies changed weights, limits and priorities."""
        self._pools.change_sharing(sharing, now)
        return self._outbox.take_all()

    def leave_cluster(self, cluster: ClusterName, grace: float, now: float) -> list[Effect]:
        """Stops consuming an upstream cluster, until `rejoin_cluster`. Members have `grace` seconds to commit their
        records from it. `has_left` is true afterwards."""
        self.topics.withheld.add(cluster)
        for pool in list(self.pools.values()):
            with self._pools.step(pool, now):
                pool.leaving.begin(cluster, grace, now)
        return self._outbox.take_all()

    def has_left(self, cluster: ClusterName) -> bool:
        return not any(cluster in pool.leaving.deadlines for pool in self.pools.values())

    def rejoin_cluster(self, cluster: ClusterName, now: float) -> list[Effect]:
        self.topics.withheld.discard(cluster)
        for pool in list(self.pools.values()):
            with self._pools.step(pool, now):
                pool.leaving.rejoin(cluster, now)
        return self._outbox.take_all()

    def renew_cluster(self, group: GroupId, cluster: ClusterName, grace: float, now: float) -> list[Effect]:
        """Leaves an upstream cluster with one group, and joins it again at once: over another connection. Members have
        `grace` seconds to commit their records from it. `is_renewed` is true afterwards."""
        pool = self.pools.get(group)
        if pool is not None:
            with self._pools.step(pool, now):
                pool.leaving.renew(cluster, grace, now)
        return self._outbox.take_all()

    def is_renewed(self, group: GroupId, cluster: ClusterName) -> bool:
        return group not in self.pools or cluster not in self.pools[group].leaving.deadlines

    def _see_topics(self, before: Mapping[TopicName, int], now: float) -> None:
        counts = self.topics.counts()
        grown = frozenset(name for name, count in counts.items() if 0 < before.get(name, 0) < count)
        for pool in list(self.pools.values()):
            with self._pools.step(pool, now):
                pool.intake.topics_changed()
                pool.partitions_grew(grown, now)

    def missing_topic(self, name: TopicName) -> list[Effect]:
        """Handles a client's request for an unknown topic: refreshes the topics if the topic might exist."""
        if self.topics.might_exist(name):
            self._outbox.put(RefreshTopics())
        return self._outbox.take_all()

    def list_offset(self, timestamp: int) -> int:
        """Returns the offset for a timestamp of ListOffsets. `EARLIEST` is 0. `LATEST` lies above every offset given so
        far, where no record ever is. Any other timestamp gives -1."""
        match timestamp:
            case ListOffset.EARLIEST:
                return 0
            case ListOffset.LATEST:
                return self.slots.latest
            case _:
                return -1

    # Connections

    def connected(self, connection: ConnectionId, client_host: str, node: int = 0) -> None:
        """Registers a new connection. node: the node that the client connected to. A share member has one session with
        each node."""
        self.connections.open(connection, ClientIdentity("", client_host), node)

    def authenticated(self, connection: ConnectionId, principal: Principal) -> None:
        """Sets the principal of a connection. Its client may send no request to the pool before that."""
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
        """Answers a request at once if it is a parked Fetch, because another request waits behind it on its
        connection."""
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
        """Answers OffsetFetch with the position of the member. A consumer in assign() mode names a group without
        joining it, and is about to fetch. So it gets a slot in the pool of that group."""
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
        if member is None and joined is not None and self._has_expired(joined):
            # Its next heartbeat tells it so. Until then it has no position.
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
                self.connections.rebind(joined, state, now)
            committed = CommittedOffsets(ErrorCode.NONE, pool.committed_offsets(member, names))
        return committed, self._outbox.take_all()

    def _has_expired(self, member: Member) -> bool:
        """Returns whether a member of a group is gone without having left it."""
        return bool(member.id) and not member.has_left and self._pools.of_member(member) is None

    def _refuse_epoch(self, group: GroupId, member_id: MemberId, epoch: int) -> ErrorCode:
        """Checks the member and epoch of an OffsetFetch (v9 and later)."""
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
            connection, group, member_id, instance_id, generation, positions, now
        )
        if pool is None or member is None:
            self._outbox.answer(ticket, CommitResult({(topic, index): error for topic, index, _ in positions}))
            return self._outbox.take_all()
        with self._pools.step(pool, now):
            pool.coordinator.note_alive(member_id, now)
            meant = self.connections.correct(pool, member, [offset for _, _, offset in positions])
            self.connections.note_request(connection, meant)
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
        """Carries out `step`, a request for a lease, in the pool of the group. Returns an error if the group does not
        admit it."""
        error = self._pools.refusal(group, now)
        if error is ErrorCode.NONE:
            pool = self._pools.of_group(group, now)
            with self._pools.step(pool, now):
                step(pool)
        return error, self._outbox.take_all()

    # Upstream

    def upstream(self, pool: Pool, event: Callable[[Pool], None], now: float) -> list[Effect]:
        """Passes an event from upstream to a pool. Ignores it if that pool has ended."""
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
        """Begins to stop: delivers nothing more. `is_drained` is true when all is committed, or the grace period is
        over."""
        self._pools.drain_all(grace, now)
        return self._outbox.take_all()

    def drain_state(self, group: GroupId) -> tuple[DrainState, int]:
        return self._pools.drain_state(group)

    @property
    def is_drained(self) -> bool:
        return self._pools.are_drained

    def drain(self, now: float) -> list[Effect]:
        """Answers waiting requests, and leaves every upstream group."""
        self._unidentified.answer_all()
        for pool in list(self.pools.values()):
            with self._pools.step(pool, now):
                pool.end(now)
        return self._outbox.take_all()
