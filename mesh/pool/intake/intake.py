"""What comes in from the upstream clusters: which topics a pool consumes, what it is assigned, what it receives."""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from mesh.pool.common.delivery_events import DeliveryEventType
from mesh.pool.common.effects import Gone, HurryUpstream, SubscribeUpstream
from mesh.pool.common.history import History
from mesh.pool.common.outbox import PoolParts
from mesh.pool.common.topics import VirtualTopics
from mesh.pool.fetch.serving import Serving
from mesh.pool.intake.backpressure import Backpressure
from mesh.pool.intake.truncation import highest_known, truncate
from mesh.pool.leases.service import Leases
from mesh.pool.offsets.commits import Commits
from mesh.pool.offsets.metadata import ForeignMetadata, Unpacked, unpack
from mesh.pool.state.incarnations import UNKNOWN, Shared
from mesh.pool.state.ledger import Ledger
from mesh.pool.state.member import Member
from mesh.pool.state.partition import Ownership, Partition
from mesh.pool.state.window import Available
from mesh.records.batch import Batch
from mesh.records.runs import count_with, gaps, singles
from mesh.records.span_lists import at_or_above
from mesh.records.spans import ClusterName, CommitPosition, Gap, Span, TopicName, UpstreamPartition


@dataclass(frozen=True, slots=True)
class Assignment:
    """One partition of a new upstream assignment.

    It is read from `start`, `committed` is stored in the group, and its log ends at `end`; 0 if that is not known.
    resumed: what was received before is still valid.
    """

    partition: UpstreamPartition
    start: int
    committed: CommitPosition
    resumed: bool
    end: int = 0


