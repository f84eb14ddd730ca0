"""A virtual cluster with a clock, upstream clusters and clients, all made of plain values."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar, assert_never

from mesh.apis.answers import Answer, ConnectionId
from mesh.memory import MemoryBudget
from mesh.pool.common.delivery_events import DeliveryEvent
from mesh.pool.common.effects import (
    AskUpstream,
    ChangeGroupConfigs,
    CommitUpstream,
    ConsumeUpstream,
    DeadLetterUpstream,
    Effect,
    KeepShareGroup,
    LeaveUpstream,
    LookAtEnds,
    PauseUpstream,
    Report,
    RereadUpstream,
    ResumeUpstream,
    SubscribeUpstream,
)
from mesh.pool.common.group_rules import GroupRules
from mesh.pool.common.ids import GroupId
from mesh.pool.common.offset_states import OffsetState
from mesh.pool.common.queries import (
    CommittedUpstream,
    DeleteGroups,
    DeleteOffsets,
    FindGroupOffsets,
    GroupsDeleted,
    LogOffset,
    LogOffsets,
    LogOffsetsFound,
    OffsetsDeleted,
    OffsetsSet,
    Question,
    SetOffsets,
)
from mesh.pool.common.results import CommitResult
from mesh.pool.common.settings import PoolSettings
from mesh.pool.common.topics import ExplicitTopic, Source, VirtualTopics
from mesh.pool.core import PoolCore
from mesh.pool.intake.intake import Assignment
from mesh.pool.pool import Pool
from mesh.pool.state.fetch import FetchResult
from mesh.pool.state.ledger import Ledger
from mesh.pool.state.partition import Ownership
from mesh.records.batch import RecordBatch
from mesh.records.spans import ClusterName, CommitPosition, Gap, UpstreamPartition
from mesh.security.principals import ANONYMOUS, Principal
from mesh.wire.errors import ErrorCode
from tests.pool.checks import check_pool
from tests.pool.consumer import Consumer, EpochConsumer, Protocol
from tests.pool.journal_model import JournalModel
from tests.pool.kept_share_groups import KeptInMemory
from tests.pool.names import EU, GROUP, HOST, MAXIMUM, NOBODY, ORDERS, US, batch_of, source, value_of

__all__ = [
    "EU",
    "GROUP",
    "MAXIMUM",
    "NOBODY",
    "ORDERS",
    "US",
    "Consumer",
    "Upstream",
    "World",
    "batch_of",
    "offsets",
    "source",
    "value_of",
]

Kind = TypeVar("Kind")


@dataclass(slots=True)
class Upstream:
    """The upstream clusters as one group sees them.

    logs: the batches of each partition, first and last offset; ends: how far each was read; stored, metadata: the
    upstream commits. subscribed: clusters that the group consumes; idle, paused: clusters that it does not consume now.
    """

    logs: dict[UpstreamPartition, list[tuple[int, int]]] = field(default_factory=dict)
    ends: dict[UpstreamPartition, int] = field(default_factory=dict)
    stored: dict[UpstreamPartition, int] = field(default_factory=dict)
    metadata: dict[UpstreamPartition, str] = field(default_factory=dict)
    subscribed: set[ClusterName] = field(default_factory=set)
    idle: set[ClusterName] = field(default_factory=set)
    paused: set[UpstreamPartition] = field(default_factory=set)

    def store(self, positions: Mapping[UpstreamPartition, CommitPosition]) -> None:
        for partition, position in positions.items():
            self.stored[partition], self.metadata[partition] = position.offset, position.metadata

    def committed(self, partition: UpstreamPartition) -> CommitPosition:
        return CommitPosition(self.stored.get(partition, 0), self.metadata.get(partition, ""))


def offsets(effect: CommitUpstream | LeaveUpstream) -> dict[UpstreamPartition, int]:
    return {partition: position.offset for partition, position in effect.positions.items()}


class World:
    """A pool in its world. auto_store: upstream commits succeed at once. auto_reread: rereads succeed at once.
    auto_look: clusters say at once where logs end."""

    def __init__(
        self,
        settings: PoolSettings | None = None,
        rules: GroupRules | None = None,
        auto_store: bool = True,
        auto_reread: bool = True,
        auto_look: bool = True,
        assigned: bool = True,
    ) -> None:
        self.now = 1_000.0
        self.group = GROUP
        """The group whose upstream engines the calls address."""
        topics = VirtualTopics("vc", [ExplicitTopic(ORDERS, (Source(EU, ORDERS), Source(US, ORDERS)))], [])
        self.memory = MemoryBudget(1 << 30)
        self.kept = KeptInMemory()
        self.cluster = PoolCore(
            "vc",
            topics,
            rules or GroupRules(),
            replace(settings or PoolSettings(), journal=True),
            self.memory,
            random.Random(7),
            self.kept,
        )
        self.journal = JournalModel()
        self._tickets = itertools.count(1)
        self.connections: set[ConnectionId] = set()
        self._connections = itertools.count(1)
        self.auto_store = auto_store
        self.auto_reread = auto_reread
        self.auto_look = auto_look
        self.keys: dict[int, bytes] = {}
        """Keys of reread records by offset, in any partition."""
        self.batch_size: int | None = None
        """Records per batch, if runs of several batches come."""
        self._assign = assigned
        self.may_move_back: set[UpstreamPartition] = set()
        """Partitions whose committed offset may move back, because their log was truncated below it."""
        self.log_end = 0
        """The ends of the logs in new assignments; 0 for unknown."""
        self.topic_ids: dict[ClusterName, str] = {EU: "", US: ""}
        """The id of each cluster's topic, reported soon after an assignment; "" for none."""
        self.answers: dict[object, object] = {}
        self.effects: list[Effect] = []
        self.fetches: dict[object, tuple[Consumer, list[int]]] = {}
        self.commits: dict[object, tuple[Consumer, dict[int, int]]] = {}
        self.questions: list[Question] = []
        self.is_down = False
        """True if no upstream cluster answers tools."""
        self.pending_stores: list[CommitUpstream] = []
        self.pending_rereads: list[RereadUpstream] = []
        self.dead_letters: list[DeadLetterUpstream] = []
        self.upstreams: dict[GroupId, Upstream] = defaultdict(Upstream)
        self.states: dict[tuple[GroupId, UpstreamPartition], tuple[Ledger, dict[int, OffsetState]]] = {}
        self.seen: dict[tuple[GroupId, UpstreamPartition], int] = {}
        """For `check`: the last seen state of each offset, and the received position."""
        self.virtual: dict[tuple[int, int], tuple[GroupId, bytes]] = {}
        """The record ever given at each virtual offset, with its group."""
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

    def reports(self, event: str) -> list[Report]:
        return [effect for effect in self.effects if isinstance(effect, Report) and effect.event == event]

    @contextmanager
    def of(self, group: GroupId) -> Iterator[World]:
        """Meanwhile, upstream events affect this group."""
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
        principal: Principal = ANONYMOUS,
        protocol: Protocol = "classic",
    ) -> Consumer:
        """positions: those of a consumer that does not join."""
        connections = self.connect(principal), self.connect(principal)
        kind = Consumer if protocol == "classic" else EpochConsumer
        consumer = kind(self, name, *connections, group=group, instance_id=instance_id, principal=principal)
        consumer.positions.update(positions or {})
        if joined:
            assert consumer.join().error is ErrorCode.NONE
        return consumer

    def reconnect(self, consumer: Consumer) -> None:
        consumer.fetching = self.connect(consumer.principal)
        if consumer.coordinator not in self.connections:
            consumer.coordinator = self.connect(consumer.principal)

    def connect(self, principal: Principal = ANONYMOUS, node: int = 0) -> ConnectionId:
        connection = ConnectionId(next(self._connections))
        self.cluster.connected(connection, HOST, node)
        self.cluster.authenticated(connection, principal)
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

    def note(self, effects: list[Effect]) -> None:
        """Runs before any consequence: the journal is in the order of the decisions."""
        for effect in effects:
            if isinstance(effect, DeliveryEvent):
                self.journal.add(effect)

    def do(self, effects: list[Effect]) -> None:
        self.effects += (effect for effect in effects if not isinstance(effect, DeliveryEvent))
        self.note(effects)
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
                case DeadLetterUpstream():
                    self.dead_letters.append(effect)
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
            case LeaveUpstream(group, positions, None):
                self._left(group, positions)
            case LeaveUpstream(group, positions, str() as cluster):
                self._left_cluster(group, positions, ClusterName(cluster))
            case AskUpstream(ticket, question):
                self.do([Answer(ticket, self.reply(question))])
            case LookAtEnds(_, cluster, number) if self.auto_look:
                self.look(cluster, number)
            case KeepShareGroup(group):
                self.kept.seen.add(group)
            case ChangeGroupConfigs(ticket):
                self.do([Answer(ticket, self.kept.change(effect))])
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

    def committing(self, consumer: Consumer, positions: Mapping[int, int]) -> None:
        """Overridden by subclasses that watch acknowledgements."""

    def committed(self, ticket: object, result: CommitResult) -> None:
        """Overridden by subclasses that watch acknowledgements."""

    def asked(self, consumer: Consumer) -> None:
        """Overridden by subclasses that watch acknowledgements by receipt."""

    def given(self, group: GroupId, partition: int, offset: int, value: bytes) -> None:
        """A virtual offset is never given to a second record."""
        assert self.virtual.setdefault((partition, offset), (group, value)) == (group, value)

    # Upstream

    def produce(self, index: int, count: int = 10, gap: int = 0) -> None:
        """Brings `count` records of an upstream partition, `gap` offsets after the last one, in one batch or, with a
        `batch_size`, in a run of batches. After a new assignment it may bring earlier records again."""
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
        batch = batch_of(partition, first, last, self.batch_size)
        self.upstream(lambda pool: pool.intake.received(partition, [batch], self.now, Gap.EMPTY))

    def produce_together(self, counts: Mapping[int, int], size: int) -> None:
        """Brings so many records from each of these partitions in one answer, in runs of batches of `size`."""
        self.assign_all()
        came: dict[UpstreamPartition, RecordBatch] = {}
        for index, count in counts.items():
            partition = source(index)
            first = self.ends.get(partition, 0)
            self.logs.setdefault(partition, []).append((first, first + count - 1))
            self.ends[partition] = first + count
            came[partition] = batch_of(partition, first, first + count - 1, size)

        def tell(pool: Pool) -> None:
            for partition, batch in came.items():
                pool.intake.received(partition, [batch], self.now, Gap.EMPTY)

        self.upstream(tell)

    def assign_all(self) -> None:
        missing = [
            index
            for index in range(4)
            if source(index) not in self.pool.partitions
            or self.pool.partitions[source(index)].ownership is Ownership.UNASSIGNED
        ]
        if missing and self._assign:
            for cluster in {EU, US} - self.cluster.topics.withheld:
                self.assign(cluster)

    def reply(self, question: Question) -> object:
        """The answers of the upstream clusters to a tool. A log begins at 0; a time lies between its ends."""
        self.questions.append(question)
        match question:
            case FindGroupOffsets(groups, _):
                found = {group: {} if self.is_down else dict(self.upstreams[group].stored) for group in groups}
                down = {EU: ErrorCode.COORDINATOR_NOT_AVAILABLE, US: ErrorCode.COORDINATOR_NOT_AVAILABLE}
                return CommittedUpstream(found, {group: down if self.is_down else {} for group in groups})
            case LogOffsets(times):
                if self.is_down:
                    return LogOffsetsFound(dict.fromkeys(times, LogOffset(ErrorCode.LEADER_NOT_AVAILABLE)))
                return LogOffsetsFound({each: self._log_offset(each, time) for each, time in times.items()})
            case SetOffsets(group, positions):
                self.upstreams[group].stored.update(positions)
                return OffsetsSet(dict.fromkeys(positions, ErrorCode.NONE))
            case DeleteGroups(groups):
                known = {group: bool(self.upstreams.pop(group, Upstream()).stored) for group in groups}
                missing = ErrorCode.GROUP_ID_NOT_FOUND
                return GroupsDeleted({group: ErrorCode.NONE if each else missing for group, each in known.items()})
            case DeleteOffsets(group, partitions):
                for each in partitions:
                    self.upstreams[group].stored.pop(each, None)
                return OffsetsDeleted(dict.fromkeys(partitions, ErrorCode.NONE))
            case _:
                assert_never(question)

    def _log_offset(self, partition: UpstreamPartition, time: int) -> LogOffset:
        log = self.logs.get(partition, [])
        end = log[-1][1] + 1 if log else 0
        match time:
            case -1:
                return LogOffset(ErrorCode.NONE, end)
            case -2:
                return LogOffset(ErrorCode.NONE, 0)
            case _:
                return LogOffset(ErrorCode.NONE, end // 2, time)

    def is_consumed(self, index: int) -> bool:
        """True if the engine may bring records of this partition now."""
        partition, upstream = source(index), self.upstreams[self.group]
        known = self.pool.partitions.get(partition)
        is_active = known is not None and known.ownership is Ownership.ASSIGNED
        is_asked = partition.cluster in upstream.subscribed - upstream.idle
        return is_active and is_asked and partition not in upstream.paused

    def _left(self, group: GroupId, positions: Mapping[UpstreamPartition, CommitPosition]) -> None:
        """Handles the end of a pool: its engines commit these offsets and leave, with all their pending work."""
        self.upstreams[group].store(positions)
        self.upstreams[group].subscribed.clear()
        self.upstreams[group].idle.clear()
        self.upstreams[group].paused.clear()
        self.pending_stores = [each for each in self.pending_stores if each.group != group]
        self.pending_rereads = [each for each in self.pending_rereads if each.group != group]

    def _left_cluster(
        self, group: GroupId, positions: Mapping[UpstreamPartition, CommitPosition], cluster: ClusterName
    ) -> None:
        upstream = self.upstreams[group]
        assert {source.cluster for source in positions} <= {cluster}
        upstream.store(positions)
        upstream.subscribed.discard(cluster)
        upstream.idle.discard(cluster)
        upstream.paused = {source for source in upstream.paused if source.cluster != cluster}
        self.pending_stores = [each for each in self.pending_stores if (each.group, each.cluster) != (group, cluster)]
        self.pending_rereads = [
            each for each in self.pending_rereads if (each.group, each.partition.cluster) != (group, cluster)
        ]

    def assign(self, cluster: ClusterName, resumed: bool = False, indexes: Iterable[int] = range(4)) -> None:
        assignments = []
        for partition in (source(index) for index in indexes if source(index).cluster == cluster):
            known = self.pool.partitions.get(partition)
            goes_on = resumed and known is not None and known.ownership is not Ownership.UNASSIGNED
            committed = self.upstreams[self.group].committed(partition)
            start = self.ends.get(partition, 0) if goes_on else committed.offset
            assignments.append(Assignment(partition, start, committed, goes_on, self.log_end))
        for item in assignments:
            self.upstreams[self.group].paused.discard(item.partition)
            if not item.resumed:
                self.ends[item.partition] = item.start
        self.upstream(lambda pool: pool.intake.assigned(cluster, assignments, self.now))
        if (topic_id := self.topic_ids.get(cluster)) is not None:
            self.upstream(lambda pool: pool.intake.topics_identified(cluster, {ORDERS: topic_id}))

    def upstream(self, event: object) -> None:
        self.do(self.cluster.upstream(self.pool, event, self.now))  # type: ignore[arg-type]

    def look(self, cluster: str, number: int, ends: Mapping[UpstreamPartition, int] | None = None) -> None:
        """A cluster says where its logs end. ends: None for the known ones."""
        known = {each.source: each.end for each in self.pool.partitions.values() if each.source.cluster == cluster}
        self.upstream(lambda pool: pool.intake.ends_known(known if ends is None else ends, number))

    def store(self, error: int = 0) -> None:
        """The oldest upstream commit ends."""
        commit = self.pending_stores.pop(0)
        with self.of(commit.group):
            if not error:
                for partition, position in commit.positions.items():
                    moved_back = position.offset < self.stored.get(partition, 0)
                    assert not moved_back or partition in self.may_move_back, "the committed offset moved back"
                self.upstreams[self.group].store(commit.positions)
            errors = dict.fromkeys(commit.positions, error)
            self.upstream(lambda pool: pool.commits.committed(commit.cluster, commit.token, errors, self.now))

    def write_dead_letter(self, error: str = "") -> None:
        """The oldest attempt to write a dead letter ends."""
        letter = self.dead_letters.pop(0)
        with self.of(letter.group):
            self.upstream(
                lambda pool: pool.intake.dead_letter_ended(letter.partition, letter.batch.first, error, self.now)
            )

    def reread(self, error: str = "", gone: Iterable[int] = (), empty: Iterable[int] = ()) -> None:
        """The oldest reread ends. gone: offsets that no longer exist; the log begins behind them. empty: offsets
        without a record."""
        wanted = self.pending_rereads.pop(0)
        if wanted.group not in self.cluster.pools:
            return  # it ended in the same step
        missing = {*gone, *empty}
        runs: list[list[int]] = []
        for offset in range(wanted.span.first, wanted.span.last + 1) if not error else ():
            if offset not in missing:
                if not runs or runs[-1][-1] + 1 != offset:
                    runs.append([])
                runs[-1].append(offset)
        batches = tuple(batch_of(wanted.partition, run[0], run[-1], self.batch_size, self.keys) for run in runs)
        log_start = max(gone, default=-1) + 1
        with self.of(wanted.group):
            self.upstream(
                lambda pool: pool.intake.reread(
                    wanted.partition, wanted.token, batches, True, error, log_start, self.now
                )
            )

    # Invariants

    def check(self) -> None:
        for group in list(self.cluster.pools):
            with self.of(group):
                check_pool(self, self.pool)
                self.journal.check(self.pool, self.logs)

    def check_empty(self) -> None:
        """After all members have left, the virtual cluster keeps only its topics."""
        self.advance(60.0)
        cluster = self.cluster
        assert not cluster.pools
        assert len(cluster.slots) == 0
        assert len(cluster.connections) == 0
        assert not cluster._parked
        assert not cluster._unidentified
        assert cluster.next_deadline() is None
        assert self.memory.used == 0
