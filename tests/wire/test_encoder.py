"""Responses: what we write is what kio reads, in every version; and what cannot be written."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.index import load_response_schema

from mesh.wire import encoder, messages
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.encoder import encode_response
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import (
    ApiVersion,
    ApiVersionsResponse,
    Coordinator,
    FindCoordinatorResponse,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupMemberResponse,
    LeaveGroupResponse,
    MetadataResponse,
    MetadataTopicResponse,
    OffsetFetchGroupResponse,
    OffsetFetchPartitionResponse,
    OffsetFetchResponse,
    OffsetFetchTopicResponse,
    ResponseMessage,
)
from tests.wire.each_version import each_version
from tests.wire.entities import BY_TABLES, build, decode, entities, lift, values

RESPONSES: Mapping[ApiKey, type] = {
    api_key: getattr(messages, f"{api_key.name.title().replace('_', '')}Response") for api_key in APIS
}


def body(api_key: ApiKey, version: int, response: ResponseMessage) -> bytes:
    return b"".join(encode_response(api_key, version, response))


def test_every_message_fits_every_version() -> None:
    encoder.check()


@each_version(BY_TABLES)
@settings(max_examples=max(settings().max_examples // 3, 1), suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_kio_reads_what_we_write(api_key: ApiKey, version: int, data: st.DataObject) -> None:
    schema = load_response_schema(api_key, version)
    message = build(RESPONSES[api_key], lift(api_key, version, values(data.draw(entities(schema)))))
    read = decode(schema, body(api_key, version, message))
    assert build(RESPONSES[api_key], lift(api_key, version, values(read))) == message


def test_golden_heartbeat() -> None:
    response = HeartbeatResponse(throttle_time_ms=1, error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    assert body(ApiKey.HEARTBEAT, 0, response) == b"\0\x1b"
    assert body(ApiKey.HEARTBEAT, 1, response) == b"\0\0\0\x01\0\x1b"
    assert body(ApiKey.HEARTBEAT, 4, response) == b"\0\0\0\x01\0\x1b\0"


def test_golden_api_versions() -> None:
    response = ApiVersionsResponse(api_keys=(ApiVersion(api_key=1, min_version=4, max_version=17),))
    assert body(ApiKey.API_VERSIONS, 0, response) == b"\0\0\0\0\0\x01\0\x01\0\x04\0\x11"
    assert body(ApiKey.API_VERSIONS, 3, response) == b"\0\0\x02\0\x01\0\x04\0\x11\0\0\0\0\0\0"


def test_find_coordinator_has_room_for_one_key_up_to_v3() -> None:
    one = Coordinator(key="a", node_id=2, host="h", port=9, error_code=ErrorCode.NONE)
    two = FindCoordinatorResponse(coordinators=(one, one))
    golden = b"\0\0\0\0\0\x02\0\x01h\0\0\0\x09"
    assert body(ApiKey.FIND_COORDINATOR, 0, FindCoordinatorResponse(coordinators=(one,))) == golden
    with pytest.raises(ValueError, match="one answer, not for 2"):
        encode_response(ApiKey.FIND_COORDINATOR, 3, two)
    assert encode_response(ApiKey.FIND_COORDINATOR, 4, two)


def test_leave_group_has_the_error_of_its_one_member_up_to_v2() -> None:
    member = LeaveGroupMemberResponse(member_id="m", error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    assert body(ApiKey.LEAVE_GROUP, 0, LeaveGroupResponse(members=(member,))) == b"\0\x19"
    whole = LeaveGroupResponse(error_code=ErrorCode.NOT_COORDINATOR, members=(member,))
    assert body(ApiKey.LEAVE_GROUP, 0, whole) == b"\0\x10"
    assert body(ApiKey.LEAVE_GROUP, 0, LeaveGroupResponse()) == b"\0\0"


def test_offset_fetch_v1_has_the_error_of_the_group_in_every_partition() -> None:
    partition = OffsetFetchPartitionResponse(partition_index=3, committed_offset=-1)
    topic = OffsetFetchTopicResponse(name="t", partitions=(partition,))
    group = OffsetFetchGroupResponse(group_id="g", topics=(topic,), error_code=ErrorCode.NOT_COORDINATOR)
    response = OffsetFetchResponse(groups=(group,))
    start = b"\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x03" + b"\xff" * 8 + b"\0\0"
    assert body(ApiKey.OFFSET_FETCH, 1, response) == start + b"\0\x10"
    assert body(ApiKey.OFFSET_FETCH, 2, response) == start + b"\0\0" + b"\0\x10"


@pytest.mark.parametrize(("version", "name"), [(10, ""), (11, ""), (12, None)])
def test_a_topic_without_a_name(version: int, name: str | None) -> None:
    response = MetadataResponse(brokers=(), topics=(MetadataTopicResponse(name=None),))
    read = decode(load_response_schema(ApiKey.METADATA, version), body(ApiKey.METADATA, version, response))
    assert read.topics[0].name == name


@pytest.mark.parametrize(("version", "name"), [(0, ""), (6, ""), (7, None)])
def test_a_protocol_without_a_name(version: int, name: str | None) -> None:
    read = decode(
        load_response_schema(ApiKey.JOIN_GROUP, version), body(ApiKey.JOIN_GROUP, version, JoinGroupResponse())
    )
    assert read.protocol_name == name


@pytest.mark.parametrize(
    ("api_key", "response"),
    [
        (ApiKey.HEARTBEAT, HeartbeatResponse(throttle_time_ms=2**31)),
        (ApiKey.JOIN_GROUP, JoinGroupResponse(member_id="x" * 2**15)),
        (ApiKey.JOIN_GROUP, JoinGroupResponse(generation_id=-(2**31) - 1)),
        (ApiKey.FETCH, messages.FetchResponse(session_id=2**31)),
    ],
)
def test_a_value_that_does_not_fit_is_refused(api_key: ApiKey, response: ResponseMessage) -> None:
    version = 7 if api_key is ApiKey.FETCH else 4
    with pytest.raises(ValueError, match="cannot carry"):
        encode_response(api_key, version, response)


def test_the_response_of_another_api_is_refused() -> None:
    with pytest.raises(TypeError, match="HeartbeatResponse does not answer FETCH"):
        encode_response(ApiKey.FETCH, 4, HeartbeatResponse())
    with pytest.raises(TypeError, match="FetchResponse does not answer HEARTBEAT"):
        encode_response(ApiKey.HEARTBEAT, 4, messages.FetchResponse())
