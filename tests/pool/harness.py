"""A virtual cluster with a clock, upstream clusters and clients that exist only as plain values."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from mesh.pool.coordinator import JoinRequest, SyncRequest
from mesh.pool.demand import MemoryBudget
from mesh.pool.effects import (
    Answer,
    CommitUpstream,
    ConnectionId,
    ConsumeUpstream,
    Effect,
    GroupId,
    LeaveUpstream,
    MemberId,
    PauseUpstream,
    Report,
    RereadUpstream,
    ResumeUpstream,
    SubscribeUpstream,
)
from mesh.pool.fetching import FetchedPartition, FetchPartition, FetchRequest, FetchResult
from mesh.pool.partition import Standing
from mesh.pool.pool import Assignment, Pool
from mesh.pool.results import CommitResult, HeartbeatResult, JoinResult, SyncResult
from mesh.pool.settings import PoolSettings
from mesh.pool.topics import ExplicitTopic, Source, VirtualTopics
from mesh.pool.virtual_cluster import GroupRules, VirtualCluster
from mesh.records.batch import Batch, split_batches
from mesh.records.decode import decode_records
from mesh.records.encode import encode_batch
from mesh.records.spans import ClusterName, Span, TopicName, UpstreamPartition
from mesh.wire.errors import ErrorCode

EU, US = ClusterName("eu"), ClusterName("us")
ORDERS = TopicName("orders")
GROUP = GroupId("shop")
MAXIMUM = 1 << 20
NOBODY = MemberId("")
Kind = TypeVar("Kind")


def source(index: int) -> UpstreamPartition:
    """The upstream partition behind partition 0-3 of the topic: two on eu, two on us."""
    return UpstreamPartition(EU if index < 2 else US, ORDERS, index % 2)


def value_of(partition: UpstreamPartition, offset: int) -> bytes:
    return f"{partition}@{offset}".encode()


def batch_of(partition: UpstreamPartition, first: int, last: int) -> Batch:
    return encode_batch(
        first, [(offset, 0, None, value_of(partition, offset), None) for offset in range(first, last + 1)]
    )


@dataclass(slots=True)
class Consumer:
    """A client: its identity, and where it stands."""

    world: World
    name: str
    coordinator: ConnectionId
    fetching: ConnectionId
    member_id: MemberId = NOBODY
    generation: int = -1
    instance_id: str | None = None
    group: GroupId = GROUP
    positions: dict[int, int] = field(default_factory=dict)
    received: list[tuple[int, int, bytes]] = field(default_factory=list)
    """(partition, virtual offset, value), in the order of their arrival."""
    ticket: object | None = None
    """Of the Fetch that is parked."""

    def join(self, **changes: object) -> JoinResult:
        request = JoinRequest(
            member_id=self.member_id,
            instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=(("range", b"subscription"),),
            session_timeout=45.0,
            rebalance_timeout=60.0,
            must_know_id=False,
            client_id=self.name,
            client_host="10.0.0.1",
        )
        request = replace(request, **changes)  # type: ignore[arg-type]
        ticket = self.world.ticket()
        self.world.do(self.world.cluster.join(self.coordinator, ticket, self.group, request, self.world.now))
        if ticket not in self.world.answers:
            self.world.advance(0.2)
        result = self.world.answer(ticket, JoinResult)
        if result.error is ErrorCode.NONE:
            self.member_id, self.generation = result.member_id, result.generation
            sync = self.world.ticket()
            self.world.do(
                self.world.cluster.sync(
                    sync,
                    self.group,
                    SyncRequest(
                        member_id=self.member_id,
                        instance_id=self.instance_id,
                        generation=self.generation,
                        protocol_type="consumer",
                        protocol_name="range",
                        assignment=b"all",
                    ),
                    self.world.now,
                )
            )
            assert self.world.answer(sync, SyncResult).assignment == b"all"
            self.reset()
        return result

    def reset(self, partitions: Iterable[int] = range(4)) -> None:
        """Take the committed positions, as a client does after a join."""
        names = [(ORDERS, partition) for partition in partitions]
        committed, effects = self.world.cluster.committed_offsets(
            self.coordinator, self.name, self.group, self.member_id, names, self.world.now
        )
        self.world.do(effects)
        for (_, partition), (error, offset) in committed.offsets.items():
            assert error is ErrorCode.NONE
            assert offset >= 0
            self.positions[partition] = offset

    def fetch(
        self,
        minimum: int = 1,
        wait: float = 0.5,
        maximum: int = MAXIMUM,
        partitions: Iterable[int] | None = None,
        partition_maximum: int = MAXIMUM,
    ) -> object:
        asked = list(partitions) if partitions is not None else sorted(self.positions)
        request = FetchRequest(
            [FetchPartition(ORDERS, partition, self.positions[partition], partition_maximum) for partition in asked],
            minimum,
            maximum,
            wait,
        )
        ticket = self.ticket = self.world.ticket()
        self.world.asked(self)
        self.world.fetches[ticket] = (self, asked)
        self.world.do(self.world.cluster.fetch(self.fetching, self.name, ticket, request, self.world.now))
        return ticket

    @property
    def is_parked(self) -> bool:
        return self.ticket is not None

    def take(self, asked: list[int], result: FetchResult) -> None:
        self.ticket = None
        for partition, fetched in zip(asked, result.partitions, strict=True):
            self._take(partition, fetched)

    def _take(self, partition: int, fetched: FetchedPartition) -> None:
        if fetched.error is not ErrorCode.NONE:
            assert fetched.high_watermark == -1
            return
        position = self.positions[partition]
        end = position
        for data in fetched.records:
            (batch,) = split_batches(bytes(data))
            for record in decode_records(batch):
                assert record.value is not None
                if record.offset >= position:  # clients drop what lies below their position
                    self.received.append((partition, record.offset, record.value))
                    self.world.given(self.group, partition, record.offset, record.value)
            end = max(end, batch.last + 1)
        if fetched.records:
            assert fetched.high_watermark == end
        self.positions[partition] = end

    def commit(self, positions: dict[int, int] | None = None, **changes: object) -> object:
        ticket = self.world.ticket()
        wanted = self.positions if positions is None else positions
        arguments: dict[str, object] = {
            "member_id": self.member_id,
            "instance_id": self.instance_id,
            "generation": self.generation,
            **changes,
        }
        self.world.commits[ticket] = (self, dict(wanted))
        self.world.do(
            self.world.cluster.commit(
                self.coordinator,
                ticket,
                self.group,
                arguments["member_id"],  # type: ignore[arg-type]
                arguments["instance_id"],  # type: ignore[arg-type]
                arguments["generation"],  # type: ignore[arg-type]
                [(ORDERS, partition, offset) for partition, offset in wanted.items()],
                self.world.now,
            )
        )
        return ticket

    def leave(self) -> None:
        ticket = self.world.ticket()
        self.world.do(
            self.world.cluster.leave(ticket, self.group, ((self.member_id, self.instance_id),), self.world.now)
        )

    def heartbeat(self) -> ErrorCode:
        ticket = self.world.ticket()
        self.world.do(
            self.world.cluster.heartbeat(
                ticket, self.group, self.member_id, self.instance_id, self.generation, self.world.now
            )
        )
        return self.world.answer(ticket, HeartbeatResult).error

    def disconnect(self) -> None:
        """Every connection at once, as when the process dies."""
        self.ticket = None
        for connection in (self.fetching, self.coordinator):
            self.world.disconnect(connection)


@dataclass(slots=True)
class Upstream:
    """The upstream clusters as one group sees them.

    logs: the batches of each partition, first and last offset; ends: how far each was read; stored: what is committed.
    subscribed: clusters that are to be consumed from at all; idle: that are not to be now; paused: nor are these.
    """

    logs: dict[UpstreamPartition, list[tuple[int, int]]] = field(default_factory=dict)
    ends: dict[UpstreamPartition, int] = field(default_factory=dict)
    stored: dict[UpstreamPartition, int] = field(default_factory=dict)
    subscribed: set[ClusterName] = field(default_factory=set)
    idle: set[ClusterName] = field(default_factory=set)
    paused: set[UpstreamPartition] = field(default_factory=set)


class World:
    """auto_store: upstream commits succeed at once. auto_reread: what is to be read again is there at once."""

    def __init__(
        self,
        settings: PoolSettings | None = None,
        rules: GroupRules | None = None,
        auto_store: bool = True,
        auto_reread: bool = True,
        assigned: bool = True,
    ) -> None:
        self.now = 1_000.0
        self.group = GROUP
        """Whose upstream engines are meant."""
        topics = VirtualTopics("vc", [ExplicitTopic(ORDERS, (Source(EU, ORDERS), Source(US, ORDERS)))], [])
        self.memory = MemoryBudget(1 << 30)
        self.cluster = VirtualCluster(
            "vc", topics, rules or GroupRules(), settings or PoolSettings(), self.memory, random.Random(7)
        )
        self._tickets = itertools.count(1)
        self.connections: set[ConnectionId] = set()
        self._connections = itertools.count(1)
        self.auto_store = auto_store
        self.auto_reread = auto_reread
        self._assign = assigned
        self.answers: dict[object, object] = {}
        self.effects: list[Effect] = []
        self.fetches: dict[object, tuple[Consumer, list[int]]] = {}
        self.commits: dict[object, tuple[Consumer, dict[int, int]]] = {}
        self.pending_stores: list[CommitUpstream] = []
        self.pending_rereads: list[RereadUpstream] = []
        self.upstreams: dict[GroupId, Upstream] = defaultdict(Upstream)
        self.virtual: dict[tuple[int, int], tuple[GroupId, bytes]] = {}
        """What was ever given at a virtual offset, and to which group."""
        for cluster in (EU, US):
            self.do(self.cluster.topics_changed(cluster, {ORDERS: 2}, self.now))

    def ticket(self) -> object:
        return f"ticket {next(self._tickets)}"

    @property
    def logs(self) -> dict[UpstreamPartition, list[tuple[int, int]]]:
        return self.upstreams[self.group].logs

    @property
    def ends(self) -> dict[UpstreamPartition, int]:
        return self.upstreams[self.group].ends

    @property
    def stored(self) -> dict[UpstreamPartition, int]:
        return self.upstreams[self.group].stored

    @contextmanager
    def of(self, group: GroupId) -> Iterator[World]:
        """What happens upstream meanwhile happens to this group."""
        before, self.group = self.group, group
        try:
            yield self
        finally:
            self.group = before

    def consumer(
        self,
        name: str = "c",
        joined: bool = True,
        group: GroupId = GROUP,
        instance_id: str | None = None,
        positions: Mapping[int, int] | None = None,
    ) -> Consumer:
        """positions: where a consumer begins that does not join."""
        consumer = Consumer(self, name, self._connect(), self._connect(), group=group, instance_id=instance_id)
        consumer.positions.update(positions or {})
        if joined:
            assert consumer.join().error is ErrorCode.NONE
        return consumer

    def reconnect(self, consumer: Consumer) -> None:
        consumer.fetching = self._connect()

    def _connect(self) -> ConnectionId:
        connection = ConnectionId(next(self._connections))
        self.cluster.connected(connection, "10.0.0.1")
        self.connections.add(connection)
        return connection

    def disconnect(self, connection: ConnectionId) -> None:
        self.connections.discard(connection)
        self.do(self.cluster.disconnected(connection, self.now))

    @property
    def pool(self) -> Pool:
        return self.cluster.pools[self.group]

    def answer(self, ticket: object, kind: type[Kind]) -> Kind:
        result = self.answers.pop(ticket)
        assert isinstance(result, kind)
        return result

    def advance(self, seconds: float) -> None:
        until = self.now + seconds
        while (deadline := self.cluster.next_deadline()) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            self.do(self.cluster.tick(self.now))
        self.now = until

    def do(self, effects: list[Effect]) -> None:
        self.effects += effects
        for effect in effects:
            match effect:
                case Answer(ticket, result):
                    self._answered(ticket, result)
                case CommitUpstream():
                    self.pending_stores.append(effect)
                    if self.auto_store:
                        self.store()
                case RereadUpstream():
                    self.pending_rereads.append(effect)
                    if self.auto_reread:
                        self.reread()
                case Report(level="error"):
                    raise AssertionError(effect)
                case _:
                    self._upstream_told(effect)

    def _upstream_told(self, effect: Effect) -> None:
        match effect:
            case SubscribeUpstream(group, cluster):
                self.upstreams[group].subscribed.add(cluster)
            case ConsumeUpstream(group, cluster, consuming):
                (self.upstreams[group].idle.discard if consuming else self.upstreams[group].idle.add)(cluster)
            case PauseUpstream(group, partition):
                self.upstreams[group].paused.add(partition)
            case ResumeUpstream(group, partition):
                self.upstreams[group].paused.remove(partition)
            case LeaveUpstream(group, offsets):
                self._left(group, offsets)
            case _:
                pass

    def _answered(self, ticket: object, result: object) -> None:
        assert ticket not in self.answers, "answered twice"
        if isinstance(result, FetchResult):
            consumer, asked = self.fetches.pop(ticket)
            if consumer.ticket == ticket:
                consumer.take(asked, result)
            return
        if isinstance(result, CommitResult):
            self.committed(ticket, result)
        self.answers[ticket] = result

    def committed(self, ticket: object, result: CommitResult) -> None:
        """For those who watch what is acknowledged."""

    def asked(self, consumer: Consumer) -> None:
        """For those who watch what is acknowledged by receipt."""

    def given(self, group: GroupId, partition: int, offset: int, value: bytes) -> None:
        """A virtual offset is never given to a second record."""
        assert self.virtual.setdefault((partition, offset), (group, value)) == (group, value)

    # Upstream

    def produce(self, index: int, count: int = 10, gap: int = 0) -> None:
        """One batch of `count` records comes from an upstream partition, `gap` offsets after the last one; or what was
        read before comes again, after a new assignment."""
        partition = source(index)
        self.assign_all()
        log = self.logs.setdefault(partition, [])
        position = self.ends.get(partition, 0)
        again = next((each for each in log if each[1] >= position), None)  # read before, and lost since
        if again is None:
            begin = (log[-1][1] + 1 if log else 0) + gap
            again = (begin, begin + count - 1)
            log.append(again)
        first, last = max(again[0], position), again[1]
        self.ends[partition] = last + 1
        batch = batch_of(partition, first, last)
        self.upstream(lambda pool: pool.received(partition, [batch], self.now))

    def assign_all(self) -> None:
        missing = [
            index
            for index in range(4)
            if source(index) not in self.pool.partitions
            or self.pool.partitions[source(index)].standing is Standing.ABSENT
        ]
        if missing and self._assign:
            for cluster in (EU, US):
                self.assign(cluster)

    def is_consumed(self, index: int) -> bool:
        """Whether the engine may bring records of this partition now."""
        partition, upstream = source(index), self.upstreams[self.group]
        known = self.pool.partitions.get(partition)
        is_active = known is not None and known.standing is Standing.ACTIVE
        is_asked = partition.cluster in upstream.subscribed - upstream.idle
        return is_active and is_asked and partition not in upstream.paused

    def _left(self, group: GroupId, offsets: Mapping[UpstreamPartition, int]) -> None:
        """The pool has ended: its engines commit these and are gone, with whatever they were about to do."""
        self.upstreams[group].stored.update(offsets)
        self.upstreams[group].subscribed.clear()
        self.upstreams[group].idle.clear()
        self.upstreams[group].paused.clear()
        self.pending_stores = [each for each in self.pending_stores if each.group != group]
        self.pending_rereads = [each for each in self.pending_rereads if each.group != group]

    def assign(self, cluster: ClusterName, resumed: bool = False, indexes: Iterable[int] = range(4)) -> None:
        assignments = [
            Assignment(
                source(index),
                self.ends.get(source(index), 0) if resumed else self.stored.get(source(index), 0),
                self.stored.get(source(index), 0),
                resumed,
            )
            for index in indexes
            if source(index).cluster == cluster
        ]
        for item in assignments:
            self.upstreams[self.group].paused.discard(item.partition)
            if not resumed:
                self.ends[item.partition] = item.start
        self.upstream(lambda pool: pool.assigned(cluster, assignments, self.now))

    def upstream(self, event: object) -> None:
        self.do(self.cluster.upstream(self.pool, event, self.now))  # type: ignore[arg-type]

    def store(self, error: int = 0) -> None:
        """The oldest upstream commit ends."""
        commit = self.pending_stores.pop(0)
        with self.of(commit.group):
            if not error:
                for partition, offset in commit.offsets.items():
                    assert offset > self.stored.get(partition, -1), "the committed offset did not move on"
                self.stored.update(commit.offsets)
            errors = dict.fromkeys(commit.offsets, error)
            self.upstream(lambda pool: pool.stored(commit.cluster, commit.token, errors, self.now))

    def reread(self, error: str = "", gone: Iterable[int] = ()) -> None:
        """The oldest reread ends; `gone`: offsets that are not there any more."""
        wanted = self.pending_rereads.pop(0)
        missing = set(gone)
        runs: list[list[int]] = []
        for offset in range(wanted.span.first, wanted.span.last + 1) if not error else ():
            if offset not in missing:
                if not runs or runs[-1][-1] + 1 != offset:
                    runs.append([])
                runs[-1].append(offset)
        batches = tuple(batch_of(wanted.partition, run[0], run[-1]) for run in runs)
        with self.of(wanted.group):
            self.upstream(
                lambda pool: pool.reread(
                    wanted.partition, Span(wanted.span.first, wanted.span.last), batches, True, error, self.now
                )
            )

    # What must hold

    def check(self) -> None:
        for group in list(self.cluster.pools):
            with self.of(group):
                self._check(self.pool)

    def check_empty(self) -> None:
        """Everybody has left: the virtual cluster holds nothing but its topics."""
        self.advance(60.0)
        cluster = self.cluster
        assert not cluster.pools
        assert len(cluster.slots) == 0
        assert len(cluster.connections) == 0
        assert not cluster._parked
        assert cluster.next_deadline() is None
        assert self.memory.used == 0

    def _check(self, pool: Pool) -> None:
        """The invariant, and conservation: every offset received is in exactly one place."""
        members = list(pool.all_members)
        for partition in pool.partitions.values():
            partition.check()
            assert partition.backlog_bytes == sum(entry.size for entry in partition.backlog.values())
            places: dict[int, str] = {}
            self._place(places, "backlog", [(e.batch.first, e.batch.last) for e in partition.backlog.values()])
            self._place(places, "released", [(e.span.first, e.span.last) for e in partition.released.values()])
            for lane in partition.parked.values():
                self._place(places, "collected", [(e.batch.first, e.batch.last) for e in lane.collected or ()])
            for member in members:
                window = member.windows.get(partition.source)
                if window is not None:
                    spans = [(delivery.first, delivery.last) for delivery in window]
                    self._place(places, "in flight", spans)
                    assert window.held == sum(last - first + 1 for first, last in spans)
            ledger = partition.ledger
            if partition.standing is not Standing.ABSENT:
                for offset in range(ledger.committable, ledger.received):
                    held = offset in places
                    assert held is not ledger.is_settled(offset), (partition, offset, places.get(offset))
                assert all(ledger.committable <= offset < ledger.received for offset in places)
        self._check_waiting(pool)
        assert pool.serving.distribution.backlog_bytes == sum(p.backlog_bytes for p in pool.partitions.values())
        self._check_budgets(pool)
        for member in members:
            sent = sum(window.held for window in member.windows.values())
            collected = sum(
                len(entry) for fetch in member.fetches for lane in fetch.lanes for entry in lane.collected or ()
            )
            assert member.in_flight == sent + collected, member

    def _check_budgets(self, pool: Pool) -> None:
        """What is full is not asked for more."""
        settings = pool.serving.distribution._settings
        upstream = self.upstreams[self.group]
        over = pool.serving.distribution.backlog_bytes >= settings.pool_budget
        for partition in pool.partitions.values():
            full = partition.backlog_bytes >= settings.partition_budget or (over and partition.backlog_bytes)
            if full and partition.is_active and partition.source.cluster in upstream.subscribed:
                idle = partition.source.cluster in upstream.idle
                assert idle or partition.source in upstream.paused, partition
        kept = pool.serving.distribution.backlog_bytes + pool.serving.replays.size
        assert pool.serving.replays.size <= settings.replay_budget
        assert self.memory.used >= kept

    def _check_waiting(self, pool: Pool) -> None:
        """A parked Fetch waits on a partition while it may take a batch from it, and takes what is there."""
        for partition in pool.partitions.values():
            for fetch, lane in partition.parked.items():
                assert fetch.member is not None
                may = not pool.serving.distribution.is_full(fetch.member) and not lane.behind and partition.is_active
                if may and not partition.backlog:
                    assert fetch in partition.waiting, (partition, fetch)
                if may and partition.backlog:
                    assert partition.first_for(fetch.member) is None, (partition, fetch)
                    assert fetch in partition.aside, (partition, fetch)
                if not may:
                    assert fetch not in partition.waiting
                    assert fetch not in partition.aside
            assert partition.waiting.keys() | partition.aside.keys() <= partition.parked.keys()

    @staticmethod
    def _place(places: dict[int, str], place: str, spans: list[tuple[int, int]]) -> None:
        for first, last in spans:
            for offset in range(first, last + 1):
                assert offset not in places, f"offset {offset} is {places[offset]} and {place}"
                places[offset] = place
