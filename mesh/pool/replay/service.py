"""Replays of one pool: acknowledged records are delivered again to its members, beside new ones.

A replay has spans of some partitions. The engine reads one chunk of each partition after the other again, and the chunk
goes to the backlog. The rate limits a chunk. The next chunk waits until members have got this one, and then as many new
records. Acknowledgements of replayed records have a separate account (`mesh.pool.state.replayed`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from mesh.pool.common.delivery_events import DeliveryEventType
from mesh.pool.common.history import History
from mesh.pool.common.outbox import PoolParts
from mesh.pool.fetch.serving import Serving
from mesh.pool.groups.members import Members
from mesh.pool.offsets.commits import Commits
from mesh.pool.offsets.replays import LEAST_LIMIT
from mesh.pool.state.limiter import Bucket
from mesh.pool.state.partition import Partition, Released
from mesh.pool.state.replayed import Replay, Replayed, ReplayId, StoredReplay
from mesh.records.span_lists import count, disjoint, without
from mesh.records.spans import Span, UpstreamPartition

CHUNK: Final = 1_000
"""The most offsets that are read again at once."""
CHUNK_BYTES: Final = 1 << 20
"""The most bytes that are read again at once, as far as sizes are known."""
MOST_APART: Final = 64
"""The most unacknowledged spans of a partition. With more, nothing more is read again, since they must fit into the
metadata of its commit."""
PERIOD: Final = 0.1
"""Seconds between two checks whether more may be read again. Acknowledgements are handled at once."""
AGAIN: Final = History(was_sent=True)


class NotReplayed(Exception):
    """Raised when a request for a replay cannot be carried out. Nothing has been changed then. The message is one line
    with the reason."""


@dataclass(frozen=True, slots=True)
class ReplayedPartition:
    """One partition of a replay, as operators see it. total: the offsets to deliver again. left: those that are not
    acknowledged yet. out: those of `left` that have been read again."""

    source: UpstreamPartition
    replay: Replay
    span: Span
    total: int
    left: int
    out: int
    is_cancelled: bool


@dataclass(slots=True, eq=False)
class _Active:
    """The current state of a replay in one partition. replayed: from the ledger that the partition had. highest_given:
    the partition's `highest_given` when the last chunk was read again. chunk: the number of offsets in that chunk."""

    replayed: Replayed
    highest_given: int = -1
    chunk: int = 0


