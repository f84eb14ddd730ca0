"""Encoded records equal those of a real client, and two independent decoders read the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from kio.records.readers import read_batch

from mesh.records.batch import is_intact
from mesh.records.decode import decode_records
from mesh.records.encode import PlainRecord, encode_batch
from tests.records.golden import APPEND_TIMESTAMP, APPENDED, PLAIN, RECORDS
from tests.records.reading import parse_batch
from tests.records.strategies import as_records, runs


def test_the_bytes_are_those_of_a_real_client() -> None:
    assert bytes(encode_batch(0, RECORDS).data) == PLAIN


def test_log_append_time_is_the_timestamp_of_the_whole_batch() -> None:
    records = [(offset, APPEND_TIMESTAMP, key, value, headers) for offset, _, key, value, headers in RECORDS]
    read = decode_records(encode_batch(0, records, log_append_time=True))
    theirs = parse_batch(APPENDED, 0, len(APPENDED))
    assert theirs is not None
    assert read == decode_records(theirs)
    assert {(record.timestamp, record.log_append_time) for record in read} == {(APPEND_TIMESTAMP, True)}


@given(runs())
def test_records_come_back_as_they_were(run: list[PlainRecord]) -> None:
    batch = encode_batch(run[0][0], run)
    assert decode_records(batch) == as_records(run)
    assert is_intact(batch)
    assert (batch.first, batch.last, batch.record_count) == (run[0][0], run[-1][0], len(run))
    read = parse_batch(batch.data, 0, len(batch.data))
    assert read is not None
    assert (read.base, read.last, read.record_count) == (batch.base, batch.last, batch.record_count)


@given(runs())
def test_kio_reads_the_same(run: list[PlainRecord]) -> None:
    # It keeps whole seconds only, of years that datetime has.
    run = [(record[0], max(record[1], 0) % (1 << 42) // 1000 * 1000, *record[2:]) for record in run]
    read, _ = read_batch(bytes(encode_batch(run[0][0], run).data), 0)
    assert [
        (
            record.offset,
            round(record.timestamp.timestamp() * 1000),
            record.key,
            record.value,
            [((header.key or b"").decode(), header.value) for header in record.headers],
        )
        for record in read.records
    ] == run
    assert (read.producer_id, read.producer_epoch, read.base_sequence, read.partition_leader_epoch) == (-1, -1, -1, 0)


def test_lengths_beyond_the_ready_made_varints() -> None:
    run: list[PlainRecord] = [(7, -1, bytes(70_000), bytes(3_000_000), [("n" * 20_000, bytes(17_000))])]
    assert decode_records(encode_batch(7, run)) == as_records(run)


def test_no_records_are_no_batch() -> None:
    with pytest.raises(ValueError, match="at least one"):
        encode_batch(0, [])
