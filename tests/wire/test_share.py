"""ShareFetch and ShareAcknowledge against kio in every version, both directions, and byte for byte."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode

from mesh.wire.apis import APIS, ApiKey
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import (
    AcknowledgementBatch,
    AcquiredRange,
    ShareAcknowledgePartitionResponse,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
    ShareFetchPartitionResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchTopicResponse,
    SharePartition,
    ShareTopic,
    TopicIdPartitions,
)
from mesh.wire.reader import Cursor
from mesh.wire.share import (
    decode_share_acknowledge_request,
    decode_share_fetch_request,
    encode_share_acknowledge_response,
    encode_share_fetch_response,
)
from tests.wire.entities import encode, entities
from tests.wire.known_to_kio import KNOWN_TO_KIO

VERSIONS = list(APIS[ApiKey.SHARE_FETCH].all())
TOPIC_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
topic_ids = st.none() | st.uuids().filter(lambda value: value.int != 0)
errors = st.sampled_from(KNOWN_TO_KIO)
messages_of_errors = st.none() | st.text(max_size=200)

fetched = st.builds(
    ShareFetchPartitionResponse,
    partition=int32,
    error_code=errors,
    acknowledge_error_code=errors,
    records=st.lists(st.binary(max_size=200), max_size=3).map(tuple),
    acquired=st.lists(
        st.builds(AcquiredRange, first=int64, last=int64, delivery_count=st.integers(-(2**15), 2**15 - 1)), max_size=3
    ).map(tuple),
)
fetch_responses = st.builds(
    ShareFetchResponse,
    throttle_time_ms=int32,
    error_code=errors,
    error_message=messages_of_errors,
    acquisition_lock_timeout_ms=int32,
    topics=st.lists(
        st.builds(ShareFetchTopicResponse, topic_id=topic_ids, partitions=st.lists(fetched, max_size=3).map(tuple)),
        max_size=3,
    ).map(tuple),
)
acknowledged = st.builds(ShareAcknowledgePartitionResponse, partition=int32, error_code=errors)
acknowledge_responses = st.builds(
    ShareAcknowledgeResponse,
    throttle_time_ms=int32,
    error_code=errors,
    error_message=messages_of_errors,
    acquisition_lock_timeout_ms=int32,
    topics=st.lists(
        st.builds(
            ShareAcknowledgeTopicResponse, topic_id=topic_ids, partitions=st.lists(acknowledged, max_size=3).map(tuple)
        ),
        max_size=3,
    ).map(tuple),
)


def topics_from_kio(request: Any) -> tuple[ShareTopic, ...]:
    return tuple(
        ShareTopic(
            topic_id=topic.topic_id,
            partitions=tuple(
                SharePartition(
                    each.partition_index,
                    tuple(
                        AcknowledgementBatch(
                            batch.first_offset,
                            batch.last_offset,
                            bytes(kind & 0xFF for kind in batch.acknowledge_types),
                        )
                        for batch in each.acknowledgement_batches
                    ),
                )
                for each in topic.partitions
            ),
        )
        for topic in request.topics
    )


@pytest.mark.parametrize("version", VERSIONS)
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_reads_a_share_fetch_that_kio_writes(version: int, data: st.DataObject) -> None:
    request = data.draw(entities(load_request_schema(ApiKey.SHARE_FETCH, version)))
    cursor = Cursor(encode(request))
    assert decode_share_fetch_request(cursor, version) == ShareFetchRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        share_session_epoch=request.share_session_epoch,
        max_wait_ms=request.max_wait // timedelta(milliseconds=1),
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        max_records=request.max_records,
        batch_size=request.batch_size,
        share_acquire_mode=getattr(request, "share_acquire_mode", 0),
        is_renew_ack=getattr(request, "is_renew_ack", False),
        topics=topics_from_kio(request),
        forgotten_topics=tuple(
            TopicIdPartitions(topic_id=each.topic_id, partitions=each.partitions)
            for each in request.forgotten_topics_data
        ),
    )
    cursor.finish()


@pytest.mark.parametrize("version", VERSIONS)
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_reads_a_share_acknowledge_that_kio_writes(version: int, data: st.DataObject) -> None:
    request = data.draw(entities(load_request_schema(ApiKey.SHARE_ACKNOWLEDGE, version)))
    cursor = Cursor(encode(request))
    assert decode_share_acknowledge_request(cursor, version) == ShareAcknowledgeRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        share_session_epoch=request.share_session_epoch,
        is_renew_ack=getattr(request, "is_renew_ack", False),
        topics=topics_from_kio(request),
    )
    cursor.finish()


@pytest.mark.parametrize("version", VERSIONS)
@given(response=fetch_responses)
def test_writes_a_share_fetch_as_kio_does(version: int, response: ShareFetchResponse) -> None:
    schema = load_response_schema(ApiKey.SHARE_FETCH, version)
    module = __import__(schema.__module__, fromlist=["response"])
    expected = module.ShareFetchResponse(
        throttle_time=timedelta(milliseconds=response.throttle_time_ms),
        error_code=KioErrorCode(response.error_code.value),
        error_message=response.error_message,
        acquisition_lock_timeout=timedelta(milliseconds=response.acquisition_lock_timeout_ms),
        responses=tuple(
            module.ShareFetchableTopicResponse(
                topic_id=topic.topic_id,
                partitions=tuple(
                    module.PartitionData(
                        partition_index=each.partition,
                        error_code=KioErrorCode(each.error_code.value),
                        error_message=None,
                        acknowledge_error_code=each.acknowledge_error_code.value,
                        acknowledge_error_message=None,
                        current_leader=module.LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1),
                        records=b"".join(each.records),
                        acquired_records=tuple(
                            module.AcquiredRecords(
                                first_offset=acquired.first,
                                last_offset=acquired.last,
                                delivery_count=acquired.delivery_count,
                            )
                            for acquired in each.acquired
                        ),
                    )
                    for each in topic.partitions
                ),
            )
            for topic in response.topics
        ),
        node_endpoints=(),
    )
    assert b"".join(encode_share_fetch_response(response)) == encode(expected)


@pytest.mark.parametrize("version", VERSIONS)
@given(response=acknowledge_responses)
def test_writes_a_share_acknowledge_as_kio_does(version: int, response: ShareAcknowledgeResponse) -> None:
    schema = load_response_schema(ApiKey.SHARE_ACKNOWLEDGE, version)
    module = __import__(schema.__module__, fromlist=["response"])
    lock = timedelta(milliseconds=response.acquisition_lock_timeout_ms)
    expected = module.ShareAcknowledgeResponse(
        throttle_time=timedelta(milliseconds=response.throttle_time_ms),
        error_code=KioErrorCode(response.error_code.value),
        error_message=response.error_message,
        responses=tuple(
            module.ShareAcknowledgeTopicResponse(
                topic_id=topic.topic_id,
                partitions=tuple(
                    module.PartitionData(
                        partition_index=each.partition,
                        error_code=KioErrorCode(each.error_code.value),
                        error_message=None,
                        current_leader=module.LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1),
                    )
                    for each in topic.partitions
                ),
            )
            for topic in response.topics
        ),
        node_endpoints=(),
        **({"acquisition_lock_timeout": lock} if version >= 2 else {}),
    )
    assert b"".join(encode_share_acknowledge_response(response, version)) == encode(expected)


def test_golden_share_fetch_request_v2() -> None:
    body = (
        b"\x02g" b"\x02m"  # group_id, member_id
        b"\0\0\0\x05"  # share_session_epoch
        b"\0\0\x01\xf4" b"\0\0\0\x01" b"\x03\x20\0\0"  # max_wait_ms, min_bytes, max_bytes
        b"\0\0\x01\xf4" b"\0\0\x01\xf4"  # max_records, batch_size
        b"\x01" b"\0"  # share_acquire_mode: record limit, is_renew_ack
        b"\x02" + TOPIC_ID.bytes + b"\x02"  # one topic, one partition
        b"\0\0\0\x03"  # partition_index
        b"\x02"  # one batch of acknowledgements
        b"\0\0\0\0\0\0\0\x0a" b"\0\0\0\0\0\0\0\x0c"  # offsets 10 to 12
        b"\x04\x01\x02\x01" b"\0"  # accept, release, accept
        b"\0" b"\0"  # tagged fields of partition and topic
        b"\x02" + TOPIC_ID.bytes + b"\x02\0\0\0\x07\0"  # partition 7 is forgotten
        b"\0"
    )  # fmt: skip
    request = decode_share_fetch_request(Cursor(body), 2)
    assert request == ShareFetchRequest(
        group_id="g",
        member_id="m",
        share_session_epoch=5,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=50 << 20 | 2 << 20,
        max_records=500,
        batch_size=500,
        share_acquire_mode=1,
        topics=(
            ShareTopic(
                topic_id=TOPIC_ID,
                partitions=(SharePartition(3, (AcknowledgementBatch(10, 12, b"\x01\x02\x01"),)),),
            ),
        ),
        forgotten_topics=(TopicIdPartitions(topic_id=TOPIC_ID, partitions=(7,)),),
    )


def test_golden_share_fetch_response_with_the_very_records() -> None:
    records = memoryview(b"R" * 200)
    partition = ShareFetchPartitionResponse(3, records=(records,), acquired=(AcquiredRange(10, 12, 1),))
    response = ShareFetchResponse(
        acquisition_lock_timeout_ms=30_000,
        topics=(ShareFetchTopicResponse(topic_id=TOPIC_ID, partitions=(partition,)),),
    )
    pieces = encode_share_fetch_response(response)
    assert pieces[1] is records
    assert b"".join(pieces) == (
        b"\0\0\0\0" b"\0\0" b"\0"  # throttle_time_ms, error_code, no message
        b"\0\0\x75\x30"  # acquisition_lock_timeout_ms
        b"\x02" + TOPIC_ID.bytes + b"\x02"  # one topic, one partition
        b"\0\0\0\x03" b"\0\0" b"\0" b"\0\0" b"\0"  # partition_index, no errors
        b"\xff\xff\xff\xff" b"\xff\xff\xff\xff" b"\0"  # no leader
        b"\xc9\x01" + b"R" * 200 +  # 200 bytes of records
        b"\x02" b"\0\0\0\0\0\0\0\x0a" b"\0\0\0\0\0\0\0\x0c" b"\0\x01" b"\0"  # acquired: 10 to 12, the first delivery
        b"\0" b"\0"  # tagged fields of partition and topic
        b"\x01" b"\0"  # no endpoints of nodes
    )  # fmt: skip


def test_records_are_empty_and_not_null() -> None:
    topic = ShareFetchTopicResponse(topic_id=TOPIC_ID, partitions=(ShareFetchPartitionResponse(0),))
    body = b"".join(encode_share_fetch_response(ShareFetchResponse(topics=(topic,))))
    assert body.endswith(b"\xff\xff\xff\xff\0\x01\x01\0\0\x01\0")


def test_as_many_acknowledgement_types_as_there_are_bytes() -> None:
    """They are not elements of an array: a member may acknowledge tens of thousands of records one by one."""
    types = b"\x01\x02" * 20_000
    length = bytes([(40_001 & 0x7F) | 0x80, (40_001 >> 7 & 0x7F) | 0x80, 40_001 >> 14])
    batch = b"\0" * 8 + (39_999).to_bytes(8, "big") + length + types + b"\0"
    body = b"\x02g\x02m\0\0\0\x01\x02" + TOPIC_ID.bytes + b"\x02\0\0\0\0\x02" + batch + b"\0\0\0"
    (topic,) = decode_share_acknowledge_request(Cursor(body), 1).topics
    assert topic.partitions[0].acknowledgements[0].types == types


@pytest.mark.parametrize("announced", [b"\xff\xff\xff\xff\x07", b"\x00"])
def test_a_length_that_is_none_is_refused(announced: bytes) -> None:
    """Two billion topics, and null in their place."""
    with pytest.raises(ProtocolError):
        decode_share_acknowledge_request(Cursor(b"\x02g\x02m\0\0\0\x01" + announced), 1)
