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
from kio.schema.types import BrokerId
from kio.serial import entity_reader, entity_writer

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
from mesh.wire.entities import Direction
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import FetchRequest
from mesh.wire.reader import Cursor
from tests.wire.entities import anatomy

VERSIONS = range(LOWEST, HIGHEST + 1)
TOPIC_ID = UUID(int=7)


@pytest.mark.parametrize("version", VERSIONS)
def test_requests(version: int) -> None:
    by_id = version >= FIRST_WITH_TOPIC_IDS
    wanted = {
        TOPIC_ID if by_id else "orders": [
            FetchFrom(3, 5 if version >= 9 else -1, 1 << 40, 1 << 20),
            FetchFrom(0, -1, 0, 9),
        ],
        UUID(int=8) if by_id else "größe": [FetchFrom(1, 2 if version >= 9 else -1, 3, 4)],
    }
    rack = "b" if version >= 11 else ""
    request = fetch_request(version, wanted, max_wait_ms=500, max_bytes=1 << 23, read_committed=True, rack=rack)
    read = decode_request(ApiKey.FETCH, version, Cursor(b"".join(map(bytes, request.body))))
    assert isinstance(read, FetchRequest)
    assert (read.max_wait_ms, read.min_bytes, read.max_bytes, read.isolation_level) == (500, 1, 1 << 23, 1)
    assert (read.session_id, read.session_epoch, read.forgotten_topics, read.rack_id) == (0, -1, (), rack)
    found = {
        (topic.topic_id if by_id else topic.name): [
            (each.partition, each.fetch_offset, each.partition_max_bytes) for each in topic.partitions
        ]
        for topic in read.topics
    }
    assert found == {
        topic: [(each.partition, each.offset, each.max_bytes) for each in partitions]
        for topic, partitions in wanted.items()
    }
    assert list(found) == list(wanted)


@pytest.mark.parametrize("version", range(9, HIGHEST + 1))
def test_epochs_of_the_leader_and_of_the_last_batch(version: int) -> None:
    topic = TOPIC_ID if version >= FIRST_WITH_TOPIC_IDS else "orders"
    request = fetch_request(
        version, {topic: [FetchFrom(0, 5, 9, 9, last_epoch=4)]}, max_wait_ms=1, max_bytes=1, read_committed=False
    )
    schema: Any = importlib.import_module(f"kio.schema.fetch.v{version}.request")
    body = b"".join(map(bytes, request.body))
    read, size = entity_reader(schema.FetchRequest)(body, 0)
    assert size == len(body)
    (partition,) = read.topics[0].partitions
    assert partition.current_leader_epoch == 5
    assert version < 12 or partition.last_fetched_epoch == 4


def body_of(version: int, records: bytes, **more: Any) -> bytes:
    """kio's values for two partitions, the first with aborted transactions, the second with an error.

    more: values of the second one, by kio's names.
    """
    schema: Any = importlib.import_module(f"kio.schema.fetch.v{version}.response")
    topic: dict[str, Any] = {"topic_id": TOPIC_ID} if version >= FIRST_WITH_TOPIC_IDS else {"topic": "orders"}

    def partition(number: int, error: int, aborted: Any, data: bytes | None, **more: Any) -> Any:
        values: dict[str, Any] = {
            "partition_index": number,
            "error_code": ErrorCode(error),
            "high_watermark": 90,
            "last_stable_offset": 80,
            "aborted_transactions": aborted,
            "records": data,
            **({"log_start_offset": 10} if version >= 5 else {}),
            **more,
        }
        return schema.PartitionData(**values)

    aborted = tuple(schema.AbortedTransaction(producer_id=number, first_offset=number * 9) for number in (4, 5))
    response = schema.FetchResponse(
        throttle_time=timedelta(milliseconds=12),
        **({"error_code": ErrorCode.none, "session_id": 0} if version >= 7 else {}),
        responses=(
            schema.FetchableTopicResponse(
                **topic, partitions=(partition(0, 0, aborted, records), partition(1, 6, None, None, **more))
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
    assert (first.high_watermark, first.last_stable_offset, first.log_start_offset) == (
        90,
        80,
        10 if version >= 5 else -1,
    )
    assert (first.preferred_replica, first.diverging, first.leader) == (-1, None, None)
    assert (second.partition, second.error_code, second.aborted, bytes(second.records)) == (1, 6, (), b"")


@pytest.mark.parametrize("version", [11, 12, 13, 16, 17])
def test_another_replica_is_to_be_read_from(version: int) -> None:
    answer = decode(version, body_of(version, b"", preferred_read_replica=BrokerId(3)))
    assert [each.preferred_replica for each in answer.partitions] == [-1, 3]


@pytest.mark.parametrize("version", [12, 13, 16, 17])
def test_where_logs_part_and_who_leads(version: int) -> None:
    schema: Any = importlib.import_module(f"kio.schema.fetch.v{version}.response")
    body = body_of(
        version,
        b"",
        diverging_epoch=schema.EpochEndOffset(epoch=3, end_offset=77),
        current_leader=schema.LeaderIdAndEpoch(leader_id=BrokerId(2), leader_epoch=6),
    )
    first, second = decode(version, body).partitions
    assert (first.diverging, first.leader) == (None, None)
    assert (second.diverging, second.leader) == (77, (2, 6))


@pytest.mark.parametrize("version", [12, 13, 16, 17])
def test_the_sizes_and_the_order_of_tags_are_checked(version: int) -> None:
    parts = anatomy.whole((ApiKey.FETCH, version, Direction.RESPONSE))
    answer = decode(version, anatomy.encoded(parts))
    for section in anatomy.sections(parts):
        known = section.fields[:]
        for field in known:
            for more in (-1, 1):
                field.more = more
                with pytest.raises(ProtocolError):
                    decode(version, anatomy.encoded(parts) + bytes(9))
            field.more = 0
        section.fields = [*known, anatomy.Tagged(99, []), anatomy.Tagged(98, [])]
        with pytest.raises(ProtocolError, match="tags must ascend"):
            decode(version, anatomy.encoded(parts))
        section.fields = [*known, anatomy.Tagged(98, []), anatomy.Tagged(99, [])]
        assert decode(version, anatomy.encoded(parts)) == answer
        section.fields = known


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
