"""Random lives of members of the consumer protocol (KIP-848): epochs, lost answers, static members, expiry."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mesh.apis.answers import ConnectionId
from mesh.pool.common import client as clients
from mesh.pool.common.ids import MemberId
from mesh.pool.common.results import ConsumerHeartbeatResult
from mesh.pool.groups.consumer_protocol import JOIN, LEAVE, LEAVE_FOR_A_WHILE, SESSION_TIMEOUT, ConsumerHeartbeat
from mesh.records.spans import TopicName
from mesh.wire.errors import ErrorCode
from tests.pool.harness import EU, GROUP, ORDERS, World
from tests.pool.names import HOST

OTHER = TopicName("payments")
SUBSCRIPTIONS = st.sampled_from([(), (ORDERS,), (OTHER,), (ORDERS, OTHER), (TopicName("unknown"), ORDERS)])
PATTERNS = st.sampled_from(["", "", "ord.*", ".*", "pay", "[a-z]*s"])
NUMBER = st.integers(0, 3)
LONG_AGO = -1.0


@dataclass
class Client:
    """A client's own view. epoch: 0 before it has joined."""

    member_id: MemberId
    connection: ConnectionId
    instance_id: str | None
    epoch: int = JOIN
    topics: tuple[TopicName, ...] = ()
    pattern: str = ""
    assigned: dict[TopicName, int] = field(default_factory=dict)
    heard: float = LONG_AGO
    unsure: bool = False

    def take(self, result: ConsumerHeartbeatResult, now: float) -> None:
        self.unsure = result.error is not ErrorCode.NONE
        if result.error is not ErrorCode.NONE:
            self.epoch, self.assigned = JOIN, {}
            return
        self.epoch, self.heard = result.epoch, now
        if result.assignment is not None:
            self.assigned = dict(result.assignment)


class ConsumerProtocolMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.world = World()
        self.sizes: dict[TopicName, int] = {ORDERS: 2}
        self.clients = [
            Client(MemberId(f"m{number}"), self.world.connect(), "pod-1" if number < 2 else None) for number in range(4)
        ]
        self.seen: dict[MemberId, int] = {}

    def beat(self, client: Client, epoch: int, *, full: bool = True, told: bool = True) -> ConsumerHeartbeatResult:
        joins = epoch == JOIN
        owned: Mapping[TopicName, frozenset[int]] | None = {
            name: frozenset(range(count)) for name, count in client.assigned.items()
        }
        heartbeat = ConsumerHeartbeat(
            member_id=client.member_id,
            epoch=epoch,
            instance_id=client.instance_id,
            rebalance_timeout=60.0 if full or joins else None,
            topics=client.topics if full or joins else None,
            pattern=client.pattern if full or joins else None,
            assignor=None,
            owned={} if joins else owned if full else None,
            client=clients.ClientIdentity(str(client.member_id), HOST),
        )
        assert heartbeat.problem is None
        world, ticket = self.world, self.world.ticket()
        world.do(world.cluster.groups.consumer_heartbeat(client.connection, ticket, GROUP, heartbeat, world.now))
        result = world.answer(ticket, ConsumerHeartbeatResult)
        if told:
            client.take(result, world.now)
        return result

    @property
    def members(self) -> set[MemberId]:
        pool = self.world.cluster.pools.get(GROUP)
        return set(pool.coordinator.members) if pool is not None else set()

    def expected(self, client: Client) -> dict[TopicName, int]:
        topics = self.world.cluster.topics
        wanted = {*client.topics, *(name for name in topics.names() if re.fullmatch(client.pattern or "-", name))}
        return {name: len(topics.partitions(name)) for name in wanted if name in topics}

    @rule(number=NUMBER, topics=SUBSCRIPTIONS, pattern=PATTERNS)
    def join(self, number: int, topics: tuple[TopicName, ...], pattern: str) -> None:
        client = self.clients[number]
        client.topics, client.pattern = topics, pattern
        other = self.clients[1 - number] if number < 2 else None
        result = self.beat(client, JOIN)
        if result.error is ErrorCode.UNRELEASED_INSTANCE_ID:
            assert other is not None and other.member_id in self.members
            return
        assert result.error is ErrorCode.NONE
        assert result.epoch > 0
        assert result.assignment == self.expected(client)
        assert client.member_id in self.members
        assert other is None or other.member_id not in self.members

    @rule(number=NUMBER, full=st.booleans(), answered=st.booleans())
    def heartbeat(self, number: int, full: bool, answered: bool) -> None:
        client = self.clients[number]
        if client.epoch <= 0:
            return
        was_sure, is_member = not client.unsure, client.member_id in self.members
        result = self.beat(client, client.epoch, full=full or client.unsure, told=answered)
        if not is_member:
            assert result.error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)
        elif was_sure:
            assert result.error is ErrorCode.NONE
        if not answered:
            client.unsure = True
        elif result.error is ErrorCode.NONE:
            assert client.assigned == self.expected(client)

    @rule(number=NUMBER, distance=st.integers(1, 3))
    def an_epoch_that_it_never_had(self, number: int, distance: int) -> None:
        client = self.clients[number]
        if client.epoch > 0 and client.member_id in self.members:
            known = self.world.pool.coordinator.members[client.member_id].generation
            if known > 0:
                result = self.beat(client, known + distance, told=False)
                assert result.error is ErrorCode.FENCED_MEMBER_EPOCH

    @rule(number=NUMBER, topics=SUBSCRIPTIONS, pattern=PATTERNS)
    def subscribe_otherwise(self, number: int, topics: tuple[TopicName, ...], pattern: str) -> None:
        client = self.clients[number]
        if client.epoch > 0 and not client.unsure:
            client.topics, client.pattern = topics, pattern
            if self.beat(client, client.epoch).error is ErrorCode.NONE:
                assert client.assigned == self.expected(client)

    @rule(number=NUMBER, for_a_while=st.booleans())
    def leave(self, number: int, for_a_while: bool) -> None:
        client = self.clients[number]
        if client.epoch <= 0:
            return
        epoch = LEAVE_FOR_A_WHILE if for_a_while and client.instance_id is not None else LEAVE
        is_member = client.member_id in self.members
        result = self.beat(client, epoch, full=False, told=False)
        assert (result.error is ErrorCode.NONE) == is_member
        assert (client.member_id in self.members) == (is_member and epoch == LEAVE_FOR_A_WHILE)
        client.epoch, client.assigned = JOIN, {}

    @rule(topic=st.sampled_from([ORDERS, OTHER]), more=st.integers(1, 2))
    def partitions_come(self, topic: TopicName, more: int) -> None:
        self.sizes[topic] = self.sizes.get(topic, 0) + more
        self.world.do(self.world.cluster.topics_changed(EU, self.sizes, self.world.now))

    @rule(seconds=st.sampled_from([1.0, 20.0, SESSION_TIMEOUT + 1]))
    def time_passes(self, seconds: float) -> None:
        self.world.advance(seconds)
        for client in self.clients:
            if client.member_id in self.members:
                seen = self.world.pool.coordinator.members[client.member_id].seen
                assert self.world.now - seen <= SESSION_TIMEOUT

    @invariant()
    def epochs_only_rise_while_a_member_lives(self) -> None:
        pool = self.world.cluster.pools.get(GROUP)
        members = pool.coordinator.members if pool is not None else {}
        for member_id, membership in members.items():
            if membership.generation != LEAVE_FOR_A_WHILE:
                assert membership.generation >= max(self.seen.get(member_id, 1), 1)
                self.seen[member_id] = membership.generation
        self.seen = {member_id: epoch for member_id, epoch in self.seen.items() if member_id in members}
        assert pool is None or pool.members.by_id.keys() == members.keys()


TestConsumerProtocol = ConsumerProtocolMachine.TestCase
TestConsumerProtocol.settings = settings(max_examples=settings().max_examples * 2, stateful_step_count=50)
