"""Fetch against kio in every version, both directions, and byte for byte; and what happens to record buffers."""

from __future__ import annotations

import struct
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode

from mesh.wire.apis import APIS, ApiKey
from mesh.wire.entities import Direction
from mesh.wire.errors import ProtocolError
from mesh.wire.fetch import decode_fetch_request, encode_fetch_response
from mesh.wire.messages import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FetchTopicResponse,
    ForgottenTopic,
)
from mesh.wire.reader import Cursor
from tests.wire.entities import anatomy, encode, entities
from tests.wire.known_to_kio import KNOWN_TO_KIO

VERSIONS = APIS[ApiKey.FETCH].all()
TOPIC_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)

partition_responses = st.builds(
    FetchPartitionResponse,
    partition=int32,
    error_code=st.sampled_from(KNOWN_TO_KIO),
    high_watermark=int64,
    last_stable_offset=int64,
    log_start_offset=int64,
    records=st.lists(st.binary(max_size=200), max_size=3).map(tuple),
)
topic_responses = st.builds(
    FetchTopicResponse,
    name=st.text(max_size=200),
    topic_id=st.none() | st.uuids().filter(lambda value: value.int != 0),
    partitions=st.lists(partition_responses, max_size=3).map(tuple),
)
responses = st.builds(
    FetchResponse,
    throttle_time_ms=int32,
    error_code=st.sampled_from(KNOWN_TO_KIO),
    session_id=int32,
    topics=st.lists(topic_responses, max_size=3).map(tuple),
)


