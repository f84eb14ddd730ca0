"""Runs: batches that follow each other in memory and in their log, apart from offsets without records. A run is moved
like one batch.

Work on a run costs as much as on a batch; only assigning new offsets visits each batch. A run is divided where a limit,
or a member's share, ends inside it. All functions here also accept single batches.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final

from mesh.records.batch import (
    BATCH_START,
    LAST_DELTA_AT,
    LENGTH_OVERHEAD,
    CorruptBatch,
    Mark,
    RecordBatch,
    cut_batch,
    is_compressed,
    is_intact,
    unpack_batch,
)
from mesh.records.spans import Span

MOST_EMPTY: Final = 10_000
"""The most offsets without records that count with the batch behind them. Such offsets count as held, and use up
virtual offsets."""
_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")


def rebase(batch: RecordBatch, offset: int) -> None:
    """Gives the first batch another base offset, shifts the others accordingly, and sets all leader epochs to 0. The
    CRC covers neither field."""
    data, pack = batch.data, BATCH_START.pack_into
    if not batch.marks:
        pack(data, 0, offset, len(data) - LENGTH_OVERHEAD, 0)
        return
    origin, shift = batch.marks[0][0], offset - batch.base
    for position, base, length, _ in batch.marks:
        pack(data, position - origin, base + shift, length, 0)


def copy_batch(batch: RecordBatch) -> RecordBatch:
    """Returns a copy of a batch or run in new bytes."""
    return RecordBatch(bytearray(batch.data), batch.base, batch.first, batch.last, batch.record_count, batch.marks)


def include_empty(batch: RecordBatch, first: int) -> None:
    """Lets the offsets from `first` up to the batch, which have no record, count with it."""
    batch.first = min(batch.first, first)


def fitting(batch: RecordBatch, size: int, offsets: int) -> int:
    """Returns the number of batches, from the front, that have together at most `size` bytes, and begin within the
    first `offsets` offsets that count. Offsets without a record in front of the first batch are not limited."""
    if not batch.marks:
        return int(len(batch.data) <= size and offsets > 0)
    end = max(batch.first, batch.base) + offsets
    if len(batch.data) <= size and batch.marks[-1][1] < end:
        return len(batch.marks)
    origin = batch.marks[0][0]
    by_size = bisect_right(batch.marks, size - LENGTH_OVERHEAD, key=lambda mark: mark[0] + mark[2] - origin)
    # The first batch counts from `first` on, whatever its base offset is.
    by_offsets = bisect_left(batch.marks, end, 1, key=lambda mark: mark[1]) if offsets > 0 else 0
    return min(by_size, by_offsets)


def split(batch: RecordBatch, count: int) -> tuple[RecordBatch, RecordBatch]:
    """Returns the first `count` batches of a run, and the rest. Neither may be empty."""
    marks = batch.marks
    middle, base = marks[count][0] - marks[0][0], marks[count][1]
    data = memoryview(batch.data)
    records = sum(mark[3] for mark in marks[:count])
    last = _last_of(batch, count - 1)
    head = RecordBatch(data[:middle], batch.base, batch.first, last, records, marks[:count])
    rest = RecordBatch(data[middle:], base, last + 1, batch.last, batch.record_count - records, marks[count:])
    return _single(head), _single(rest)


def join_runs(batches: Sequence[RecordBatch]) -> list[RecordBatch]:
    """Joins single batches into runs, in new bytes where there are several. The offsets between two batches must have
    no record; more than MOST_EMPTY of them end a run."""
    found: list[RecordBatch] = []
    begin = 0
    for index in range(1, len(batches) + 1):
        if index == len(batches) or batches[index].base - batches[index - 1].last > MOST_EMPTY + 1:
            found.append(_joined(batches[begin:index]))
            begin = index
    return found


def _joined(batches: Sequence[RecordBatch]) -> RecordBatch:
    if len(batches) == 1:
        return batches[0]
    data = bytearray().join(batch.data for batch in batches)
    marks: list[Mark] = []
    position = 0
    for batch in batches:
        marks.append((position, batch.base, len(batch.data) - LENGTH_OVERHEAD, batch.record_count))
        position += len(batch.data)
    count = sum(batch.record_count for batch in batches)
    return RecordBatch(data, batches[0].base, batches[0].first, batches[-1].last, count, marks)


def gaps(batch: RecordBatch) -> list[Span]:
    """Returns the offsets between the batches of a run that was cut from an answer. Offsets inside a batch that
    compaction has emptied are not included: only its records show them."""
    marks = batch.marks
    if not marks or batch.record_count == batch.last - batch.base + 1:
        return []
    begins = [_last_of(batch, index) + 1 for index in range(len(marks) - 1)]
    return [Span(first, mark[1] - 1) for first, mark in zip(begins, marks[1:], strict=True) if first < mark[1]]


def singles(batch: RecordBatch) -> list[RecordBatch]:
    """Returns the batches of a run, each by itself."""
    if not batch.marks:
        return [batch]
    data, origin = memoryview(batch.data), batch.marks[0][0]
    found: list[RecordBatch] = []
    first = batch.first
    for index, (position, base, length, count) in enumerate(batch.marks):
        begin, last = position - origin, _last_of(batch, index)
        found.append(RecordBatch(data[begin : begin + length + LENGTH_OVERHEAD], base, first, last, count))
        first = last + 1
    return found


def from_offset(batch: RecordBatch, offset: int) -> RecordBatch:
    """Returns a run without the batches that end below one of its offsets."""
    index = _index_of(batch, offset)
    return split(batch, index)[1] if index > 0 else batch


def batch_at(batch: RecordBatch, offset: int) -> RecordBatch:
    """Returns the single batch of a run with which an offset counts."""
    if not batch.marks:
        return batch
    index = _index_of(batch, offset)
    return _some(batch, index, index + 1)


def cut_to_spans(batch: RecordBatch, spans: Sequence[Span]) -> list[RecordBatch]:
    """Returns batches with the records of these spans only. The spans are ascending and within [first, last]. Raises
    CorruptBatch.

    The records in front of a span are really removed: librdkafka skips records below the requested offset, but not
    below the end of the batch before. Whole batches stay a run. A batch that counts only from its middle on is not
    whole, since compaction may have removed the records behind that.
    """
    is_whole = len(spans) == 1 and (spans[0].first, spans[0].last) == (batch.first, batch.last)
    if is_whole and batch.first <= batch.base:
        return [batch]
    if not spans:
        return []  # before the check: no bytes of a damaged batch are needed
    if not batch.marks:
        if not is_intact(batch):
            # Cutting would give the parts a valid checksum.
            raise CorruptBatch("its checksum is not that of its bytes")
        readable = unpack_batch(batch) if is_compressed(batch) else batch
        return list(cut_batch(readable, [(span.first, span.last) for span in spans]))
    return [piece for part in _kept_of(batch, spans) for piece in _keep_part(batch, part)]


def batches_with_spans(batch: RecordBatch, spans: Iterable[Span]) -> list[tuple[RecordBatch, Span]]:
    """Returns batches that hold these spans, each with its part: all offsets that count of it, or a part of a single
    batch.

    The spans are ascending, do not overlap, and are within what counts of the batch or run. Each of their offsets is in
    a returned part, with or without a record. No bytes are cut or copied.
    """
    if not batch.marks:
        return [(batch, span) for span in spans]
    found: list[tuple[RecordBatch, Span]] = []
    for span in spans:
        begin, end = _index_of(batch, span.first), _index_of(batch, span.last) + 1
        if span.first > _first_of(batch, begin):
            one = _some(batch, begin, begin + 1)
            found.append((one, Span(span.first, min(span.last, one.last))))
            begin += 1
        is_cut = begin < end and span.last < _last_of(batch, end - 1)
        if begin < end - is_cut:
            whole = _some(batch, begin, end - is_cut)
            found.append((whole, Span(whole.first, whole.last)))
        if is_cut:
            one = _some(batch, end - 1, end)
            found.append((one, Span(one.first, span.last)))
    return found


def has_own_offsets(batch: RecordBatch) -> bool:
    """Returns whether the bytes have the upstream offsets of the records, and `rebase` has not changed them."""
    (base,) = _INT64.unpack_from(batch.data, 0)
    return bool(base == batch.base)


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a run: its whole batches [begin, end), of which the first counts from `first` on; or spans of one
    batch."""

    begin: int
    end: int
    first: int
    spans: Sequence[Span] = ()


