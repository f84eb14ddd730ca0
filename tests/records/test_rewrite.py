"""A batch to records and back: dropped records leave gaps, and all else stays."""

from __future__ import annotations

from contextlib import nullcontext
from struct import Struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.records.batch import CorruptBatch, RecordBatch, is_intact, seal
from mesh.records.compression import compress, decompress
from mesh.records.decode import decode_records
from mesh.records.rewrite import OldFormatRecords, head_of, records_of, rewritten, whole_batches
from tests.records.golden import APPENDED, GZIP, PLAIN
from tests.records.strategies import batches
from tests.records.tails import tails

ATTRIBUTES = Struct(">h")
TRANSACTIONAL, DELETE_HORIZON = 0x10, 0x40


def with_codec(batch: RecordBatch, codec: int, attributes: int = 0) -> bytes:
    """The batch of a producer with that codec, an id, an epoch and a sequence."""
    data = bytearray(batch.data[:61]) + compress(codec, bytes(batch.data[61:]))
    Struct(">i").pack_into(data, 8, len(data) - 12)
    Struct(">i").pack_into(data, 12, 7)
    ATTRIBUTES.pack_into(data, 21, codec | attributes)
    Struct(">qhi").pack_into(data, 43, 4_711, 3, 99)
    seal(data)
    return bytes(data)


def seen(data: bytes) -> list[object]:
    head = head_of(memoryview(data))
    return list(decode_records(RecordBatch(bytearray(data), head.base, head.base, head.last, head.records)))


@given(batches(), st.integers(0, 4))
def test_nothing_changes_if_no_record_does(batch: RecordBatch, codec: int) -> None:
    data = with_codec(batch, codec, TRANSACTIONAL)
    again = rewritten(memoryview(data), records_of(memoryview(data)))
    assert seen(again) == seen(data)
    assert again[:8] + again[12:17] == data[:8] + data[12:17], "base, leader epoch, magic"
    assert again[21:27] + again[35:61] == data[21:27] + data[35:61], "all but length, checksum and first timestamp"
    if not codec and head_of(memoryview(data)).records == len(records_of(memoryview(data))):
        assert len(again) == len(data)


@given(batches(), st.integers(0, 4), st.data())
def test_what_is_left_out_leaves_a_gap(batch: RecordBatch, codec: int, data: st.DataObject) -> None:
    before = with_codec(batch, codec)
    records = records_of(memoryview(before))
    places = data.draw(st.sets(st.integers(0, len(records) - 1), min_size=1))
    after = rewritten(memoryview(before), [records[place] for place in sorted(places)])
    assert seen(after) == [each for place, each in enumerate(seen(before)) if place in places]
    was, is_now = head_of(memoryview(before)), head_of(memoryview(after))
    assert is_now == was._replace(records=len(places))
    assert after[35:57] == before[35:57], "the highest timestamp, and the producer's id, epoch and sequence"
    assert is_intact(RecordBatch(bytearray(after), 0, 0, 0, 0))


@given(batches(), st.integers(0, 4))
def test_records_may_change(batch: RecordBatch, codec: int) -> None:
    before = memoryview(with_codec(batch, codec))
    records = [each._replace(value=b"new", headers=[("a", None)], key=None) for each in records_of(before)]
    after = memoryview(rewritten(before, records))
    assert records_of(after) == records
    assert head_of(after) == head_of(before)


@given(batches())
def test_the_highest_timestamp_is_that_of_the_records_if_theirs_change(batch: RecordBatch) -> None:
    before = memoryview(with_codec(batch, 0))
    records = [each._replace(timestamp=at) for at, each in enumerate(records_of(before))]
    after = rewritten(before, records, has_new_times=True)
    assert Struct(">q").unpack_from(after, 35) == (len(records) - 1,)
    assert records_of(memoryview(after)) == records


@pytest.mark.parametrize("data", [PLAIN, APPENDED, GZIP])
def test_batches_of_brokers(data: bytes) -> None:
    assert seen(rewritten(memoryview(data), records_of(memoryview(data)))) == seen(data)


def test_a_delete_horizon_goes_with_its_timestamp() -> None:
    data = bytearray(PLAIN)
    ATTRIBUTES.pack_into(data, 21, DELETE_HORIZON)
    seal(data)
    after = rewritten(memoryview(data), records_of(memoryview(data))[1:])
    assert ATTRIBUTES.unpack_from(after, 21) == (0,)


@given(batches(), st.integers(0, 4), st.data())
def test_a_wrong_checksum_is_not_made_right(batch: RecordBatch, codec: int, data: st.DataObject) -> None:
    wrong = bytearray(with_codec(batch, codec))
    at = data.draw(st.integers(21, len(wrong) - 1))
    wrong[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptBatch):
        records_of(memoryview(wrong))


@given(batches(), st.data())
def test_bytes_that_are_no_records_are_refused_or_read(batch: RecordBatch, data: st.DataObject) -> None:
    wrong = bytearray(with_codec(batch, 0))
    for _ in range(3):
        wrong[data.draw(st.integers(57, len(wrong) - 1))] = data.draw(st.integers(0, 255))
    seal(wrong)
    try:
        found = records_of(memoryview(wrong))
    except CorruptBatch:
        return
    assert all(0 <= each.delta <= head_of(memoryview(wrong)).last_delta for each in found)


def test_no_records_are_no_batch() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        rewritten(memoryview(PLAIN), [])


def test_batches_that_are_not_whole_end_the_records() -> None:
    two = PLAIN + GZIP
    for end in range(len(PLAIN), len(two)):
        assert [bytes(each) for each in whole_batches(memoryview(two[:end]))] == [PLAIN]
    assert [bytes(each) for each in whole_batches(memoryview(two))] == [PLAIN, GZIP]


def test_bytes_behind_a_batch_are_ignored_as_by_a_broker() -> None:
    for tail, is_ignored in tails():
        with nullcontext() if is_ignored else pytest.raises(CorruptBatch):
            assert [bytes(each) for each in whole_batches(memoryview(PLAIN + tail))] == [PLAIN], tail


def test_old_formats_are_not_read() -> None:
    old = bytearray(PLAIN)
    old[16] = 1
    with pytest.raises(OldFormatRecords):
        list(whole_batches(memoryview(old)))
    old[16] = 3
    with pytest.raises(CorruptBatch):
        list(whole_batches(memoryview(old)))


@given(st.integers(0, 4), st.binary(max_size=200_000))
def test_what_is_compressed_is_decompressed(codec: int, body: bytes) -> None:
    assert decompress(codec, compress(codec, body)) == body


def test_there_are_five_codecs() -> None:
    with pytest.raises(ValueError, match="no compression 5"):
        compress(5, b"")
