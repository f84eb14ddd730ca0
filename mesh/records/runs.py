"""Runs: batches that lie one after the other in memory, and in their log but for offsets without records, moved as one.

What is done for a run costs as much as for a batch; only to give its batches other offsets each of them is visited.
A run is taken apart where a limit, or somebody's share, ends inside it. Everything here takes single batches as well.
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
    Batch,
    CorruptBatch,
    Mark,
    is_compressed,
    is_intact,
    slice_batches,
    unpack_batch,
)
from mesh.records.spans import Span

MOST_EMPTY: Final = 10_000
"""Offsets without records that count with the batch behind them, at most: they count as held, and use up virtual
offsets."""
_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")


def rebase(batch: Batch, offset: int) -> None:
    """Give the record of offset delta 0 of the first batch another offset, those behind it what follows from that, and
    all of them the batch leader epoch 0. No CRC covers either."""
    data, pack = batch.data, BATCH_START.pack_into
    if not batch.marks:
        pack(data, 0, offset, len(data) - LENGTH_OVERHEAD, 0)
        return
    origin, shift = batch.marks[0][0], offset - batch.base
    for position, base, length, _ in batch.marks:
        pack(data, position - origin, base + shift, length, 0)


def copy_batch(batch: Batch) -> Batch:
    """The same in bytes of its own."""
    return Batch(bytearray(batch.data), batch.base, batch.first, batch.last, batch.record_count, batch.marks)


def count_with(batch: Batch, first: int) -> None:
    """The offsets from `first` on to the batch have no record, and count with it."""
    batch.first = min(batch.first, first)


def fitting(batch: Batch, size: int, offsets: int) -> int:
    """How many of its batches, from the front, have together at most `size` bytes, and begin within the first `offsets`
    offsets of what counts; those in front of it without a record are not counted."""
    if not batch.marks:
        return int(len(batch.data) <= size and offsets > 0)
    end = max(batch.first, batch.base) + offsets
    if len(batch.data) <= size and batch.marks[-1][1] < end:
        return len(batch.marks)
    origin = batch.marks[0][0]
    by_size = bisect_right(batch.marks, size - LENGTH_OVERHEAD, key=lambda mark: mark[0] + mark[2] - origin)
    # The first counts from `first` on, wherever it begins.
    by_offsets = bisect_left(batch.marks, end, 1, key=lambda mark: mark[1]) if offsets > 0 else 0
    return min(by_size, by_offsets)


def split(batch: Batch, count: int) -> tuple[Batch, Batch]:
    """The first `count` batches of a run, and the rest; both have some."""
    marks = batch.marks
    middle, base = marks[count][0] - marks[0][0], marks[count][1]
    data = memoryview(batch.data)
    records = sum(mark[3] for mark in marks[:count])
    last = _last_of(batch, count - 1)
    head = Batch(data[:middle], batch.base, batch.first, last, records, marks[:count])
    rest = Batch(data[middle:], base, last + 1, batch.last, batch.record_count - records, marks[count:])
    return _single(head), _single(rest)


def join_runs(batches: Sequence[Batch]) -> list[Batch]:
    """Runs of single batches, in bytes of their own where there are several. The offsets between two of them have no
    record; many of those end a run."""
    found: list[Batch] = []
    begin = 0
    for index in range(1, len(batches) + 1):
        if index == len(batches) or batches[index].base - batches[index - 1].last > MOST_EMPTY + 1:
            found.append(_joined(batches[begin:index]))
            begin = index
    return found


def _joined(batches: Sequence[Batch]) -> Batch:
    if len(batches) == 1:
        return batches[0]
    data = bytearray().join(batch.data for batch in batches)
    marks: list[Mark] = []
    position = 0
    for batch in batches:
        marks.append((position, batch.base, len(batch.data) - LENGTH_OVERHEAD, batch.record_count))
        position += len(batch.data)
    count = sum(batch.record_count for batch in batches)
    return Batch(data, batches[0].base, batches[0].first, batches[-1].last, count, marks)


def gaps(batch: Batch) -> list[Span]:
    """The offsets between the batches of a run that was cut from an answer. Those that compaction emptied inside of a
    batch are not among them: only its records tell."""
    marks = batch.marks
    if not marks or batch.record_count == batch.last - batch.base + 1:
        return []
    begins = [_last_of(batch, index) + 1 for index in range(len(marks) - 1)]
    return [Span(first, mark[1] - 1) for first, mark in zip(begins, marks[1:], strict=True) if first < mark[1]]


def singles(batch: Batch) -> list[Batch]:
    """Its batches, each by itself."""
    if not batch.marks:
        return [batch]
    data, origin = memoryview(batch.data), batch.marks[0][0]
    found: list[Batch] = []
    first = batch.first
    for index, (position, base, length, count) in enumerate(batch.marks):
        begin, last = position - origin, _last_of(batch, index)
        found.append(Batch(data[begin : begin + length + LENGTH_OVERHEAD], base, first, last, count))
        first = last + 1
    return found


def from_offset(batch: Batch, offset: int) -> Batch:
    """Without the batches that end below an offset that it has."""
    index = _index_of(batch, offset)
    return split(batch, index)[1] if index > 0 else batch


def keep_spans(batch: Batch, spans: Sequence[Span]) -> list[Batch]:
    """Batches of what lies in these spans only: ascending, all of them within [first, last]. Raises CorruptBatch.

    Also the front is really left out: librdkafka passes over what lies below the offset it asked for, but not over what
    lies below the end of the batch before in the same answer. Batches that are kept whole stay a run. One that counts
    from its middle on is no whole one: where compaction left nothing behind that there is no record in it.
    """
    is_whole = len(spans) == 1 and (spans[0].first, spans[0].last) == (batch.first, batch.last)
    if is_whole and batch.first <= batch.base:
        return [batch]
    if not spans:
        return []  # of a damaged one, too
    if not batch.marks:
        if not is_intact(batch):
            raise CorruptBatch("its checksum is not that of its bytes")  # the parts would get one that is right
        readable = unpack_batch(batch) if is_compressed(batch) else batch
        return list(slice_batches(readable, [(span.first, span.last) for span in spans]))
    return [piece for part in _kept_of(batch, spans) for piece in _keep_part(batch, part)]


def hold_spans(batch: Batch, spans: Iterable[Span]) -> list[tuple[Batch, Span]]:
    """Batches that hold these spans, and what of each lies in them: all that counts of it, or a part of a single one.

    The spans are ascending, apart, and within what counts of the batch or run; each of their offsets lies in one of
    those that are returned, also where it has no record. No bytes are cut or copied.
    """
    if not batch.marks:
        return [(batch, span) for span in spans]
    found: list[tuple[Batch, Span]] = []
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


def has_own_offsets(batch: Batch) -> bool:
    """Whether its bytes say the upstream offsets of its records, and not others that `rebase` has given them."""
    (base,) = _INT64.unpack_from(batch.data, 0)
    return bool(base == batch.base)


@dataclass(frozen=True, slots=True)
class _Part:
    """Of a run: its batches [begin, end) whole, the first of them from `first` on; or, of one of them, spans."""

    begin: int
    end: int
    first: int
    spans: Sequence[Span] = ()


def _kept_of(run: Batch, spans: Sequence[Span]) -> list[_Part]:
    """Each batch of a run is one part at most, however many spans it has something of."""
    parts: list[_Part] = []
    for span in spans:
        last = bisect_right(run.marks, span.last, key=_base) - 1
        begin = _index_of(run, span.first)
        if last < begin:
            continue  # in front of its first record, or between two batches
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


def _add_spans(parts: list[_Part], run: Batch, index: int, span: Span) -> None:
    """What of a span lies in one batch of a run."""
    spans = [Span(max(span.first, _first_of(run, index)), min(span.last, _last_of(run, index)))]
    if parts and parts[-1].spans and parts[-1].begin == index:
        spans = [*parts.pop().spans, *spans]
    parts.append(_Part(index, index + 1, _first_of(run, index), spans))


def _keep_part(run: Batch, part: _Part) -> list[Batch]:
    """Raises CorruptBatch."""
    kept = _some(run, part.begin, part.end)
    kept.first = part.first
    return keep_spans(kept, part.spans) if part.spans else [kept]


def _some(run: Batch, begin: int, end: int) -> Batch:
    """The batches [begin, end) of a run."""
    marks = run.marks[begin:end]
    origin = run.marks[0][0]
    size = marks[-1][0] - origin + marks[-1][2] + LENGTH_OVERHEAD
    data = memoryview(run.data)[marks[0][0] - origin : size]
    records = sum(mark[3] for mark in marks)
    return _single(Batch(data, marks[0][1], _first_of(run, begin), _last_of(run, end - 1), records, marks))


def _base(mark: Mark) -> int:
    return mark[1]


def _index_of(run: Batch, offset: int) -> int:
    """The batch of a run, with which an offset counts; 0 of a single batch, and in front of the first."""
    index = bisect_right(run.marks, offset, key=_base) - 1
    return index + 1 if 0 <= index < len(run.marks) - 1 and offset > _last_of(run, index) else max(index, 0)


def _first_of(run: Batch, index: int) -> int:
    """The first offset that counts of one batch of a run."""
    return _last_of(run, index - 1) + 1 if index else run.first


def _last_of(run: Batch, index: int) -> int:
    """The last offset of one batch of a run, as its header says but for the last one, of which less may count."""
    if index == len(run.marks) - 1:
        return run.last
    position, base, _, _ = run.marks[index]
    (delta,) = _INT32.unpack_from(run.data, position - run.marks[0][0] + LAST_DELTA_AT)
    return base + int(delta)


def _single(batch: Batch) -> Batch:
    if len(batch.marks) == 1:
        batch.marks = ()
    return batch
