"""Requests: the decoder reads what kio writes, in every version, and withstands what else a peer may send."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from struct import pack
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema

from mesh.wire import decoder
from mesh.wire.apis import ApiKey, is_flexible
from mesh.wire.decoder import decode_request
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import (
    FindCoordinatorRequest,
    JoinGroupRequest,
    LeaveGroupMember,
    LeaveGroupRequest,
    MetadataRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetFetchTopic,
)
from mesh.wire.reader import MAX_ELEMENTS, Cursor
from mesh.wire.writer import encode_unsigned_varint
from tests.wire.each_version import each_version
from tests.wire.entities import ALL_VERSIONS, BY_TABLES, encode, entities, lift, sample, values
from tests.wire.spellings import Spelling


def test_every_message_fits_every_version() -> None:
    decoder.check()


def assert_message(message: Any, expected: Mapping[str, Any]) -> None:
    """Asserts that every field has the value it was sent with, or its default if this version cannot send it."""
    for field in fields(message):
        value = getattr(message, field.name)
        if field.name not in expected:
            assert field.default is not MISSING, field.name
            assert value == field.default
        elif isinstance(value, tuple) and value and hasattr(value[0], "__slots__"):
            assert len(value) == len(expected[field.name])
            for element, sent in zip(value, expected[field.name], strict=True):
                assert_message(element, sent)
        else:
            assert value == expected[field.name], field.name


@each_version(BY_TABLES)
@settings(max_examples=max(settings().max_examples // 3, 1), suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_reads_what_kio_writes(api_key: ApiKey, version: int, data: st.DataObject) -> None:
    request = data.draw(entities(load_request_schema(api_key, version)))
    message = decode_request(api_key, version, Cursor(encode(request)))
    assert_message(message, lift(api_key, version, values(request)))


@each_version(ALL_VERSIONS)
def test_every_prefix_is_truncated_and_no_tail_is_looked_at(api_key: ApiKey, version: int) -> None:
    body = encode(sample(load_request_schema(api_key, version)))
    for end in range(len(body)):
        with pytest.raises(ProtocolError) as caught:
            decode_request(api_key, version, Cursor(body[:end]))
        assert caught.value.reason == "truncated"
    whole = decode_request(api_key, version, Cursor(body))
    for tail in (b"\0", b"\xff", b"\xff" * 100):
        assert decode_request(api_key, version, Cursor(body + tail)) == whole


def test_golden_join_group_v5() -> None:
    body = (
        b"\0\x06orders"  # group_id
        b"\0\0\xaf\xc8"  # session_timeout_ms 45000
        b"\0\x04\x93\xe0"  # rebalance_timeout_ms 300000
        b"\0\0"  # member_id ""
        b"\xff\xff"  # group_instance_id null
        b"\0\x08consumer"  # protocol_type
        b"\0\0\0\x01"  # one protocol
        b"\0\x05range"  # name
        b"\0\0\0\x02\xca\xfe"  # metadata
    )
    message = decode_request(ApiKey.JOIN_GROUP, 5, Cursor(body))
    assert isinstance(message, JoinGroupRequest)
    assert (message.group_id, message.session_timeout_ms, message.rebalance_timeout_ms) == ("orders", 45_000, 300_000)
    assert (message.member_id, message.group_instance_id, message.protocol_type) == ("", None, "consumer")
    assert [(protocol.name, protocol.metadata) for protocol in message.protocols] == [("range", b"\xca\xfe")]


def test_golden_offset_fetch_v9() -> None:
    body = (
        b"\x02"  # one group (count + 1)
        b"\x07orders"  # group_id
        b"\x03m1"  # member_id
        b"\0\0\0\x05"  # member_epoch
        b"\x02"  # one topic
        b"\x02t"  # name
        b"\x03\0\0\0\0\0\0\0\x09"  # partition_indexes 0, 9
        b"\0"  # tagged fields of the topic
        b"\x01\x07\x02ab"  # tagged fields of the group: one unknown, tag 7, two bytes
        b"\x01"  # require_stable
        b"\0"  # tagged fields of the request
    )
    assert decode_request(ApiKey.OFFSET_FETCH, 9, Cursor(body)) == OffsetFetchRequest(
        groups=(
            OffsetFetchGroup(
                group_id="orders",
                topics=(OffsetFetchTopic(name="t", partition_indexes=(0, 9)),),
                member_id="m1",
                member_epoch=5,
            ),
        ),
        require_stable=True,
    )


@pytest.mark.parametrize(
    ("api_key", "version", "body", "message"),
    [
        (ApiKey.METADATA, 0, b"\0\0\0\0", MetadataRequest(topics=None)),
        (ApiKey.METADATA, 1, b"\0\0\0\0", MetadataRequest(topics=())),
        (ApiKey.METADATA, 1, b"\xff\xff\xff\xff", MetadataRequest(topics=None)),
        (ApiKey.FIND_COORDINATOR, 0, b"\0\x01g", FindCoordinatorRequest(coordinator_keys=("g",))),
        (ApiKey.FIND_COORDINATOR, 3, b"\x02g\x01\0", FindCoordinatorRequest(key_type=1, coordinator_keys=("g",))),
        (
            ApiKey.LEAVE_GROUP,
            0,
            b"\0\x01g\0\x01m",
            LeaveGroupRequest(group_id="g", members=(LeaveGroupMember(member_id="m"),)),
        ),
        (
            ApiKey.OFFSET_FETCH,
            2,
            b"\0\x01g\xff\xff\xff\xff",
            OffsetFetchRequest(groups=(OffsetFetchGroup(group_id="g", topics=None),)),
        ),
    ],
)
def test_older_versions_have_the_shape_of_the_newest(
    api_key: ApiKey, version: int, body: bytes, message: object
) -> None:
    assert decode_request(api_key, version, Cursor(body)) == message


@pytest.mark.parametrize(
    ("api_key", "version", "body", "reason"),
    [
        pytest.param(ApiKey.METADATA, 1, b"\x7f\xff\xff\xff", "truncated", id="huge count"),
        pytest.param(ApiKey.METADATA, 9, b"\x80\x80\x80\x80\x08", "truncated", id="huge compact count"),
        pytest.param(ApiKey.METADATA, 9, b"\xff\xff\xff\xff\xff\x01", "invalid_varint", id="varint of six bytes"),
        pytest.param(ApiKey.METADATA, 0, b"\xff\xff\xff\xfe", "invalid_length", id="count -2 where none may be"),
        pytest.param(ApiKey.METADATA, 0, b"\xff\xff\xff\xff", "invalid_length", id="null array where none may be"),
        pytest.param(ApiKey.FIND_COORDINATOR, 0, b"\xff\xff", "invalid_length", id="null string where none may be"),
        pytest.param(ApiKey.FIND_COORDINATOR, 3, b"\0\0\0", "invalid_length", id="null compact string"),
        pytest.param(ApiKey.FIND_COORDINATOR, 0, b"\x7f\xff", "truncated", id="string beyond the end"),
        pytest.param(ApiKey.FIND_COORDINATOR, 3, b"\x02g\0\xff\xff\xff\xff\x07", "truncated", id="huge tagged fields"),
        pytest.param(ApiKey.METADATA, 12, b"\0\1\0\xff\xff\xff\xff\x0f", "truncated", id="-1 tagged fields"),
        pytest.param(ApiKey.FIND_COORDINATOR, 3, b"\x02g\0\x01\x05\x7f", "truncated", id="tagged field beyond the end"),
        pytest.param(
            ApiKey.FIND_COORDINATOR,
            3,
            b"\x02g\0\x01\x05\xff\xff\xff\xff\x0f",
            "truncated",
            id="tagged field of size -1",
        ),
        pytest.param(ApiKey.HEARTBEAT, 4, b"\x02g\0\0\0\x01\x02m\0", "truncated", id="no tagged fields"),
    ],
)
def test_hostile_bytes(api_key: ApiKey, version: int, body: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_request(api_key, version, Cursor(body))
    assert caught.value.reason == reason


def test_elements_are_counted_over_the_whole_request() -> None:
    # As many partitions of one topic as allowed in all: with the topic itself, one too many.
    def body(partitions: int) -> bytes:
        return b"\0\x01g" + pack(">i", 1) + b"\0\x01t" + pack(">i", partitions) + bytes(4 * partitions)

    assert decode_request(ApiKey.OFFSET_FETCH, 1, Cursor(body(MAX_ELEMENTS - 1)))
    with pytest.raises(ProtocolError) as caught:
        decode_request(ApiKey.OFFSET_FETCH, 1, Cursor(body(MAX_ELEMENTS)))
    assert caught.value.reason == "too_many_elements"


def test_tagged_fields_count_as_elements() -> None:
    count = encode_unsigned_varint(MAX_ELEMENTS + 1)
    body = b"\x02g\0" + count + b"\x05\0" * (MAX_ELEMENTS + 1)
    with pytest.raises(ProtocolError) as caught:
        decode_request(ApiKey.FIND_COORDINATOR, 3, Cursor(body))
    assert caught.value.reason == "too_many_elements"


@pytest.mark.parametrize("version", [11, 12])
def test_all_topics_as_librdkafka_asks_for_them(version: int) -> None:
    """Its count has four bytes where one is enough, from `AdminClient.list_topics()` of confluent-kafka 2.16: null, two
    booleans that are false, no tagged fields, and three bytes that no broker looks at."""
    body = (
        b"\0\0\0\0"  # librdkafka takes this for the count
        b"\x01"  # its allow_auto_topic_creation
        b"\0"  # its include_topic_authorized_operations
        b"\0"  # its tagged fields
    )
    assert decode_request(ApiKey.METADATA, version, Cursor(body)) == MetadataRequest(
        topics=None, allow_auto_topic_creation=False
    )


@each_version(ALL_VERSIONS)
def test_a_wide_varint_is_the_number_that_it_says(api_key: ApiKey, version: int) -> None:
    entity = sample(load_request_schema(api_key, version))
    assert Spelling().write(entity) == encode(entity)
    for width in (2, 5):
        wide = Spelling(width=width).write(entity)
        assert (len(wide) > len(encode(entity))) is is_flexible(api_key, version)
        assert decode_request(api_key, version, Cursor(wide)) == decode_request(
            api_key, version, Cursor(encode(entity))
        )


@pytest.mark.parametrize(
    ("api_key", "version", "body"),
    [
        pytest.param(ApiKey.METADATA, 1, b"\xff\xff\xff\xfe", id="count of -2"),
        pytest.param(ApiKey.METADATA, 1, b"\x80\0\0\0", id="the lowest count"),
        pytest.param(ApiKey.METADATA, 12, b"\xff\xff\xff\xff\x0f\1\0\0", id="compact count of -2"),
        pytest.param(ApiKey.METADATA, 12, b"\x81\x80\x80\x80\x08\1\0\0", id="the lowest compact count"),
        pytest.param(ApiKey.METADATA, 12, b"\x80\x80\x80\x80\x10\1\0\0", id="zero and a bit above the 32"),
    ],
)
def test_whatever_is_negative_is_null(api_key: ApiKey, version: int, body: bytes) -> None:
    assert decode_request(api_key, version, Cursor(body)) == MetadataRequest(topics=None)


def test_malformed_text_is_replaced() -> None:
    asked = decode_request(ApiKey.FIND_COORDINATOR, 0, Cursor(b"\0\x02\xc3\x28"))
    assert asked == FindCoordinatorRequest(coordinator_keys=("\ufffd(",))
