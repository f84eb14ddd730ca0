"""Arrow columns of record batches: the same as reading record by record; damage raises only CorruptBatch."""

from __future__ import annotations

from collections.abc import Sequence

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.records.batch import CorruptBatch, RecordBatch, seal
from mesh.records.decode import DecodedRecord, decode_records
from mesh.records.encode import PlainRecord, encode_batch

pytest.importorskip("pyarrow", reason="it comes with the extra: pip install 'kafka-mesh[spark]'")

some_bytes = st.none() | st.binary(max_size=40) | st.binary(min_size=100, max_size=300)
headers = st.lists(st.tuples(st.text(max_size=6), st.none() | st.binary(max_size=9)), max_size=4)
HEADER = 61


@st.composite
def logs(draw: st.DrawFn) -> list[RecordBatch]:
    """Batches one behind the other, with gaps in them and between them."""
    batches: list[RecordBatch] = []
    offset = draw(st.integers(0, 1 << 40))
    for _ in range(draw(st.integers(1, 4))):
        records: list[PlainRecord] = []
        for _ in range(draw(st.integers(1, 9))):
            time = draw(st.integers(0, 1 << 41) | st.just(-1))
            records.append((offset, time, draw(some_bytes), draw(some_bytes), draw(headers)))
            offset += draw(st.sampled_from([1, 1, 1, 2, 300]))
        batches.append(encode_batch(records[0][0], records, log_append_time=draw(st.booleans())))
        offset += draw(st.integers(0, 1_000))
    return batches


def decoded(batches: Sequence[RecordBatch], first: int, last: int, with_headers: bool = True) -> list[DecodedRecord]:
    from pyspark_kafka_mesh.columns import decode

    found: list[DecodedRecord] = []
    for count, columns in decode(batches, first, last, with_headers):
        assert {len(column) for column in columns.values()} == {count}
        times = columns["timestamp"].cast("int64").to_pylist()
        keys, values = columns["key"].to_pylist(), columns["value"].to_pylist()
        named = columns["headers"].to_pylist() if with_headers else [[]] * count
        appended, offsets = columns["timestampType"].to_pylist(), columns["offset"].to_pylist()
        for offset, time, kind, key, value, its in zip(offsets, times, appended, keys, values, named, strict=True):
            pairs = tuple((each["key"], each["value"]) for each in its)
            assert time % 1_000 == 0
            found.append(DecodedRecord(offset, time // 1_000, bool(kind), key, value, pairs))
    return found


@given(logs())
def test_the_same_as_record_by_record(batches: list[RecordBatch]) -> None:
    expected = [record for batch in batches for record in decode_records(batch)]
    assert decoded(batches, 0, 1 << 62) == expected


@given(logs(), st.data())
def test_exactly_the_range(batches: list[RecordBatch], data: st.DataObject) -> None:
    expected = [record for batch in batches for record in decode_records(batch)]
    near = st.integers(expected[0].offset - 2, expected[-1].offset + 2)
    first, last = sorted([data.draw(near), data.draw(near)])
    assert decoded(batches, first, last) == [each for each in expected if first <= each.offset <= last]


def test_without_headers() -> None:
    (record,) = decoded([encode_batch(5, [(5, 1, b"k", None, [("a", b"b")])])], 0, 9, with_headers=False)
    assert record == DecodedRecord(5, 1, False, b"k", None, ())


def test_a_compressed_batch() -> None:
    plain = encode_batch(0, [(number, 7, b"%d" % number, b"v" * 500, []) for number in range(1_000)])
    packed = bytearray(plain.data[:HEADER]) + bytes(cramjam.zstd.compress(bytes(plain.data[HEADER:])))
    packed[22] |= 4
    packed[8:12] = (len(packed) - 12).to_bytes(4)
    seal(packed)
    batch = RecordBatch(packed, 0, 0, 999, 1_000)
    assert decoded([batch], 0, 999) == decode_records(plain)


def test_many_bytes_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark_kafka_mesh import columns

    monkeypatch.setattr(columns, "TOGETHER", 300)
    batches = [encode_batch(number, [(number, 0, None, b"x" * 100, [])]) for number in range(10)]
    parts = list(columns.decode(batches, 3, 8, False))
    assert [count for count, _ in parts] == [2, 2, 2] or sum(count for count, _ in parts) == 6
    assert len(parts) > 1


def test_a_time_that_is_none_of_this_world() -> None:
    batch = encode_batch(0, [(0, (1 << 62), None, b"v", [])])
    (record,) = decoded([batch], 0, 0)
    assert record.timestamp == ((1 << 63) // 1_000 - 1)


@given(logs(), st.data())
def test_damage_is_said(batches: list[RecordBatch], data: st.DataObject) -> None:
    batch = data.draw(st.sampled_from(batches))
    place = data.draw(st.integers(HEADER, len(batch.data) - 1))
    batch.data[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptBatch, match="the checksum"):
        decoded(batches, 0, 1 << 62)


@given(logs(), st.data())
def test_nonsense_with_a_right_checksum_is_said_or_read(batches: list[RecordBatch], data: st.DataObject) -> None:
    batch = data.draw(st.sampled_from(batches))
    assert isinstance(batch.data, bytearray)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(HEADER, len(batch.data) - 1))
        batch.data[place] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
    seal(batch.data)
    try:
        decoded(batches, 0, 1 << 62)
    except CorruptBatch:
        return


def test_a_batch_that_says_it_has_more_records(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = encode_batch(0, [(0, 0, None, b"v", [])])
    with pytest.raises(CorruptBatch, match="2 records are said to be in"):
        decoded([RecordBatch(batch.data, 0, 0, 1, 2)], 0, 9)