def _kept_of(run: RecordBatch, spans: Sequence[Span]) -> list[_Part]:
    """Returns the parts of a run that these spans need. Each batch is in one part at most, even if several spans are in
    it."""
    parts: list[_Part] = []
    for span in spans:
        last = bisect_right(run.marks, span.last, key=_base) - 1
        begin = _index_of(run, span.first)
        if last < begin:
            continue  # before its first record, or between two batches
        end = last + 1
        if run.marks[begin][1] < max(span.first, _first_of(run, begin)):
            _add_spans(parts, run, begin, span)
            begin += 1
        is_cut = begin < end and span.last < _last_of(run, last)
        if begin < end - is_cut:
            parts.append(_Part(begin, end - is_cut, max(span.first, _first_of(run, begin))))
        if is_cut:
            _add_spans(parts, run, last, span)
    return parts


def _add_spans(parts: list[_Part], run: RecordBatch, index: int, span: Span) -> None:
    """Adds the part of a span in one batch of a run."""
    spans = [Span(max(span.first, _first_of(run, index)), min(span.last, _last_of(run, index)))]
    if parts and parts[-1].spans and parts[-1].begin == index:
        spans = [*parts.pop().spans, *spans]
    parts.append(_Part(index, index + 1, _first_of(run, index), spans))


