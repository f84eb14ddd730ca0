"""Headers are read within bounds, offsets rewritten without touching the CRC, and cuts lose nothing."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.records.batch import (
    HEADER_SIZE,
    CorruptBatch,
    RecordBatch,
    cut_batch,
    is_compressed,
    is_intact,
)
from mesh.records.decode import decode_records
from mesh.records.encode import encode_batch
from mesh.records.runs import copy_batch, cut_to_spans, rebase
from mesh.records.spans import Span
from tests.records.golden import APPENDED, GZIP, PLAIN
from tests.records.reading import parse_batch, split_batches
from tests.records.strategies import batches


def parsed(data: bytes) -> RecordBatch:
    batch = parse_batch(data, 0, len(data))
    assert batch is not None
    return batch


def slice_batch(batch: RecordBatch, first: int, last: int) -> RecordBatch | None:
    """One slice of a batch."""
    return next(cut_batch(batch, [(first, last)]), None)


@pytest.mark.parametrize("data", [PLAIN, APPENDED, GZIP])
def test_a_broker_s_batch_is_read(data: bytes) -> None:
    batch = parsed(data)
    assert bytes(batch.data) == data
    assert (batch.base, batch.first) == (0, 0)
    assert batch.last == batch.record_count - 1
    assert is_intact(batch)


@given(st.lists(batches(), max_size=4), st.integers(min_value=0))
def test_whole_batches_are_split_and_a_cut_one_is_left_out(drawn: list[RecordBatch], cut: int) -> None:
    answer = b"".join(batch.data for batch in drawn)
    assert [batch.data for batch in split_batches(answer)] == [batch.data for batch in drawn]
    if drawn:
        kept = 1 + cut % (len(drawn[-1].data) - 1)
        shorter = answer[: len(answer) - len(drawn[-1].data) + kept]
        assert [batch.data for batch in split_batches(shorter)] == [batch.data for batch in drawn[:-1]]


@pytest.mark.parametrize(
    ("position", "wrong", "complaint"),
    [
        (16, b"\x01", "record format 1"),
        (8, (48).to_bytes(4, "big"), "shorter than its header"),
        (8, (-1).to_bytes(4, "big", signed=True), "shorter than its header"),
        (23, (-1).to_bytes(4, "big", signed=True), "last offset delta -1"),
        (0, (-1).to_bytes(8, "big", signed=True), "base offset -1"),
        (57, (-1).to_bytes(4, "big", signed=True), "-1 records"),
        (57, (4).to_bytes(4, "big"), "4 records"),
    ],
)
def test_nonsense_is_refused(position: int, wrong: bytes, complaint: str) -> None:
    data = bytearray(PLAIN)
    data[position : position + len(wrong)] = wrong
    with pytest.raises(CorruptBatch, match=complaint):
        split_batches(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_batches_or_refused(data: bytes) -> None:
    try:
        found = split_batches(data)
    except CorruptBatch:
        return
    assert sum(len(batch.data) for batch in found) <= len(data)


@given(batches(), st.integers(min_value=0, max_value=(1 << 53) - 1))
def test_rebasing_moves_the_offsets_and_nothing_else(batch: RecordBatch, offset: int) -> None:
    batch.data[12:16] = b"\x00\x00\x00\x07"
    records = decode_records(batch)
    base, tail = batch.base, bytes(batch.data[16:])
    rebase(batch, offset)
    assert is_intact(batch)
    assert bytes(batch.data[12:16]) == bytes(4)
    assert bytes(batch.data[16:]) == tail
    moved = decode_records(parsed(bytes(batch.data)))
    assert [record.offset - offset for record in moved] == [record.offset - base for record in records]


def test_the_crc_covers_the_records() -> None:
    batch = parsed(PLAIN)
    batch.data[-1] ^= 1
    assert not is_intact(batch)


@given(batches())
def test_a_copy_has_bytes_of_its_own(batch: RecordBatch) -> None:
    copy = copy_batch(batch)
    rebase(batch, batch.base + 1)
    assert (copy.base, copy.first, copy.last, copy.record_count) == (
        batch.base,
        batch.first,
        batch.last,
        batch.record_count,
    )
    assert bytes(copy.data[:8]) == batch.base.to_bytes(8, "big")


@given(batches(), st.integers(min_value=-5, max_value=7000), st.integers(min_value=-5, max_value=7000))
def test_a_slice_holds_exactly_the_records_of_its_range(batch: RecordBatch, start: int, size: int) -> None:
    first, last = batch.base + start, batch.base + start + size
    expected = [record for record in decode_records(batch) if first <= record.offset <= last]
    cut = slice_batch(batch, first, last)
    if cut is None:
        assert expected == []
        return
    assert decode_records(cut) == expected != []
    assert is_intact(cut)
    assert (cut.base, cut.record_count) == (batch.base, len(expected))
    assert (cut.first, cut.last) == (max(first, batch.first), expected[-1].offset)
    again = parsed(bytes(cut.data))
    assert (again.base, again.last, again.record_count) == (cut.base, cut.last, cut.record_count)


@given(batches(), st.lists(st.integers(min_value=0, max_value=6000), max_size=5))
def test_slices_side_by_side_hold_all_records(batch: RecordBatch, cuts: list[int]) -> None:
    edges = [batch.base, *sorted({batch.base + cut for cut in cuts} - {batch.base}), 1 << 62]
    bounds = [(first, after - 1) for first, after in pairwise(edges)]
    pieces = list(cut_batch(batch, bounds))
    assert [record for piece in pieces for record in decode_records(piece)] == decode_records(batch)
    alone = [piece for first, last in bounds if (piece := slice_batch(batch, first, last)) is not None]
    assert [(each.first, each.last, each.data) for each in pieces] == [
        (each.first, each.last, each.data) for each in alone
    ]


@given(batches(), st.integers(0, 3000), st.integers(0, 3000), st.integers(0, 3000), st.integers(0, 3000))
def test_a_slice_of_a_slice_is_the_slice_of_both(batch: RecordBatch, a: int, b: int, c: int, d: int) -> None:
    outer = slice_batch(batch, batch.base + a, batch.base + a + b)
    inner = outer and slice_batch(outer, batch.base + c, batch.base + c + d)
    direct = slice_batch(batch, batch.base + max(a, c), batch.base + min(a + b, c + d))
    assert (inner and inner.data) == (direct and direct.data)


def test_what_is_settled_at_the_front_is_not_sliced_again() -> None:
    batch = encode_batch(10, [(offset, 0, None, b"%d" % offset, None) for offset in range(10, 20)])
    batch.first = 15
    cut = slice_batch(batch, 12, 16)
    assert cut is not None
    assert [record.offset for record in decode_records(cut)] == [15, 16]
    assert slice_batch(batch, 10, 14) is None


def test_a_compressed_batch_is_not_cut() -> None:
    with pytest.raises(ValueError, match="compressed"):
        slice_batch(parsed(GZIP), 0, 3)


@given(batches(), st.lists(st.integers(min_value=0, max_value=6000), min_size=1, max_size=8, unique=True))
def test_what_is_kept_are_the_records_of_the_spans(batch: RecordBatch, edges: list[int]) -> None:
    inside = sorted({min(batch.base + edge, batch.last) for edge in edges} | {batch.last})
    spans = [Span(first, last) for first, last in zip(inside[::2], inside[1::2], strict=False)]
    expected = [
        record for record in decode_records(batch) if any(span.first <= record.offset <= span.last for span in spans)
    ]
    pieces = cut_to_spans(batch, spans)
    assert [record for piece in pieces for record in decode_records(piece) if piece.first <= record.offset] == expected
    assert all(any(piece.first == span.first and piece.last <= span.last for span in spans) for piece in pieces)
    assert all(piece is batch or decode_records(piece)[-1].offset == piece.last for piece in pieces)


def test_a_compressed_batch_is_unpacked_to_be_cut_and_only_then() -> None:
    batch = parsed(GZIP)
    data, records = bytes(batch.data), decode_records(batch)
    (whole,) = cut_to_spans(batch, [Span(batch.base, batch.last)])
    assert bytes(whole.data) == data
    one, other = cut_to_spans(parsed(GZIP), [Span(batch.base, batch.base + 1), Span(batch.base + 4, batch.base + 5)])
    assert decode_records(one) + decode_records(other) == [records[number] for number in (0, 1, 4, 5)]
    assert all(is_intact(each) and not is_compressed(each) for each in (one, other))


@given(batches(), st.data())
def test_a_damaged_body_is_cut_or_refused(batch: RecordBatch, data: st.DataObject) -> None:
    at = data.draw(st.integers(HEADER_SIZE, len(batch.data) - 1))
    batch.data[at] = data.draw(st.integers(0, 255))
    try:
        cut = slice_batch(batch, batch.first, batch.last)
    except CorruptBatch:
        return
    assert cut is None or len(cut.data) <= len(batch.data)


@pytest.mark.parametrize("data", [PLAIN, GZIP])
def test_nothing_is_kept_of_no_span(data: bytes) -> None:
    assert cut_to_spans(parsed(data), []) == []
