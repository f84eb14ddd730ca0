"""The decisions of the mesh alone: a virtual cluster without clock, sockets and brokers, driven by plain calls."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from mesh.apis.answers import Answer, ConnectionId
from mesh.memory import MemoryBudget
from mesh.pool.common.client import ClientIdentity
from mesh.pool.common.effects import CommitUpstream, Effect, Report
from mesh.pool.common.group_rules import GroupRules
from mesh.pool.common.ids import GroupId, MemberId
from mesh.pool.common.results import CommitResult, JoinResult, SyncResult
from mesh.pool.common.settings import PoolSettings
from mesh.pool.common.topics import ExplicitTopic, Source, VirtualTopics
from mesh.pool.core import PoolCore
from mesh.pool.groups.membership import JoinRequest, SyncRequest
from mesh.pool.intake.intake import Assignment
from mesh.pool.pool import Pool
from mesh.pool.state.fetch import FetchParameters, FetchResult, RequestedPartition
from mesh.records.batch import RecordBatch
from mesh.records.encode import encode_batch
from mesh.records.spans import ClusterName, CommitPosition, TopicName, UpstreamPartition
from mesh.wire.errors import ErrorCode

CLUSTER, TOPIC = ClusterName("bench"), TopicName("orders")
HOST = "10.0.0.1"
PLENTY = 1 << 31
"""Bytes: no Fetch and no budget is too small."""


@dataclass(slots=True, eq=False)
class Consumer:
    """A member, with its position in each partition that it asks for."""

    group: GroupId
    connection: ConnectionId
    member_id: MemberId
    generation: int
    positions: dict[int, int] = field(default_factory=dict)


class Core:
    """A virtual cluster with one topic, whose upstream commits succeed at once."""

    def __init__(self, partitions: int, settings: PoolSettings | None = None, journal: bool = False) -> None:
        self.now = 1_000.0
        topics = VirtualTopics("bench", [ExplicitTopic(TOPIC, (Source(CLUSTER, TOPIC),))], [])
        memory, rules = MemoryBudget(PLENTY), GroupRules(maximum=1_000)
        self.settings = settings or PoolSettings(
            initial_window=50_000_000,
            partition_budget=PLENTY,
            pool_budget=PLENTY,
            replay_budget=PLENTY,
            max_members=100_000,
            journal=journal,
        )
        self.cluster = PoolCore("bench", topics, rules, self.settings, memory, random.Random(1))
        self.partitions = partitions
        self._numbers = itertools.count(1)
        self._answers: dict[object, object] = {}
        self._fetching: dict[object, tuple[Consumer, list[int]]] = {}
        self._ends: dict[tuple[GroupId, int], int] = {}
        self.idle: list[Consumer] = []
        """Consumers whose Fetch was answered with records since the list was last emptied."""
        self._template = bytes(encode_batch(0, [(0, 0, None, bytes(90), None)]).data)
        self.do(self.cluster.topics_changed(CLUSTER, {TOPIC: partitions}, self.now))

    # Clients

    def join(self, group: GroupId, count: int) -> list[Consumer]:
        """New members, each with its own connection."""
        asked = [(self._connect(), next(self._numbers)) for _ in range(count)]
        for connection, ticket in asked:
            request = JoinRequest(
                member_id=MemberId(""),
                instance_id=None,
                protocol_type="consumer",
                protocols=(("range", b""),),
                session_timeout=1_800.0,
                rebalance_timeout=1_800.0,
                must_know_id=False,
                client=ClientIdentity(f"client-{connection}", HOST),
            )
            self.do(self.cluster.groups.join(connection, ticket, group, request, self.now))
        self.pass_time(1.0)
        return [self._joined(group, connection, self._answers.pop(ticket)) for connection, ticket in asked]

    def _joined(self, group: GroupId, connection: ConnectionId, answer: object) -> Consumer:
        assert isinstance(answer, JoinResult)
        assert answer.error is ErrorCode.NONE
        client = Consumer(group, connection, answer.member_id, answer.generation)
        request = SyncRequest(
            member_id=answer.member_id,
            instance_id=None,
            generation=answer.generation,
            protocol_type="consumer",
            protocol_name="range",
            assignment=b"all",
        )
        ticket = next(self._numbers)
        self.do(self.cluster.groups.sync(connection, ticket, group, request, self.now))
        answered = self._answers.pop(ticket)
        assert isinstance(answered, SyncResult)
        assert answered.error is ErrorCode.NONE
        names = [(TOPIC, partition) for partition in range(self.partitions)]
        found, effects = self.cluster.committed_offsets(connection, "", group, client.member_id, names, self.now)
        self.do(effects)
        client.positions = {partition: offset for (_, partition), (_, offset) in found.offsets.items()}
        return client

    def leave(self, client: Consumer) -> None:
        """Makes it leave its group, and closes its connection."""
        ticket = next(self._numbers)
        members = ((client.member_id, None),)
        self.do(self.cluster.groups.leave(client.connection, ticket, client.group, members, self.now))
        self._answers.pop(ticket)
        self.do(self.cluster.disconnected(client.connection, self.now))

    def _connect(self) -> ConnectionId:
        connection = ConnectionId(next(self._numbers))
        self.cluster.connected(connection, HOST)
        return connection

    def fetch(self, client: Consumer, partitions: Iterable[int] | None = None, maximum: int = PLENTY) -> None:
        """Ask for these partitions, for all unless named. maximum: bytes of the whole answer."""
        asked = list(client.positions if partitions is None else partitions)
        wanted = [RequestedPartition(TOPIC, each, client.positions[each], maximum) for each in asked]
        ticket = next(self._numbers)
        self._fetching[ticket] = (client, asked)
        request = FetchParameters(wanted, 1, maximum, 1_000.0)
        self.do(self.cluster.fetch(client.connection, "", ticket, request, self.now))

    def commit(self, client: Consumer, partition: int, offset: int | None = None) -> None:
        """Commits what it was sent of a partition, or everything below `offset`."""
        ticket = next(self._numbers)
        positions = [(TOPIC, partition, client.positions[partition] if offset is None else offset)]
        identity = (client.group, client.member_id, None, client.generation)
        self.do(self.cluster.commit(client.connection, ticket, *identity, positions, self.now))
        answer = self._answers.pop(ticket)
        assert isinstance(answer, CommitResult)
        assert answer.errors[TOPIC, partition] is ErrorCode.NONE

    # Upstream

    def assign(self, group: GroupId) -> None:
        """All partitions, from their beginning."""
        assignments = [Assignment(self.source(each), 0, CommitPosition(-1), False) for each in range(self.partitions)]
        self._upstream(group, lambda pool: pool.intake.assigned(CLUSTER, assignments, self.now))

    def receive(self, group: GroupId, partition: int, batches: int = 1, size: int = 0) -> None:
        """Batches of one record come from upstream; size: bytes of each, the least unless given."""
        begin = self._ends.get((group, partition), 0)
        self._ends[group, partition] = begin + batches
        data = self._template.ljust(size)
        come = [RecordBatch(bytearray(data), each, each, each, 1) for each in range(begin, begin + batches)]
        self._upstream(group, lambda pool: pool.intake.received(self.source(partition), come, self.now))

    def source(self, partition: int) -> UpstreamPartition:
        return UpstreamPartition(CLUSTER, TOPIC, partition)

    def _upstream(self, group: GroupId, event: Callable[[Pool], None]) -> None:
        self.do(self.cluster.upstream(self.cluster.pools[group], event, self.now))

    # Time and effects

    def pass_time(self, seconds: float) -> None:
        """Everything that falls due meanwhile is done."""
        until = self.now + seconds
        while (due := self.cluster.next_deadline()) is not None and due <= until:
            self.now = max(self.now, due)
            self.do(self.cluster.tick(self.now))
        self.now = until

    def do(self, effects: list[Effect]) -> None:
        """Carry them out, and ask when something is due next, as the server does after each step."""
        for effect in effects:
            match effect:
                case Answer(ticket, FetchResult() as result):
                    self._fetched(ticket, result)
                case Answer(ticket, result):
                    self._answers[ticket] = result
                case CommitUpstream(group, cluster, token, positions):
                    self._stored(group, cluster, token, dict.fromkeys(positions, 0))
                case Report(event, fields, "error"):
                    raise AssertionError(event, fields)
                case _:
                    pass
        self.cluster.next_deadline()

    def _stored(
        self, group: GroupId, cluster: ClusterName, token: int, errors: Mapping[UpstreamPartition, int]
    ) -> None:
        self._upstream(group, lambda pool: pool.commits.committed(cluster, token, errors, self.now))

    def _fetched(self, ticket: object, result: FetchResult) -> None:
        client, asked = self._fetching.pop(ticket)
        for partition, fetched in zip(asked, result.partitions, strict=True):
            assert fetched.error is ErrorCode.NONE
            if fetched.records:
                client.positions[partition] = fetched.high_watermark
        if result.delivered is not None:
            self.idle.append(client)
