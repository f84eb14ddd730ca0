"""A run is equal to its batches: parts of it, cut and re-based, equal each batch alone."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mesh.records.batch import RecordBatch, is_intact
from mesh.records.decode import decode_records
from mesh.records.encode import encode_batch
from mesh.records.fetched import split_into_runs
from mesh.records.runs import (
    MOST_EMPTY,
    batch_at,
    copy_batch,
    cut_to_spans,
    fitting,
    from_offset,
    gaps,
    include_empty,
    rebase,
    singles,
    split,
)
from mesh.records.spans import Span
from tests.records.reading import split_batches

SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=8)
"""Records of each batch; one or two offsets without a record follow batches of two or three."""
BASE = 1_000


def batches_of(sizes: list[int]) -> list[range]:
    """The offsets of the records of each batch."""
    batches, offset = [], BASE
    for size in sizes:
        batches.append(range(offset, offset + size))
        offset += size + {2: 1, 3: 2}.get(size, 0)
    return batches


def records_of(sizes: list[int]) -> list[int]:
    return [offset for batch in batches_of(sizes) for offset in batch]


def run_of(sizes: list[int], position: int = 0) -> RecordBatch:
    data = bytearray()
    for batch in batches_of(sizes):
        data += encode_batch(batch.start, [(each, 5, None, b"v%d" % each, None) for each in batch]).data
    (run,) = split_into_runs(memoryview(data), position).batches
    return run


def offsets_of(batch: RecordBatch) -> list[int]:
    return [record.offset for record in decode_records(batch)]


def alone(batch: RecordBatch) -> list[tuple[int, int, int, int, bytes]]:
    return [(one.base, one.first, one.last, one.record_count, bytes(one.data)) for one in singles(batch)]


@given(SIZES)
def test_adjacent_batches_are_one_run_and_come_apart_as_they_were(sizes: list[int]) -> None:
    run = run_of(sizes)
    assert (run.first, run.last, run.record_count) == (BASE, records_of(sizes)[-1], sum(sizes))
    parts = singles(run)
    assert [(one.base, one.record_count, one.last) for one in parts] == [
        (one.base, one.record_count, one.last) for one in split_batches(bytes(run.data))
    ]
    assert b"".join(bytes(one.data) for one in parts) == bytes(run.data)
    assert not any(one.marks for one in parts)
    # Each offset counts with one batch: one without a record counts with the batch behind it.
    assert [one.first for one in parts] == [BASE, *(one.last + 1 for one in parts[:-1])]


@given(SIZES, st.integers(0, 60))
def test_the_gaps_of_a_run_are_what_no_batch_of_it_has(sizes: list[int], begin: int) -> None:
    run = run_of(sizes, BASE + min(begin, records_of(sizes)[-1] - BASE))
    missing = [offset for span in gaps(run) for offset in range(span.first, span.last + 1)]
    begins = {run.first, *(batch.start for batch in batches_of(sizes))}
    assert missing == sorted({*range(run.first, run.last + 1)} - {*records_of(sizes)})
    assert all(span.last + 1 in begins for span in gaps(run)), "neighbours are one"


@given(SIZES, st.data())
def test_a_run_is_split_between_its_batches(sizes: list[int], data: st.DataObject) -> None:
    run = run_of([*sizes, 1])
    count = data.draw(st.integers(1, len(sizes)))
    head, rest = split(run, count)
    assert alone(head) + alone(rest) == alone(run)
    assert head.last + 1 == rest.first
    assert (len(singles(head)), len(singles(rest))) == (count, len(sizes) + 1 - count)
    # A part is split again: its positions are those of the part, not of the whole.
    assert alone(from_offset(rest, rest.last)) == alone(run)[-1:]


@given(SIZES, st.integers(0, 60), st.integers(-1, 60))
def test_what_fits_is_counted_in_whole_batches(sizes: list[int], offsets: int, more: int) -> None:
    run = run_of(sizes)
    ends, size = [], 0
    for one in singles(run):
        size += len(one.data)
        ends.append(size)
    for room in (end + more for end in [0, *ends]):
        expected = 0
        for one, end in zip(singles(run), ends, strict=True):
            if end > room or one.base - run.first >= offsets:
                break
            expected += 1
        assert fitting(run, room, offsets) == expected


@given(SIZES, st.data())
def test_offsets_are_counted_from_the_first_that_counts(sizes: list[int], data: st.DataObject) -> None:
    position = BASE + data.draw(st.integers(0, sizes[0] - 1))
    run = run_of(sizes, position)
    assert run.first == position
    for offsets in range(1, len(range(run.first, run.last + 1))):
        begun = sum(max(one.base, run.first) < position + offsets for one in singles(run))
        assert fitting(run, 1 << 20, offsets) == begun


@given(SIZES, st.integers(0, 1 << 50))
def test_all_batches_of_a_run_get_new_offsets_and_the_epoch_0(sizes: list[int], offset: int) -> None:
    run = copy_batch(run_of(sizes))
    for one in singles(run):
        one.data[12:16] = b"\0\0\0\7"
    before = [one.base for one in singles(run)]
    rebase(run, offset)
    written = split_batches(bytes(run.data))
    assert [one.base - offset for one in written] == [base - BASE for base in before]
    assert all(bytes(one.data[12:16]) == bytes(4) for one in written)
    assert all(map(is_intact, written))
    # Upstream it stays where it was.
    assert [one.base for one in singles(run)] == before
    head, _ = split(run_of([*sizes, 1]), 1)
    rebase(head, offset)
    assert split_batches(bytes(head.data))[0].base == offset


@given(SIZES, st.integers(0, 50))
def test_batches_in_front_of_an_offset_are_left_out_whole(sizes: list[int], ahead: int) -> None:
    run = run_of(sizes)
    offset = min(BASE + ahead, run.last)
    assert alone(from_offset(run, offset)) == [each for each in alone(run) if each[2] >= offset]
    assert alone(batch_at(run, offset)) == [each for each in alone(run) if each[1] <= offset <= each[2]]


@given(SIZES, st.data())
def test_spans_of_a_run_hold_their_records_and_no_others(sizes: list[int], data: st.DataObject) -> None:
    run = run_of(sizes)
    cuts = sorted(data.draw(st.sets(st.integers(run.first, run.last + 1), max_size=6)))
    spans = [Span(one, other - 1) for one, other in zip(cuts[::2], cuts[1::2], strict=False)]
    pieces = cut_to_spans(run, spans)
    within = {offset for span in spans for offset in range(span.first, span.last + 1)}
    expected = [offset for offset in records_of(sizes) if offset in within]
    assert [offset for piece in pieces for offset in offsets_of(piece)] == expected
    held = [offset for piece in pieces for offset in range(piece.first, piece.last + 1)]
    assert set(expected) <= set(held) <= within
    assert len(held) == len(set(held))
    assert sum(piece.record_count for piece in pieces) == len(expected)
    assert all(is_intact(one) for piece in pieces for one in singles(piece))


def test_what_is_kept_whole_stays_in_its_place() -> None:
    run = run_of([4, 4, 4, 4])
    assert cut_to_spans(run, [Span(run.first, run.last)]) == [run]
    front, middle, end = cut_to_spans(run, [Span(run.first + 1, run.last - 1)])
    assert (len(singles(front)), len(singles(middle)), len(singles(end))) == (1, 2, 1)
    rebase(middle, 7)
    assert bytes(middle.data) in bytes(run.data)


def test_a_wide_gap_between_batches_ends_a_run() -> None:
    data = bytearray()
    for offset in (0, 1, 5, 5 + MOST_EMPTY + 1, 5 + 2 * (MOST_EMPTY + 1) + 1):
        data += encode_batch(offset, [(offset, 1, None, b"a", None)]).data
    first, second = split_into_runs(memoryview(data), 0).batches
    assert [(each.first, each.last, len(each.marks)) for each in (first, second)] == [
        (0, 5 + MOST_EMPTY + 1, 4),
        (5 + 2 * (MOST_EMPTY + 1) + 1,) * 2 + (0,),
    ]


@given(SIZES, st.data())
def test_spans_of_what_counts_from_the_middle_of_a_batch_on_hold_nothing_from_before(
    sizes: list[int], data: st.DataObject
) -> None:
    whole = run_of(sizes)
    run = run_of(sizes, data.draw(st.integers(whole.first, whole.last)))
    first = data.draw(st.integers(run.first, run.last))
    last = data.draw(st.integers(first, run.last))
    pieces = cut_to_spans(run, [Span(first, last)])
    assert [offset for piece in pieces for offset in offsets_of(piece)] == [
        offset for offset in records_of(sizes) if first <= offset <= last
    ]


@given(SIZES, st.data())
def test_several_spans_hold_what_each_of_them_does_alone(sizes: list[int], data: st.DataObject) -> None:
    """Even in a run that begins inside of its first batch, or with offsets without a record in front of it."""
    whole = run_of(sizes)
    run = run_of(sizes, data.draw(st.integers(whole.first, whole.last)))
    if run.first == run.base and data.draw(st.booleans()):
        include_empty(run, run.first - 2)
    edges = sorted(data.draw(st.sets(st.integers(run.first, run.last + 1), min_size=2)))
    spans = [Span(first, after - 1) for first, after in pairwise(edges)][:: data.draw(st.integers(1, 2))]
    pieces = [(piece.first, piece.last, offsets_of(piece)) for piece in cut_to_spans(run, spans)]
    alone = [piece for span in spans for piece in cut_to_spans(run, [span])]
    assert pieces == [(piece.first, piece.last, offsets_of(piece)) for piece in alone]
    found = [offset for _, _, offsets in pieces for offset in offsets]
    within = {offset for span in spans for offset in range(span.first, span.last + 1)}
    assert found == [offset for offset in records_of(sizes) if offset in within and offset >= run.base]
    assert all(piece.record_count == sum(mark[3] for mark in piece.marks) for piece in alone if piece.marks)