def from_kio(request: Any) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=request.max_wait // timedelta(milliseconds=1),
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        isolation_level=request.isolation_level,
        session_id=getattr(request, "session_id", 0),
        session_epoch=getattr(request, "session_epoch", -1),
        topics=tuple(
            FetchTopic(
                name=getattr(topic, "topic", None),
                topic_id=getattr(topic, "topic_id", None),
                partitions=tuple(
                    FetchPartition(
                        partition=partition.partition,
                        fetch_offset=partition.fetch_offset,
                        partition_max_bytes=partition.partition_max_bytes,
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        ),
        forgotten_topics=tuple(
            ForgottenTopic(
                name=getattr(topic, "topic", None),
                topic_id=getattr(topic, "topic_id", None),
                partitions=topic.partitions,
            )
            for topic in getattr(request, "forgotten_topics_data", ())
        ),
        rack_id=getattr(request, "rack_id", ""),
    )


def to_kio(response: FetchResponse, version: int) -> Any:
    """It leaves out values for which the version has no field: kio's class does not accept them."""
    schema = load_response_schema(ApiKey.FETCH, version)
    module = __import__(schema.__module__, fromlist=["response"])
    by_id = version >= 13
    topics = tuple(
        module.FetchableTopicResponse(
            **({"topic_id": topic.topic_id} if by_id else {"topic": topic.name}),
            partitions=tuple(
                module.PartitionData(
                    partition_index=partition.partition,
                    error_code=KioErrorCode(partition.error_code.value),
                    high_watermark=partition.high_watermark,
                    last_stable_offset=partition.last_stable_offset,
                    **({"log_start_offset": partition.log_start_offset} if version >= 5 else {}),
                    aborted_transactions=(),
                    records=b"".join(partition.records),
                )
                for partition in topic.partitions
            ),
        )
        for topic in response.topics
    )
    session = {"error_code": KioErrorCode(response.error_code.value), "session_id": response.session_id}
    return module.FetchResponse(
        throttle_time=timedelta(milliseconds=response.throttle_time_ms),
        responses=topics,
        **(session if version >= 7 else {}),
    )


@pytest.mark.parametrize("version", VERSIONS)
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_reads_what_kio_writes(version: int, data: st.DataObject) -> None:
    request = data.draw(entities(load_request_schema(ApiKey.FETCH, version)))
    cursor = Cursor(encode(request))
    assert decode_fetch_request(cursor, version) == from_kio(request)
    cursor.finish()


@pytest.mark.parametrize("version", VERSIONS)
@given(response=responses)
def test_writes_what_kio_writes(version: int, response: FetchResponse) -> None:
    assert b"".join(encode_fetch_response(response, version)) == encode(to_kio(response, version))


def test_golden_request_v12() -> None:
    body = (
        b"\xff\xff\xff\xff"  # replica_id
        b"\0\0\x01\xf4"  # max_wait_ms 500
        b"\0\0\0\x01"  # min_bytes
        b"\x03\x20\0\0"  # max_bytes 50 MiB
        b"\x01"  # isolation_level
        b"\0\0\0\0" b"\xff\xff\xff\xff"  # no session
        b"\x02\x02t"  # one topic, named t
        b"\x02"  # one partition
        b"\0\0\0\x03"  # partition
        b"\0\0\0\x07"  # current_leader_epoch
        b"\0\0\0\x01\0\0\0\x02"  # fetch_offset: slot 1, sequence 2
        b"\xff\xff\xff\xff"  # last_fetched_epoch
        b"\xff\xff\xff\xff\xff\xff\xff\xff"  # log_start_offset
        b"\0\x10\0\0"  # partition_max_bytes 1 MiB
        b"\x01\x09\x01x"  # tagged fields of the partition: an unknown one
        b"\0"  # tagged fields of the topic
        b"\x01"  # no forgotten topics
        b"\x02r"  # rack_id
        b"\0"  # tagged fields of the request
    )  # fmt: skip
    partition = FetchPartition(partition=3, fetch_offset=1 << 32 | 2, partition_max_bytes=1 << 20)
    assert decode_fetch_request(Cursor(body), 12) == FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=50 << 20,
        isolation_level=1,
        topics=(FetchTopic(name="t", topic_id=None, partitions=(partition,)),),
        rack_id="r",
    )


@pytest.mark.parametrize("tagged", [set(), {0}, {1}, {2}, {0, 2}, {0, 1, 2}])
def test_partitions_with_tagged_fields_stand_beside_others(tagged: set[int]) -> None:
    """The decoder reads partitions all at once only if none has tagged fields."""
    ends = [b"\x01\x09\x02\0\0" if number in tagged else b"\0" for number in range(3)]
    rows = [struct.pack(">iiqiqi", number, -1, number << 8, -1, -1, 1 << 20) + end for number, end in enumerate(ends)]
    start = b"\xff\xff\xff\xff" + struct.pack(">iiibii", 500, 1, 1 << 20, 0, 0, -1) + b"\x02\x02t\x04"
    body = start + b"".join(rows) + b"\0\x01\x01\0"
    (topic,) = decode_fetch_request(Cursor(body), 12).topics
    assert topic.partitions == tuple(FetchPartition(number, number << 8, 1 << 20) for number in range(3))


@pytest.mark.parametrize("version", [version for version in APIS[ApiKey.FETCH].all() if version >= 12])
def test_the_sizes_and_the_order_of_tags_are_checked(version: int) -> None:
    """Followers send these tagged fields."""
    parts = anatomy.whole((ApiKey.FETCH, version, Direction.REQUEST))
    whole = decode_fetch_request(Cursor(anatomy.encoded(parts)), version)
    for section in anatomy.sections(parts):
        known = section.fields[:]
        for field in known:
            for more in (-1, 1):
                field.more = more
                with pytest.raises(ProtocolError, match="at tag"):
                    decode_fetch_request(Cursor(anatomy.encoded(parts) + bytes(9)), version)
            field.more = 0
        section.fields = [*known, anatomy.Tagged(99, []), anatomy.Tagged(98, [])]
        with pytest.raises(ProtocolError, match="tags must ascend"):
            decode_fetch_request(Cursor(anatomy.encoded(parts)), version)
        section.fields = [*known, anatomy.Tagged(98, []), anatomy.Tagged(99, [])]
        assert decode_fetch_request(Cursor(anatomy.encoded(parts)), version) == whole
        section.fields = known


def test_golden_response_v17() -> None:
    records = b"R" * 200
    partition = FetchPartitionResponse(
        partition=3, high_watermark=9, last_stable_offset=9, log_start_offset=0, records=(records,)
    )
    topic = FetchTopicResponse(name=None, topic_id=TOPIC_ID, partitions=(partition,))
    assert b"".join(encode_fetch_response(FetchResponse(topics=(topic,)), 17)) == (
        b"\0\0\0\0"  # throttle_time_ms
        b"\0\0" b"\0\0\0\0"  # error_code, session_id
        b"\x02" + TOPIC_ID.bytes +  # one topic
        b"\x02"  # one partition
        b"\0\0\0\x03" b"\0\0"  # partition_index, error_code
        b"\0\0\0\0\0\0\0\x09" b"\0\0\0\0\0\0\0\x09" b"\0\0\0\0\0\0\0\0"  # high watermark, last stable, log start
        b"\x01"  # no aborted transactions
        b"\xff\xff\xff\xff"  # preferred_read_replica
        b"\xc9\x01" + records +  # length + 1 as a varint
        b"\0\0\0"  # tagged fields of the partition, the topic, the response
    )  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
def test_record_buffers_are_passed_on_untouched(version: int) -> None:
    first, second, third = bytearray(b"one"), memoryview(b"two"), b"three"
    partitions = (
        FetchPartitionResponse(partition=0, records=(first, second)),
        FetchPartitionResponse(partition=1),
        FetchPartitionResponse(partition=2, records=(third,)),
    )
    topic = FetchTopicResponse(name="t", topic_id=TOPIC_ID, partitions=partitions)
    pieces = encode_fetch_response(FetchResponse(topics=(topic,)), version)
    assert [piece for piece in pieces if piece in (b"one", b"two", b"three")] == [first, second, third]
    assert {id(first), id(second), id(third)} <= set(map(id, pieces))


@pytest.mark.parametrize("version", VERSIONS)
def test_no_records_are_an_empty_set_and_never_null(version: int) -> None:
    topic = FetchTopicResponse(name="t", topic_id=TOPIC_ID, partitions=(FetchPartitionResponse(partition=0),))
    end = b"\x01\0\0\0" if version >= 12 else b"\0\0\0\0"
    assert b"".join(encode_fetch_response(FetchResponse(topics=(topic,)), version)).endswith(end)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_null_array_of_topics_is_refused(version: int) -> None:
    start = encode(load_request_schema(ApiKey.FETCH, version)(**_empty_request(version)))
    position = decode_topics_position(version)
    null = b"\0" if version >= 12 else b"\xff\xff\xff\xff"
    with pytest.raises(ProtocolError) as caught:
        decode_fetch_request(Cursor(start[:position] + null + start[position + len(null) :]), version)
    assert caught.value.reason == "invalid_length"


def decode_topics_position(version: int) -> int:
    """The values in front of the topics: max_wait, min_bytes, max_bytes, isolation level; the replica id before them,
    the session behind them."""
    return 13 + (4 if version < 15 else 0) + (8 if version >= 7 else 0)


def _empty_request(version: int) -> dict[str, Any]:
    forgotten = {"forgotten_topics_data": ()} if version >= 7 else {}
    return {"max_wait": timedelta(0), "min_bytes": 1, "topics": (), **forgotten}


def test_a_topic_needs_a_name_up_to_v12() -> None:
    topic = FetchTopicResponse(name=None, topic_id=TOPIC_ID, partitions=())
    with pytest.raises(ValueError, match="no name"):
        encode_fetch_response(FetchResponse(topics=(topic,)), 12)
