"""The backlogs of one pool: batches that wait in a partition until a Fetch takes them, or parts of them."""

from __future__ import annotations

from mesh.pool.distribution.quarantine import Quarantine
from mesh.pool.distribution.slicing import Slicing
from mesh.pool.state.partition import Partition
from mesh.pool.state.window import Available, View, available_of
from mesh.records.runs import batches_with_spans, split
from mesh.records.spans import Span


class Backlogs:
    """The backlogs of all partitions of a pool. size: their bytes. offsets: their offsets. touched: partitions that may
    have changed in this step, so that their invariants have to be checked."""

    def __init__(self, quarantine: Quarantine, slicing: Slicing) -> None:
        self._quarantine = quarantine
        self._slicing = slicing
        self.size = 0
        self.offsets = 0
        self.touched: set[Partition] = set()

    def put(self, partition: Partition, available: Available) -> None:
        partition.put(available)
        self.size += available.size
        self.offsets += len(available)
        partition.suspects += self._quarantine.is_suspected(available)
        self.touched.add(partition)

    def take(self, partition: Partition, available: Available) -> None:
        """Takes a batch out of the backlog."""
        partition.take(available)
        self.size -= available.size
        self.offsets -= len(available)
        partition.suspects -= self._quarantine.is_suspected(available)
        self.touched.add(partition)

    def take_some(self, partition: Partition, available: Available, count: int) -> Available:
        """Takes a batch out of the backlog, or `count` batches of a run."""
        self.take(partition, available)
        if count >= len(available.batch.marks):
            return available
        head, rest = split(available.batch, count)
        self.put(partition, Available(rest, available.history, available.avoid))
        return Available(head, available.history, available.avoid)

    def put_back_all_but(self, partition: Partition, available: Available, offsets: int) -> Available | None:
        """Cuts a batch that was taken. Returns its first `offsets` offsets, None if they have no record. Puts the rest
        back."""
        batch, middle = available.batch, available.batch.first + offsets
        spans = [Span(batch.first, middle - 1), Span(middle, batch.last)]
        parts = [
            Available(piece, available.history, available.avoid)
            for piece in self._slicing.keep(partition, batch, spans)
        ]
        first = parts.pop(0) if parts and parts[0].batch.first < middle else None
        for part in parts:
            self.put(partition, part)
        return first

    def take_offsets(self, partition: Partition, available: Available, offsets: int) -> list[Available]:
        """Takes the first `offsets` offsets of an entry that has more. Bytes are not cut: if a batch is divided, both
        parts are views."""
        self.take(partition, available)
        middle = available.first + offsets
        spans = [Span(available.first, middle - 1), Span(middle, available.last)]
        taken: list[Available] = []
        for batch, span in batches_with_spans(available.batch, spans):
            part = available_of(batch, span, available.history, available.avoid)
            if span.first < middle:
                taken.append(part)
            else:
                self.put(partition, part)
        return taken

    def cut(self, partition: Partition, view: View) -> None:
        """Replaces a view by the records in it, for a member that takes all bytes for its own. Nothing is left of a
        view without records."""
        self.take(partition, view)
        for batch in self._slicing.cut(partition, view.batch, view.part):
            self.put(partition, Available(batch, view.history, view.avoid))

    def forget(self, partition: Partition) -> None:
        """Forgets the backlog of a partition, because it is void."""
        self.size -= partition.backlog_bytes
        self.offsets -= partition.backlog_offsets
        partition.clear()
        self.touched.add(partition)
