"""Selects the records of a replay from batches that are read again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mesh.pool.distribution.slicing import Slicing
from mesh.pool.state.partition import Partition
from mesh.pool.state.replayed import UNLIMITED, RecordFilter, Replayed
from mesh.records.batch import CorruptBatch, RecordBatch, is_intact
from mesh.records.decode import decode_records
from mesh.records.runs import include_empty, singles
from mesh.records.span_lists import merge_adjacent, parts_of
from mesh.records.spans import Span


def replayed_of(partition: Partition, span: Span) -> Replayed | None:
    """Returns the replay whose filter applies to a span; None if there is none."""
    replayed = partition.ledger.replayed
    if replayed is None or replayed.replay.filter.is_for_all or not replayed.has(span):
        return None
    return replayed


def chosen(
    slicing: Slicing, partition: Partition, replayed: Replayed, batches: Sequence[RecordBatch], span: Span
) -> list[RecordBatch]:
    """Returns the records that are delivered again, for batches that the replay has delivered before. A record that the
    filter does not match counts with the next matching one. Those behind the last matching record are settled."""
    return _cut(slicing, partition, replayed, batches, span, UNLIMITED)


def chosen_at_rate(
    slicing: Slicing, partition: Partition, replayed: Replayed, batches: Sequence[RecordBatch], span: Span, now: float
) -> list[RecordBatch]:
    """Returns the records that are delivered again, for batches that the replay has not delivered yet: as many as its
    rate allows. The rest is read once more later, so nothing above the span may have been read."""
    is_last = span.last + 1 == replayed.next
    return _cut(slicing, partition, replayed, batches, span, replayed.room(now) if is_last else UNLIMITED)


def _cut(
    slicing: Slicing, partition: Partition, replayed: Replayed, batches: Sequence[RecordBatch], span: Span, most: int
) -> list[RecordBatch]:
    matching = [each for batch in batches for each in _matching(batch, replayed.replay.filter)]
    taken = merge_adjacent(matching[: max(most, 0)])
    found: list[RecordBatch] = []
    position = span.first
    for batch in batches:
        parts = parts_of(Span(batch.first, batch.last), taken)
        for piece in slicing.keep(partition, batch, parts) if parts else ():
            include_empty(piece, position)
            position = piece.last + 1
            found.append(piece)
    if len(matching) > most:
        replayed.next = position
    elif position <= span.last:
        partition.ledger.settle_empty(position, span.last)
    if most < UNLIMITED:
        replayed.took(min(len(matching), max(most, 0)))
    return found


def _matching(run: RecordBatch, wanted: RecordFilter) -> Iterator[Span]:
    """Yields the span of each matching record. A damaged batch matches as a whole, since its records cannot be told
    apart."""
    for batch in singles(run):
        try:
            records = decode_records(batch) if is_intact(batch) else None
        except CorruptBatch:
            records = None
        if records is None:
            yield Span(batch.first, batch.last)
            continue
        inside = (each for each in records if batch.first <= each.offset <= batch.last)
        yield from (Span(each.offset, each.offset) for each in inside if wanted.matches(each))
