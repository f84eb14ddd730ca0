"""The intake of a pool: the topics that it consumes, its assignments, and the records that it receives."""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from mesh.pool.common.delivery_events import DeliveryEventType
from mesh.pool.common.effects import Gone, PollUpstream, SubscribeUpstream
from mesh.pool.common.history import History
from mesh.pool.common.outbox import PoolParts
from mesh.pool.common.topics import VirtualTopics
from mesh.pool.fetch.serving import Serving
from mesh.pool.intake.backpressure import Backpressure
from mesh.pool.intake.truncation import highest_known, truncate
from mesh.pool.leases.service import Leases
from mesh.pool.offsets.commits import Commits
from mesh.pool.offsets.metadata import Unpacked, unpack
from mesh.pool.offsets.payload import ForeignMetadata
from mesh.pool.replay.service import Replaying
from mesh.pool.state.incarnations import UNKNOWN_PREFIX, CommonPrefix
from mesh.pool.state.ledger import Ledger
from mesh.pool.state.member import Member
from mesh.pool.state.partition import Ownership, Partition
from mesh.pool.state.window import Available
from mesh.records.batch import RecordBatch
from mesh.records.runs import gaps, include_empty, singles
from mesh.records.span_lists import at_or_above
from mesh.records.spans import ClusterName, CommitPosition, Gap, Span, TopicName, UpstreamPartition


@dataclass(frozen=True, slots=True)
class Assignment:
    """One partition of a new upstream assignment.

    * start: the offset from which it is read. committed: the committed position of the group.
    * end: the end of its log; 0 if unknown.
    * resumed: whether records received before are still valid.
    """

    partition: UpstreamPartition
    start: int
    committed: CommitPosition
    resumed: bool
    end: int = 0


