"""Our requests are read by the mesh's own server side, and kio's answers by our decoder."""

from __future__ import annotations

import importlib
from datetime import timedelta
from io import BytesIO
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from mesh.wire.apis import ApiKey
from mesh.wire.client.connection import ClientRequest, ClientResponse
from mesh.wire.client.fetch import (
    FIRST_WITH_TOPIC_IDS,
    HIGHEST,
    LOWEST,
    AbortedTransaction,
    FetchAnswer,
    FetchFrom,
    decode_fetch_answer,
    fetch_request,
)
from mesh.wire.decoder import decode_request
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import FetchRequest
from mesh.wire.reader import Cursor

VERSIONS = range(LOWEST, HIGHEST + 1)
TOPIC_ID = UUID(int=7)


@pytest.mark.parametrize("version", VERSIONS)
def test_requests(version: int) -> None:
    by_id = version >= FIRST_WITH_TOPIC_IDS
    wanted = {
        TOPIC_ID if by_id else "orders": [FetchFrom(3, 5, 1 << 40, 1 << 20), FetchFrom(0, -1, 0, 9)],
        UUID(int=8) if by_id else "größe": [FetchFrom(1, 2, 3, 4)],
    }
    request = fetch_request(version, wanted, max_wait_ms=500, max_bytes=1 << 23, read_committed=True)
    read = decode_request(ApiKey.FETCH, version, Cursor(b"".join(map(bytes, request.body))))
    assert isinstance(read, FetchRequest)
    assert (read.max_wait_ms, read.min_bytes, read.max_bytes, read.isolation_level) == (500, 1, 1 << 23, 1)
    assert (read.session_id, read.session_epoch, read.forgotten_topics, read.rack_id) == (0, -1, (), "")
    found = {
        (topic.topic_id if by_id else topic.name): [
            FetchFrom(each.partition, each.current_leader_epoch, each.fetch_offset, each.partition_max_bytes)
            for each in topic.partitions
        ]
        for topic in read.topics
    }
    assert found == wanted
    assert list(found) == list(wanted)


def body_of(version: int, records: bytes) -> bytes:
    """kio's words for two partitions, the first with aborted transactions, the second with nothing."""
    schema: Any = importlib.import_module(f"kio.schema.fetch.v{version}.response")
    topic: dict[str, Any] = {"topic_id": TOPIC_ID} if version >= FIRST_WITH_TOPIC_IDS else {"topic": "orders"}

    def partition(number: int, error: int, aborted: Any, data: bytes | None) -> Any:
        values: dict[str, Any] = {
            "partition_index": number,
            "error_code": ErrorCode(error),
            "high_watermark": 90,
            "last_stable_offset": 80,
            "log_start_offset": 10,
            "aborted_transactions": aborted,
            "records": data,
        }
        return schema.PartitionData(**values)

    aborted = tuple(schema.AbortedTransaction(producer_id=number, first_offset=number * 9) for number in (4, 5))
    response = schema.FetchResponse(
        throttle_time=timedelta(milliseconds=12),
        error_code=ErrorCode.none,
        session_id=0,
        responses=(
            schema.FetchableTopicResponse(
                **topic, partitions=(partition(0, 0, aborted, records), partition(1, 6, None, None))
            ),
        ),
    )
    buffer = BytesIO()
    entity_writer(schema.FetchResponse)(buffer, response)
    return buffer.getvalue()


def decode(version: int, body: bytes) -> FetchAnswer:
    frame = bytearray(5) + body
    return decode_fetch_answer(ClientResponse(ClientRequest(1, version, version >= 12, ()), memoryview(frame), 5))


@pytest.mark.parametrize("version", VERSIONS)
def test_answers(version: int) -> None:
    answer = decode(version, body_of(version, b"records"))
    assert (answer.error_code, answer.throttle_time_ms) == (0, 12)
    first, second = answer.partitions
    assert first.topic == second.topic == (TOPIC_ID if version >= FIRST_WITH_TOPIC_IDS else "orders")
    assert first.aborted == (AbortedTransaction(4, 36), AbortedTransaction(5, 45))
    assert (first.partition, first.error_code, bytes(first.records)) == (0, 0, b"records")
    assert (first.high_watermark, first.last_stable_offset, first.log_start_offset) == (90, 80, 10)
    assert (second.partition, second.error_code, second.aborted, bytes(second.records)) == (1, 6, (), b"")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_records_are_not_copied(version: int) -> None:
    frame = bytearray(5) + body_of(version, b"records")
    answer = decode_fetch_answer(ClientResponse(ClientRequest(1, version, version >= 12, ()), memoryview(frame), 5))
    answer.partitions[0].records[0:1] = b"R"
    assert b"Records" in frame


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_that_ends_early_is_refused(version: int) -> None:
    body = body_of(version, b"records")
    for length in range(len(body)):
        with pytest.raises(ProtocolError):
            decode(version, body[:length])


@given(st.sampled_from(VERSIONS), st.binary(max_size=200))
def test_any_bytes_are_an_answer_or_refused(version: int, body: bytes) -> None:
    try:
        decode(version, body)
    except ProtocolError:
        return