class Intake:
    """Takes what the engines of a pool tell: assignments, records, ends of logs, failures. members: all that live,
    since each may hold something of a partition that goes away."""

    def __init__(
        self,
        parts: PoolParts,
        topics: VirtualTopics,
        serving: Serving,
        commits: Commits,
        leases: Leases,
        backpressure: Backpressure,
        members: Iterable[Member],
    ) -> None:
        self.group = parts.group
        self._topics = topics
        self._serving = serving
        self._commits = commits
        self._leases = leases
        self._backpressure = backpressure
        self._members = members
        self._outbox = parts.outbox
        self._wanted: set[TopicName] = set()
        self._subscribed: dict[ClusterName, frozenset[TopicName]] = {}
        self._outstanding: dict[ClusterName, set[Partition]] = {}
        self._eager: set[ClusterName] = set()
        self._topic_ids: dict[tuple[ClusterName, TopicName], str] = {}
        """Of upstream topics, as their engines know them; "" where nobody knows one."""
        self._is_away = False
        """Whether the upstream groups have been left, though there are members."""

    # What is consumed

    def want(self, topic: TopicName) -> None:
        """A member asks for records of this topic; it is consumed from here on."""
        if topic not in self._wanted and topic in self._topics:
            self._wanted.add(topic)
            self.topics_changed()

    def topics_changed(self) -> None:
        """Consume what stands behind the wanted topics; the set only grows while members are there."""
        if self._is_away:
            return
        wanted: dict[ClusterName, set[TopicName]] = {}
        for name in self._wanted:
            for source in self._topics.consumed(name):
                wanted.setdefault(source.cluster, set()).add(source.topic)
        for cluster, topics in wanted.items():
            before = self._subscribed.get(cluster, frozenset())
            if not topics <= before:
                self._subscribed[cluster] = before | topics
                self._backpressure.add_cluster(cluster)
                self._outbox.put(SubscribeUpstream(self.group, cluster, self._subscribed[cluster]))

    def withdraw(self) -> None:
        """The upstream groups are left: nothing is assigned here any more."""
        self._is_away = True
        self.lost(list(self._serving.partitions))
        self._topic_ids.clear()
        for partition in self._serving.partitions.values():
            partition.is_awaited = partition.is_unopened = False
        self._subscribed.clear()
        self._outstanding.clear()
        self._eager.clear()

    def come_back(self) -> None:
        """Join the upstream groups again."""
        self._is_away = False
        for partition in self._serving.partitions.values():
            partition.is_awaited = partition.ownership is Ownership.UNASSIGNED
        self.topics_changed()

    def leave(self, cluster: ClusterName) -> None:
        """The upstream group of one cluster is left."""
        sources = [source for source in self._serving.partitions if source.cluster == cluster]
        self.lost(sources)
        self._forget_ids(cluster)
        for source in sources:
            self._serving.partitions[source].is_awaited = False
        self.unopened(cluster, ())
        self._subscribed.pop(cluster, None)
        self._outstanding.pop(cluster, None)
        self._eager.discard(cluster)

    def come_back_to(self, cluster: ClusterName) -> None:
        """Consume what is wanted of a cluster that was left."""
        if not self._is_away:
            consumed = {source for name in self._wanted for source in self._topics.consumed(name)}
            for source, partition in self._serving.partitions.items():
                if source.cluster == cluster:
                    partition.is_awaited = source in consumed
            self.topics_changed()

    def assigned(self, cluster: ClusterName, assignments: Sequence[Assignment], now: float) -> None:
        """The whole assignment on one cluster after a rebalance."""
        kept = {assignment.partition for assignment in assignments}
        for source, partition in self._serving.partitions.items():
            if source.cluster == cluster and source not in kept and partition.ownership is not Ownership.UNASSIGNED:
                self._lose(partition)
        for assignment in assignments:
            source = assignment.partition
            partition = self._serving.partition(source)
            if not (assignment.resumed and partition.ownership is not Ownership.UNASSIGNED):
                if partition.ownership is not Ownership.UNASSIGNED:
                    self._lose(partition)
                self._begin(partition, assignment, now)
            partition.end = max(assignment.end, partition.end if assignment.resumed else 0)
            partition.ownership = Ownership.ASSIGNED
            partition.is_unopened = False
            self._backpressure.forget(partition)
            self._serving.activate(partition, now)
            self._serving.rereads.pump(partition)
        for name in self._wanted:
            for source in self._topics.partitions(name):
                if source.cluster == cluster:
                    self._serving.partition(source).is_awaited = False
        fields = {"cluster": cluster, "partitions": len(assignments)}
        self._outbox.report("upstream partitions were assigned", fields)

    def unopened(self, cluster: ClusterName, sources: Collection[UpstreamPartition]) -> None:
        """All that is assigned on one cluster and cannot be read yet."""
        for source in sources:
            self._serving.partition(source)
        for source, partition in self._serving.partitions.items():
            if source.cluster == cluster:
                partition.is_unopened = source in sources

    def revoked(self, sources: Iterable[UpstreamPartition]) -> None:
        """A rebalance began: these may come back or not."""
        for source in sources:
            partition = self._serving.partitions.get(source)
            if partition is not None and partition.is_active:
                self._serving.distribution.suspend(partition)
                partition.ownership = Ownership.REVOKED

    def lost(self, sources: Iterable[UpstreamPartition]) -> None:
        """Others own these already."""
        for source in sources:
            partition = self._serving.partitions.get(source)
            if partition is not None and partition.ownership is not Ownership.UNASSIGNED:
                self._lose(partition)

    def engine_failed(self, cluster: ClusterName) -> None:
        """As if all that this cluster has assigned had been revoked: another engine is made, and assigned anew."""
        self.unopened(cluster, ())
        self.lost([source for source in self._serving.partitions if source.cluster == cluster])
        self._forget_ids(cluster)

    def received(self, source: UpstreamPartition, batches: Sequence[Batch], now: float, gap: Gap = Gap.UNKNOWN) -> None:
        """gap: what offsets are that none of the batches has."""
        partition = self._serving.partitions.get(source)
        if partition is None or partition.ownership is Ownership.UNASSIGNED:
            return
        fresh: list[Available] = []
        for batch in batches:
            partition.weigh(len(batch.data), batch.last - batch.first + 1)
            if batch.first > partition.ledger.received:
                self._passed(partition, batch.first, gap)
            if gap is Gap.EMPTY and self._serving.delivery_events.is_kept:
                # They count with the batch behind them wherever it goes: how many records that is, this says.
                between = at_or_above(gaps(batch), partition.ledger.received)
                self._serving.delivery_events.add(DeliveryEventType.EMPTY, source, between)
            spans = partition.unleased(partition.ledger.receive(batch.first, batch.last, partition.is_leased))
            if spans:
                count_with(batch, spans[0].first)
            if partition.released_unread:
                fresh += self._given_up_ahead(partition, batch, spans)
            elif spans:
                fresh += map(Available, self._serving.slicing.keep(partition, batch, spans))
        for available in fresh:
            self._serving.distribution.backlogs.put(partition, available)
        if fresh:
            self._leases.records_came(now)
        self._serving.distribution.note_records(partition)

    def _given_up_ahead(self, partition: Partition, batch: Batch, spans: list[Span]) -> list[Available]:
        """Leases gave up some of what comes now, or members did before the mesh was restarted; how often counts. What
        has come too often is not given any more."""
        histories = partition.released_unread.take(spans)
        pieces = self._serving.slicing.keep(partition, batch, [span for span, _ in histories]) if histories else []
        lasts = [span.last for span, _ in histories]
        dead_letters = self._serving.dead_letters
        fresh: list[Available] = []
        for piece in pieces:  # of several spans, or several of one span, where something is damaged
            first, end = bisect_left(lasts, piece.first), bisect_left(lasts, piece.last) + 1
            history = max((each for _, each in histories[first:end]), key=lambda each: each.blame)
            # What counts against a run must not count against more than a batch of it.
            for part in singles(piece) if history.blame else [piece]:
                available = Available(part, history)
                if dead_letters.is_over(available):
                    dead_letters.put_back(partition, available)
                else:
                    fresh.append(available)
        partition.released_unread.forget_below(partition.ledger.received)
        return fresh

    def reached_end(self, source: UpstreamPartition, offset: int, gap: Gap = Gap.UNKNOWN) -> None:
        """gap: what those offsets below this one are that did not come."""
        partition = self._serving.partitions.get(source)
        if partition is not None and partition.ownership is not Ownership.UNASSIGNED:
            if offset > partition.ledger.received:
                self._passed(partition, offset, gap)
            partition.ledger.reach(offset, partition.is_leased)
            self._serving.distribution.touched.add(partition)

    def _passed(self, partition: Partition, offset: int, gap: Gap) -> None:
        """No record comes of what lies below this offset and was not received."""
        source, first, last = partition.source, partition.ledger.received, offset - 1
        match gap:
            case Gap.EMPTY:
                self._serving.delivery_events.add(DeliveryEventType.EMPTY, source, [Span(first, last)])
            case Gap.DELETED:
                spans = partition.ledger.unsettled(first, last)
                self._serving.delivery_events.add(DeliveryEventType.DELETED, source, spans)
                if count := sum(map(len, spans)):
                    self._outbox.put(Gone(self.group, source, Span(first, last), count, was_read=False))
                partition.ledger.reach(offset, at_once=True)
            case Gap.UNKNOWN:
                pass
            case _:
                assert_never(gap)

    def ends_known(self, ends: Mapping[UpstreamPartition, int]) -> None:
        """High watermarks of upstream partitions."""
        for source, end in ends.items():
            partition = self._serving.partitions.get(source)
            if partition is not None:
                partition.end = end

    def topics_identified(self, cluster: ClusterName, ids: Mapping[TopicName, str]) -> None:
        """Ids of upstream topics; "" for what has none, or whose id nobody tells. What has another one than before
        begins anew, which is told by itself."""
        self._topic_ids |= {(cluster, topic): topic_id for topic, topic_id in ids.items()}
        for source, partition in self._serving.partitions.items():
            if source.cluster == cluster and source.topic in ids and not partition.life.topic_id:
                partition.life.topic_id = ids[source.topic]

    def position_reset(self, source: UpstreamPartition, start: int, reason: str, now: float) -> None:
        """The offsets of a partition begin anew: what was known of it is void, also what is stored upstream, how far
        its log went, and the id of its topic."""
        partition = self._serving.partitions.get(source)
        if partition is None or partition.ownership is Ownership.UNASSIGNED:
            return
        fields = {"partition": str(source), "start": start, "reason": reason}
        self._outbox.report("an upstream partition begins anew", fields, "warning")
        self._backpressure.begin_anew(partition)
        ownership = partition.ownership
        self._lose(partition, DeliveryEventType.RESET)
        partition.ledger, partition.end = Ledger(start), start
        self._topic_ids.pop((source.cluster, source.topic), None)
        partition.live_on(Shared(0, is_certain=True), None)
        self._serving.delivery_events.began(source, start, ())
        partition.ownership = ownership
        if partition.is_active:
            self._serving.activate(partition, now)

    def truncated(self, source: UpstreamPartition, offset: int, now: float) -> None:
        """The log is the one that was read, or that the stored leader epoch speaks of, only up to `offset`."""
        partition = self._serving.partitions.get(source)
        if partition is None or partition.ownership is Ownership.UNASSIGNED:
            return
        # What stands above it is not known before it is told anew.
        partition.end = min(partition.end, offset)
        partition.live_on(Shared(offset, is_certain=True), partition.life.topic_id)
        known = highest_known(partition)
        if known < offset:
            return
        fields = {"partition": str(source), "span": str(Span(offset, known))}
        event = "records and acknowledgements discarded: an upstream log was truncated"
        self._outbox.report(event, fields, "warning")
        self._serving.delivery_events.add(DeliveryEventType.TRUNCATED, source, [Span(offset, known)])
        truncate(partition, offset, self._serving, self._members)
        if partition.is_active:
            self._serving.activate(partition, now)
            self._serving.rereads.pump(partition)

    def reread(
        self,
        source: UpstreamPartition,
        token: int,
        batches: tuple[Batch, ...],
        complete: bool,
        error: str,
        log_start: int,
        now: float,
    ) -> None:
        """Part of what was asked for by this token; see `mesh.upstream.engine.Reread`."""
        partition = self._serving.partitions.get(source)
        if partition is not None:
            self._serving.reread(partition, token, batches, complete, error, log_start, now)

    def dead_letter_ended(self, source: UpstreamPartition, offset: int, error: str, now: float) -> None:
        """An attempt to write a dead letter; error: why it failed, "" if it did not."""
        partition = self._serving.partitions.get(source)
        if partition is not None:
            self._serving.dead_letters.ended(partition, offset, error, now)

    def _begin(self, partition: Partition, assignment: Assignment, now: float) -> None:
        """What is known of a partition that begins: where its group stands, what was acknowledged above that, and what
        was leased when it was stored."""
        source, committed = assignment.partition, assignment.committed
        try:
            known = unpack(source, assignment.start, committed.metadata)
        except ForeignMetadata as problem:
            fields = {"partition": str(source), "detail": str(problem)}
            self._outbox.report("the metadata of an upstream commit was passed over", fields, "warning")
            known = Unpacked()
        # A log that was cut off may have other records there by now.
        end = assignment.end or sys.maxsize
        runs = [run for run in known.runs if run.last < end]
        counts = [each for each in known.counts if each.span.last < end]
        partition.ledger = Ledger(assignment.start, committed, runs, counts)
        partition.live_on(UNKNOWN, self._topic_ids.get((source.cluster, source.topic)))
        self._serving.delivery_events.began(source, partition.ledger.committable, partition.ledger)
        for each in counts:
            partition.released_unread.note(each.span, History(each.count))
        self._leases.restore(partition, known.leases, end, now)
        partition.ledger.know(partition.highest_leased)

    def _forget_ids(self, cluster: ClusterName) -> None:
        """Its engine is gone, and tells no more if a topic is another one."""
        self._topic_ids = {topic: topic_id for topic, topic_id in self._topic_ids.items() if topic[0] != cluster}

    def _lose(self, partition: Partition, kind: DeliveryEventType = DeliveryEventType.REVOKED) -> None:
        self._serving.delivery_events.void(kind, partition.source)
        self._serving.void(partition, self._members)
        partition.ownership = Ownership.UNASSIGNED
        self._commits.gone([partition.source])
        self._backpressure.forget(partition)

    # The end of a step

    def changed(self, partition: Partition) -> None:
        """Something of this partition was received or settled."""
        outstanding = self._outstanding.setdefault(partition.source.cluster, set())
        if partition.is_active and partition.ledger.committable < partition.ledger.received:
            outstanding.add(partition)
        else:
            outstanding.discard(partition)

    def update_urgency(self) -> None:
        """Engines look for commits to store more often while there is something to commit."""
        for cluster in self._subscribed:
            eager = bool(self._outstanding.get(cluster))
            if eager != (cluster in self._eager):
                (self._eager.add if eager else self._eager.discard)(cluster)
                self._outbox.put(HurryUpstream(self.group, cluster, eager))
