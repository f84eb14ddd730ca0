"""Messages become batches that are small enough, and exact."""

from __future__ import annotations

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE, Message
from hypothesis import given
from hypothesis import strategies as st

from mesh.records.batch import RecordBatch
from mesh.records.decode import decode_records
from mesh.records.runs import MOST_EMPTY, singles
from mesh.upstream.librdkafka.message_runs import (
    LARGEST_BATCH_BYTES,
    LARGEST_BATCH_RECORDS,
    OffsetsFellBack,
    batches_of,
)
from tests.upstream.fakes import message


def singles_of(messages: list[Message]) -> list[RecordBatch]:
    return [batch for run in batches_of(messages) for batch in singles(run)]


SIZES = st.lists(st.sampled_from([0, 1, 100, 5_000, 16_384, 20_000]), max_size=40)


@given(SIZES, st.lists(st.integers(1, 5), min_size=40, max_size=40))
def test_batches_hold_everything_within_limits(sizes: list[int], gaps: list[int]) -> None:
    messages: list[Message] = []
    offset = 7
    for size, gap in zip(sizes, gaps, strict=False):
        messages.append(message(offset, content=bytes(size)))
        offset += gap
    batches = singles_of(messages)
    records = [record for batch in batches for record in decode_records(batch)]
    assert [(record.offset, record.value) for record in records] == [(each.offset(), each.value()) for each in messages]
    for batch in batches:
        size = sum(len(record.value or b"") for record in decode_records(batch))
        assert size <= LARGEST_BATCH_BYTES or batch.record_count == 1
        assert batch.base == decode_records(batch)[0].offset
        assert batch.last == decode_records(batch)[-1].offset


def test_small_records_are_counted() -> None:
    batches = singles_of([message(number, content=None) for number in range(1_201)])
    assert [batch.record_count for batch in batches] == [LARGEST_BATCH_RECORDS, LARGEST_BATCH_RECORDS, 201]


def test_headers_count_as_bytes() -> None:
    headers: list[tuple[str, bytes | None]] = [("name", bytes(10_000)), ("none", None)]
    assert [batch.record_count for batch in singles_of([message(n, fields=headers) for n in range(3)])] == [1, 1, 1]


def test_a_batch_has_one_log_append_time() -> None:
    appended = [message(number, time=(TIMESTAMP_LOG_APPEND_TIME, 5 + number // 2)) for number in range(4)]
    batches = singles_of([*appended, message(4), message(5)])
    assert [batch.record_count for batch in batches] == [2, 2, 2]
    records = [record for batch in batches for record in decode_records(batch)]
    assert [(record.timestamp, record.log_append_time) for record in records] == [
        *((5, True), (5, True), (6, True), (6, True)),
        *((1_000, False), (1_000, False)),
    ]


def test_records_without_a_time() -> None:
    (batch,) = batches_of([message(0, time=(TIMESTAMP_NOT_AVAILABLE, 0))])
    assert decode_records(batch)[0].timestamp == -1


def test_offsets_that_fall_back() -> None:
    with pytest.raises(OffsetsFellBack) as fall:
        batches_of([message(8), message(9), message(0), message(10)])
    assert fall.value.index == 2


def test_no_messages() -> None:
    assert batches_of([]) == []


def test_batches_are_one_run_but_where_many_offsets_have_no_record() -> None:
    far = 8 + MOST_EMPTY + 2
    first, second = batches_of([message(number, content=bytes(9_000)) for number in (0, 1, 2, 7, 8, far, far + 1)])
    assert [(each.first, each.last, len(singles(each))) for each in (first, second)] == [(0, 8, 5), (far, far + 1, 2)]