class Replaying:
    """The replays of one pool."""

    def __init__(self, parts: PoolParts, serving: Serving, members: Members, commits: Commits) -> None:
        self._outbox = parts.outbox
        self._timers = parts.timers
        self._serving = serving
        self._members = members
        self._commits = commits
        self._active: dict[Partition, _Active] = {}
        self._over: dict[ReplayId, dict[UpstreamPartition, ReplayedPartition]] = {}
        """Finished partitions of replays that continue in other partitions."""
        self._buckets: dict[ReplayId, Bucket] = {}
        """The rate limits of replays that have a rate."""
        self._is_timed = False

    # Operators

    def preview(self, spans: Mapping[UpstreamPartition, Span]) -> dict[UpstreamPartition, list[Span]]:
        """Returns the spans that `begin` would deliver again, by partition. They are without unacknowledged records,
        which are delivered anyhow. Raises NotReplayed."""
        if self._serving.has_share_members:
            raise NotReplayed("a share group has no replays: set its start offset instead (kafka-share-groups)")
        found = {source: self._acknowledged(source, span) for source, span in spans.items()}
        found = {source: each for source, each in found.items() if each}
        if not found:
            raise NotReplayed("no record of that was acknowledged: the others are delivered anyhow")
        for source, each in found.items():
            before = self._serving.partitions[source].ledger.replayed
            if before is not None:
                raise NotReplayed(f"replay {before.replay.id} of {source} is not over: cancel it, or wait")
            if len(each) > MOST_APART:
                raise NotReplayed(
                    f"{source} has {len(each)} runs of acknowledged records there, more than {MOST_APART}"
                )
            if self._commits.metadata_limit(source.cluster) < LEAST_LIMIT:
                raise NotReplayed(f"{source.cluster} allows less than {LEAST_LIMIT} characters of commit metadata")
        return found

    def begin(self, replay: Replay, spans: Mapping[UpstreamPartition, Span], now: float) -> list[ReplayedPartition]:
        """Begins a replay of these spans. Raises NotReplayed."""
        found = self.preview(spans)
        if any(each.replay.id == replay.id for each in self.partitions()):
            raise NotReplayed(f"{replay.id!r} is the name of a replay that is not over")
        for source, left in found.items():
            partition = self._serving.partitions[source]
            span = Span(left[0].first, left[-1].last)
            stored = StoredReplay(replay, span, count(left), tuple(left))
            replayed = Replayed(stored, self._bucket(replay, now))
            partition.ledger.replay_changed(replayed)
            self._serving.distribution.touched.add(partition)
            self._active[partition] = _Active(replayed)
        fields = {"replay": replay.id, "partitions": len(found), "offsets": sum(map(count, found.values()))}
        self._outbox.report("replay begun", fields)
        self._go_on(now)
        return [each for each in self.partitions() if each.replay.id == replay.id]

    def cancel(self, id: ReplayId, now: float) -> list[ReplayedPartition]:
        """Delivers no more records of a replay. Members may still acknowledge those that they hold. Raises
        NotReplayed."""
        stopped = [each for each in self._going_on() if each.replay.id == id and not each.is_cancelled]
        if not stopped:
            raise NotReplayed(f"{id!r}: no unfinished replay")
        for each in stopped:
            self._cancel(self._serving.partitions[each.source], now)
        self._outbox.report("replay cancelled", {"replay": id, "left": sum(each.left for each in stopped)}, "warning")
        return stopped

    def partitions(self) -> list[ReplayedPartition]:
        """Returns the partitions of all unfinished replays, including finished partitions."""
        return [*self._going_on(), *(each for of_one in self._over.values() for each in of_one.values())]

    # Events

    def restored(self, partition: Partition, stored: StoredReplay, end: int, now: float) -> None:
        """Continues the replay in the commit of a new partition. end: the end of its log, as far as known."""
        ledger = partition.ledger
        replayed = Replayed(stored, self._bucket(stored.replay, now))
        replayed.truncate(end)
        open_spans = [each for span in replayed.left for each in ledger.unsettled(span.first, span.last)]
        replayed.keep(without(replayed.left, open_spans))
        replayed.next = replayed.left[0].first if replayed.left else replayed.next
        ledger.replayed = replayed
        self._active[partition] = _Active(replayed)
        fields = {"partition": str(partition.source), "replay": stored.replay.id, "left": replayed.offsets_left}
        self._outbox.report("replay goes on", fields)

    def lost(self, partition: Partition) -> None:
        """Forgets a partition that moved or started again. Its next owner continues with the stored state."""
        going = self._active.pop(partition, None)
        if going is not None:
            self._forget(going.replayed.replay.id)

    def go_on(self, touched: Iterable[Partition], now: float) -> None:
        """Continues replays at the end of a step. touched: the partitions that the step changed."""
        if self._active:
            for partition in touched:
                if partition in self._active and not self._active[partition].replayed.left:
                    self._end(partition)
            self._go_on(now)

    def _end(self, partition: Partition) -> None:
        replayed = self._active.pop(partition).replayed
        id = replayed.replay.id
        partition.ledger.replay_changed(None)
        self._serving.distribution.touched.add(partition)
        if not self._forget(id):
            self._over.setdefault(id, {})[partition.source] = _shown(partition.source, replayed)
        elif not replayed.is_cancelled:
            self._outbox.report("replay over", {"replay": id})

    def _forget(self, id: ReplayId) -> bool:
        """Forgets a replay that has no partition left here. Returns whether it did."""
        if any(each.replayed.replay.id == id for each in self._active.values()):
            return False
        self._buckets.pop(id, None)
        self._over.pop(id, None)
        return True

    def _go_on(self, now: float) -> None:
        """Reads more again, in any partition, and sets a timer if there is still more."""
        for partition, going in list(self._active.items()):
            if self._has_room(partition, going) and self._read(partition, going, now):
                self._active[partition] = self._active.pop(partition)  # other partitions come first next time
        if not self._is_timed and any(each.replayed.part(1) is not None for each in self._active.values()):
            self._is_timed = True
            self._timers.at(now + PERIOD, self._look_again)

    def _look_again(self, now: float) -> None:
        self._is_timed = False
        self._go_on(now)

    def _has_room(self, partition: Partition, going: _Active) -> bool:
        distribution, replayed = self._serving.distribution, going.replayed
        if not partition.is_active or replayed.is_cancelled or distribution.is_stopped or not distribution.members:
            return False
        if partition.released or len(replayed.left) > MOST_APART:
            return False
        lowest = next(iter(partition.backlog.values()), None)
        if lowest is None:
            return True
        # Members lag behind. They get as many new records as replayed ones.
        return not replayed.has(lowest.span) and partition.highest_given - going.highest_given >= going.chunk

    def _read(self, partition: Partition, going: _Active, now: float) -> bool:
        """Reads the next chunk of a partition again. Returns False if there is none, or the rate does not allow it
        yet."""
        replayed = going.replayed
        if (room := replayed.room(now)) < 1:
            return False
        by_size = int(CHUNK_BYTES / partition.mean_size) if partition.mean_size else CHUNK
        most = max(min(CHUNK, by_size), 1)
        is_for_all = replayed.replay.filter.is_for_all
        span = replayed.part(min(most, room) if is_for_all else most)
        if span is None:
            return False
        if is_for_all:
            replayed.took(len(span))
        replayed.next = span.last + 1
        going.highest_given, going.chunk = partition.highest_given, len(span)
        self._serving.delivery_events.add(DeliveryEventType.REPLAYED, partition.source, [span])
        partition.released[span.first] = Released(span, AGAIN, None)
        self._serving.rereads.pump(partition)
        return True

    # Helpers

    def _going_on(self) -> list[ReplayedPartition]:
        return [_shown(partition.source, going.replayed) for partition, going in self._active.items()]

    def _acknowledged(self, source: UpstreamPartition, span: Span) -> list[Span]:
        """Returns the parts of a span that were received, and are settled. Raises NotReplayed."""
        partition = self._serving.partitions.get(source)
        if partition is None or not partition.is_active:
            raise NotReplayed(f"{source} is not assigned to this process")
        last = min(span.last, partition.ledger.received - 1)
        if span.first > last:
            return []
        return without([Span(span.first, last)], partition.ledger.unsettled(span.first, last))

    def _bucket(self, replay: Replay, now: float) -> Bucket | None:
        if replay.rate is None:
            return None
        return self._buckets.setdefault(replay.id, Bucket(replay.rate, now))

    def _cancel(self, partition: Partition, now: float) -> None:
        distribution, replayed = self._serving.distribution, self._active[partition].replayed
        distribution.suspend(partition)  # so that no member gets records before they are taken out
        for fetch, partition_fetch in list(partition.parked.items()):
            if any(replayed.has(each.span) for each in partition_fetch.collected or ()):
                distribution.give_back(fetch, [partition_fetch])
        distribution.suspend(partition)  # including records reserved for members between two Fetches
        for available in [each for each in partition.backlog.values() if replayed.has(each.span)]:
            distribution.backlogs.take(partition, available)
        for waiting in (partition.released, partition.resting):
            for first in [first for first, each in waiting.items() if replayed.has(each.span)]:
                del waiting[first]
        replayed.is_cancelled = True
        replayed.keep(disjoint([*self._held(partition), *(each.span for each in partition.dead_lettering.values())]))
        partition.ledger.replay_changed(replayed)
        self._serving.activate(partition, now)
        self._serving.rereads.pump(partition)

    def _held(self, partition: Partition) -> Iterable[Span]:
        """Yields the spans that members were sent and have not acknowledged."""
        for member in self._members:
            yield from (delivery.span for delivery in member.windows.get(partition.source) or ())
            if member.share is not None:
                yield from (acquired.span for acquired in member.share.by_partition.get(partition.source) or ())


def _shown(source: UpstreamPartition, replayed: Replayed) -> ReplayedPartition:
    return ReplayedPartition(
        source,
        replayed.replay,
        replayed.span,
        replayed.total,
        replayed.offsets_left,
        count(replayed.out),
        replayed.is_cancelled,
    )