class Intake:
    """Handles the events of a pool's engines: assignments, records, ends of logs, failures. members: the living
    members, since each may hold records of a partition that goes away."""

    def __init__(
        self,
        parts: PoolParts,
        topics: VirtualTopics,
        serving: Serving,
        commits: Commits,
        leases: Leases,
        replaying: Replaying,
        backpressure: Backpressure,
        members: Iterable[Member],
    ) -> None:
        self.group = parts.group
        self._topics = topics
        self._serving = serving
        self._commits = commits
        self._leases = leases
        self._replaying = replaying
        self._backpressure = backpressure
        self._members = members
        self._outbox = parts.outbox
        self._wanted: set[TopicName] = set()
        self._subscribed: dict[ClusterName, frozenset[TopicName]] = {}
        self._outstanding: dict[ClusterName, set[Partition]] = {}
        self._polled_often: set[ClusterName] = set()
        self._topic_ids: dict[tuple[ClusterName, TopicName], str] = {}
        """The ids of upstream topics, from their engines; "" for an unknown one."""
        self._has_left = False
        """True if the pool has left the upstream groups although it has members."""

    # Subscriptions

    def consume(self, topic: TopicName) -> None:
        """Consumes this topic from now on, since a member asks for its records."""
        if topic not in self._wanted and topic in self._topics:
            self._wanted.add(topic)
            self.topics_changed()

    def topics_changed(self) -> None:
        """Subscribes to the sources of the wanted topics. A subscription never shrinks while there are members."""
        if self._has_left:
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

    def is_subscribed(self, cluster: ClusterName) -> bool:
        """Returns whether the pool consumes topics of a cluster."""
        return cluster in self._subscribed

    def leave_all(self) -> None:
        """Notes that the pool leaves the upstream groups, so that nothing is assigned to it."""
        self._has_left = True
        self.lost(list(self._serving.partitions))
        self._topic_ids.clear()
        for partition in self._serving.partitions.values():
            partition.is_awaited = partition.is_unopened = False
        self._subscribed.clear()
        self._outstanding.clear()
        self._polled_often.clear()

    def rejoin_all(self) -> None:
        """Joins the upstream groups again."""
        self._has_left = False
        for partition in self._serving.partitions.values():
            partition.is_awaited = partition.ownership is Ownership.UNASSIGNED
        self.topics_changed()

    def leave_cluster(self, cluster: ClusterName) -> None:
        """Notes that the pool leaves the upstream group on one cluster."""
        sources = [source for source in self._serving.partitions if source.cluster == cluster]
        self.lost(sources)
        self._forget_ids(cluster)
        for source in sources:
            self._serving.partitions[source].is_awaited = False
        self.unopened(cluster, ())
        self._subscribed.pop(cluster, None)
        self._outstanding.pop(cluster, None)
        self._polled_often.discard(cluster)

    def rejoin_cluster(self, cluster: ClusterName) -> None:
        """Consumes the wanted topics of a cluster again that the pool has left."""
        if not self._has_left:
            consumed = {source for name in self._wanted for source in self._topics.consumed(name)}
            for source, partition in self._serving.partitions.items():
                if source.cluster == cluster:
                    partition.is_awaited = source in consumed
            self.topics_changed()

    def assigned(self, cluster: ClusterName, assignments: Sequence[Assignment], now: float) -> None:
        """Takes over the complete assignment on one cluster after a rebalance."""
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
        self._outbox.report("upstream partitions assigned", fields)

    def unopened(self, cluster: ClusterName, sources: Collection[UpstreamPartition]) -> None:
        """Takes over which partitions are assigned on one cluster but cannot be read yet."""
        for source in sources:
            self._serving.partition(source)
        for source, partition in self._serving.partitions.items():
            if source.cluster == cluster:
                partition.is_unopened = source in sources

    def revoked(self, sources: Iterable[UpstreamPartition]) -> None:
        """Suspends partitions that were revoked for a rebalance. They may come back."""
        for source in sources:
            partition = self._serving.partitions.get(source)
            if partition is not None and partition.is_active:
                self._serving.distribution.suspend(partition)
                partition.ownership = Ownership.REVOKED

    def lost(self, sources: Iterable[UpstreamPartition]) -> None:
        """Gives up partitions that other processes may own already. The next assignment shows their owners."""
        for source in sources:
            partition = self._serving.partitions.get(source)
            if partition is not None and partition.ownership is not Ownership.UNASSIGNED:
                self._lose(partition)
                partition.is_awaited = self._topics.is_consumed(source)

    def engine_failed(self, cluster: ClusterName) -> None:
        """Handles the failure of an engine like the loss of all its partitions. The next engine gets a new
        assignment."""
        self.unopened(cluster, ())
        self.lost([source for source in self._serving.partitions if source.cluster == cluster])
        self._forget_ids(cluster)

    def received(
        self, source: UpstreamPartition, batches: Sequence[RecordBatch], now: float, gap: Gap = Gap.UNKNOWN
    ) -> None:
        """Handles new records of a partition. gap: the reason why offsets between the batches are missing."""
        partition = self._serving.partitions.get(source)
        if partition is None or partition.ownership is Ownership.UNASSIGNED:
            return
        fresh: list[Available] = []
        for batch in batches:
            partition.learn_size(len(batch.data), batch.last - batch.first + 1)
            if batch.first > partition.ledger.received:
                self._passed(partition, batch.first, gap)
            if gap is Gap.EMPTY and self._serving.delivery_events.is_kept:
                # These offsets go with the batch behind them. So only this event shows that they have no record.
                between = at_or_above(gaps(batch), partition.ledger.received)
                self._serving.delivery_events.add(DeliveryEventType.EMPTY, source, between)
            spans = partition.unleased(partition.ledger.receive(batch.first, batch.last, partition.is_leased))
            if spans:
                include_empty(batch, spans[0].first)
            if partition.released_unread:
                fresh += self._given_up_ahead(partition, batch, spans)
            elif spans:
                fresh += map(Available, self._serving.slicing.keep(partition, batch, spans))
        for available in fresh:
            self._serving.distribution.backlogs.put(partition, available)
        if fresh:
            self._leases.records_came(now)
        self._serving.distribution.note_records(partition)

    def _given_up_ahead(self, partition: Partition, batch: RecordBatch, spans: list[Span]) -> list[Available]:
        """Applies the histories of records that were released before they arrived, by leases or by members before a
        restart. Records that were delivered too often are not delivered any more."""
        histories = partition.released_unread.take(spans)
        pieces = self._serving.slicing.keep(partition, batch, [span for span, _ in histories]) if histories else []
        lasts = [span.last for span, _ in histories]
        dead_letters = self._serving.dead_letters
        fresh: list[Available] = []
        for piece in pieces:  # a piece covers several spans if its batch is damaged
            first, end = bisect_left(lasts, piece.first), bisect_left(lasts, piece.last) + 1
            history = max((each for _, each in histories[first:end]), key=lambda each: each.blame)
            # Split a run with failed deliveries: the next one must count for a single batch.
            for part in singles(piece) if history.blame else [piece]:
                available = Available(part, history)
                if dead_letters.has_reached_limit(available):
                    dead_letters.put_back(partition, available)
                else:
                    fresh.append(available)
        partition.released_unread.forget_below(partition.ledger.received)
        return fresh

    def reached_end(self, source: UpstreamPartition, offset: int, gap: Gap = Gap.UNKNOWN) -> None:
        """Notes that everything below an offset was read. gap: the reason why offsets below it are missing."""
        partition = self._serving.partitions.get(source)
        if partition is not None and partition.ownership is not Ownership.UNASSIGNED:
            if offset > partition.ledger.received:
                self._passed(partition, offset, gap)
            partition.ledger.reach(offset, partition.is_leased)
            self._serving.distribution.touched.add(partition)

    def _passed(self, partition: Partition, offset: int, gap: Gap) -> None:
        """Notes that the offsets below `offset` that were not received have no records."""
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

    def ends_known(self, ends: Mapping[UpstreamPartition, int], looked: int = 0) -> None:
        """Takes over the ends of upstream logs: high watermarks, or last stable offsets under read_committed. looked:
        the number of the last `LookAtEnds` before the cluster was asked."""
        for source, end in ends.items():
            partition = self._serving.partitions.get(source)
            if partition is not None:
                partition.end, partition.looked = end, looked

    def topics_identified(self, cluster: ClusterName, ids: Mapping[TopicName, str]) -> None:
        """Takes over the ids of upstream topics; "" for unknown ones. If a topic has a new id, its partitions start
        again, which a separate event reports."""
        self._topic_ids |= {(cluster, topic): topic_id for topic, topic_id in ids.items()}
        for source, partition in self._serving.partitions.items():
            if source.cluster == cluster and source.topic in ids and not partition.incarnation.topic_id:
                partition.incarnation.topic_id = ids[source.topic]

    def position_reset(self, source: UpstreamPartition, start: int, reason: str, now: float) -> None:
        """Begins a partition again, because its offsets start again. Everything known about it is void, including its
        stored state, its end, and its topic id."""
        partition = self._serving.partitions.get(source)
        if partition is None or partition.ownership is Ownership.UNASSIGNED:
            return
        fields = {"partition": str(source), "start": start, "reason": reason}
        self._outbox.report("upstream partition reset", fields, "warning")
        self._backpressure.begin_anew(partition)
        ownership = partition.ownership
        self._lose(partition, DeliveryEventType.RESET)
        partition.ledger, partition.end, partition.looked = Ledger(start), start, 0
        self._topic_ids.pop((source.cluster, source.topic), None)
        partition.begin_incarnation(CommonPrefix(0, is_certain=True), None)
        self._serving.delivery_events.began(source, start, ())
        partition.ownership = ownership
        if partition.is_active:
            self._serving.activate(partition, now)

    def truncated(self, source: UpstreamPartition, offset: int, now: float) -> None:
        """Handles a truncation. Below `offset` the log is still the one that was read, or the one of the stored leader
        epoch."""
        partition = self._serving.partitions.get(source)
        if partition is None or partition.ownership is Ownership.UNASSIGNED:
            return
        # The end of the log is unknown until the engine reports it again.
        partition.end, partition.looked = min(partition.end, offset), 0
        partition.begin_incarnation(CommonPrefix(offset, is_certain=True), partition.incarnation.topic_id)
        known = highest_known(partition)
        if known < offset:
            return
        fields = {"partition": str(source), "span": str(Span(offset, known))}
        event = "records and acknowledgements discarded: upstream log truncated"
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
        batches: tuple[RecordBatch, ...],
        complete: bool,
        error: str,
        log_start: int,
        now: float,
    ) -> None:
        """Handles a part of the reread with this token (`mesh.upstream.engine.Reread`)."""
        partition = self._serving.partitions.get(source)
        if partition is not None:
            self._serving.reread(partition, token, batches, complete, error, log_start, now)

    def dead_letter_ended(self, source: UpstreamPartition, offset: int, error: str, now: float) -> None:
        """Handles the end of an attempt to write a dead letter. error: the reason for the failure; "" if the record is
        written."""
        partition = self._serving.partitions.get(source)
        if partition is not None:
            self._serving.dead_letters.ended(partition, offset, error, now)

    def _begin(self, partition: Partition, assignment: Assignment, now: float) -> None:
        """Begins a partition with the committed position of its group, the acknowledgements above it, and the stored
        leases."""
        source, committed = assignment.partition, assignment.committed
        try:
            known = unpack(source, assignment.start, committed.metadata)
        except ForeignMetadata as problem:
            fields = {"partition": str(source), "detail": str(problem)}
            self._outbox.report("upstream commit metadata ignored", fields, "warning")
            known = Unpacked()
        # Acknowledgements beyond the end of the log are from before a truncation: new records will get these offsets.
        end = assignment.end or sys.maxsize
        runs = [run for run in known.runs if run.last < end]
        counts = [each for each in known.counts if each.span.last < end]
        partition.ledger, partition.looked = Ledger(assignment.start, committed, runs, counts), 0
        partition.begin_incarnation(UNKNOWN_PREFIX, self._topic_ids.get((source.cluster, source.topic)))
        self._serving.delivery_events.began(source, partition.ledger.committable, partition.ledger)
        for each in counts:
            partition.released_unread.note(each.span, History(each.count))
        self._leases.restore(partition, known.leases, end, now)
        partition.ledger.extend_epoch(partition.highest_leased)
        if known.replay is not None:
            self._replaying.restored(partition, known.replay, end, now)

    def _forget_ids(self, cluster: ClusterName) -> None:
        """Forgets the topic ids of a cluster whose engine is gone. Until the next engine comes, new topics are not
        noticed."""
        self._topic_ids = {topic: topic_id for topic, topic_id in self._topic_ids.items() if topic[0] != cluster}

    def _lose(self, partition: Partition, kind: DeliveryEventType = DeliveryEventType.REVOKED) -> None:
        self._serving.delivery_events.void(kind, partition.source)
        self._serving.void(partition, self._members)
        partition.ownership = Ownership.UNASSIGNED
        self._replaying.lost(partition)
        self._commits.partitions_moved([partition.source])
        self._backpressure.forget(partition)

    # The end of a step

    def changed(self, partition: Partition) -> None:
        """Updates whether a partition has outstanding offsets, after offsets of it were received or settled."""
        outstanding = self._outstanding.setdefault(partition.source.cluster, set())
        ledger = partition.ledger
        if partition.is_active and (ledger.committable < ledger.received or ledger.replayed is not None):
            outstanding.add(partition)
        else:
            outstanding.discard(partition)

    def update_polling(self) -> None:
        """Makes engines check for commits more often while there are records to commit."""
        for cluster in self._subscribed:
            often = bool(self._outstanding.get(cluster))
            if often != (cluster in self._polled_often):
                (self._polled_often.add if often else self._polled_often.discard)(cluster)
                self._outbox.put(PollUpstream(self.group, cluster, often))