def _keep_part(run: RecordBatch, part: _Part) -> list[RecordBatch]:
    """Cuts a part out of a run. Raises CorruptBatch."""
    kept = _some(run, part.begin, part.end)
    kept.first = part.first
    return cut_to_spans(kept, part.spans) if part.spans else [kept]


def _some(run: RecordBatch, begin: int, end: int) -> RecordBatch:
    """Returns the batches [begin, end) of a run."""
    marks = run.marks[begin:end]
    origin = run.marks[0][0]
    size = marks[-1][0] - origin + marks[-1][2] + LENGTH_OVERHEAD
    data = memoryview(run.data)[marks[0][0] - origin : size]
    records = sum(mark[3] for mark in marks)
    return _single(RecordBatch(data, marks[0][1], _first_of(run, begin), _last_of(run, end - 1), records, marks))


def _base(mark: Mark) -> int:
    return mark[1]


def _index_of(run: RecordBatch, offset: int) -> int:
    """Returns the index of the batch with which an offset counts; 0 for a single batch, and for an offset in front of
    the first batch."""
    index = bisect_right(run.marks, offset, key=_base) - 1
    return index + 1 if 0 <= index < len(run.marks) - 1 and offset > _last_of(run, index) else max(index, 0)


def _first_of(run: RecordBatch, index: int) -> int:
    """Returns the first offset of one batch of a run that counts."""
    return _last_of(run, index - 1) + 1 if index else run.first


def _last_of(run: RecordBatch, index: int) -> int:
    """Returns the last offset of one batch of a run that counts. It is in the batch's header, except for the last
    batch."""
    if index == len(run.marks) - 1:
        return run.last
    position, base, _, _ = run.marks[index]
    (delta,) = _INT32.unpack_from(run.data, position - run.marks[0][0] + LAST_DELTA_AT)
    return base + int(delta)


def _single(batch: RecordBatch) -> RecordBatch:
    if len(batch.marks) == 1:
        batch.marks = ()
    return batch
