"""The decoder reads the records of a real client; it refuses nonsense, and raises no other error."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.records.batch import HEADER_SIZE, CorruptBatch, RecordBatch
from mesh.records.decode import DecodedRecord, decode_records
from tests.records.golden import APPEND_TIMESTAMP, APPENDED, GZIP, PLAIN, RECORDS, REPEATED
from tests.records.reading import parse_batch
from tests.records.strategies import as_records, batches


def parsed(data: bytes) -> RecordBatch:
    batch = parse_batch(data, 0, len(data))
    assert batch is not None
    return batch


def test_plain() -> None:
    assert decode_records(parsed(PLAIN)) == as_records(RECORDS)


def test_log_append_time() -> None:
    assert [record.timestamp for record in decode_records(parsed(APPENDED))] == [APPEND_TIMESTAMP] * 3


def test_gzip() -> None:
    assert decode_records(parsed(GZIP)) == [
        DecodedRecord(offset, 1700000000000 + offset, False, b"k", REPEATED, ()) for offset in range(8)
    ]


def test_a_compression_that_does_not_exist_is_refused() -> None:
    data = bytearray(PLAIN)
    data[22] = 5
    with pytest.raises(CorruptBatch, match="compression 5"):
        decode_records(parsed(bytes(data)))


def test_gzip_data_must_be_gzip_data() -> None:
    batch = parsed(GZIP)
    batch.data[HEADER_SIZE:] = zlib.compress(b"something else")
    with pytest.raises(CorruptBatch):
        decode_records(batch)


@given(batches(), st.data())
def test_a_damaged_body_is_read_or_refused(batch: RecordBatch, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        batch.data[data.draw(st.integers(HEADER_SIZE, len(batch.data) - 1))] = data.draw(st.integers(0, 255))
    try:
        records = decode_records(batch)
    except CorruptBatch:
        return
    assert len(records) == batch.record_count
