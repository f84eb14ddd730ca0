"""kio reads the mesh's requests to a broker; the mesh reads kio's answers, and refuses truncated ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from io import BytesIO
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from mesh.wire.apis import ApiKey
from mesh.wire.client import messages
from mesh.wire.client.connection import ClientRequest, ClientResponse
from mesh.wire.decoder import decode_request
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import ListOffsetsRequest, MetadataRequest
from mesh.wire.reader import Cursor

api_versions: Any = import_module("kio.schema.api_versions.v0.response")
list_offsets_v2: Any = import_module("kio.schema.list_offsets.v2.response")
epoch_ends: Any = import_module("kio.schema.offset_for_leader_epoch.v2.response")
list_offsets: Any = import_module("kio.schema.list_offsets.v4.response")
metadata_v4: Any = import_module("kio.schema.metadata.v4.response")
metadata_v7: Any = import_module("kio.schema.metadata.v7.response")
metadata_v12: Any = import_module("kio.schema.metadata.v12.response")
authenticate: Any = import_module("kio.schema.sasl_authenticate.v0.response")
authenticate_v1: Any = import_module("kio.schema.sasl_authenticate.v1.response")
handshake: Any = import_module("kio.schema.sasl_handshake.v1.response")

TOPIC_ID = UUID(int=7)
NOTHING: Any = {"throttle_time": timedelta(0)}
LAYOUT = messages.ClusterLayout(
    (messages.Broker(1, "one", 9092), messages.Broker(2, "two", 9093)),
    (
        messages.TopicLeaders(
            "orders", TOPIC_ID, 0, (messages.PartitionLeader(0, 2, 5, 0), messages.PartitionLeader(1, -1, 4, 5))
        ),
        messages.TopicLeaders("gone", None, 3, ()),
    ),
    "c",
)


def metadata(schema: Any) -> Any:
    with_ids, with_epochs = schema is metadata_v12, schema is not metadata_v4

    def topic(each: messages.TopicLeaders) -> Any:
        partitions = tuple(
            schema.MetadataResponsePartition(
                error_code=ErrorCode(leader.error_code),
                partition_index=leader.partition,
                leader_id=leader.leader,
                replica_nodes=(1, 2),
                isr_nodes=(2,),
                **({"leader_epoch": leader.epoch, "offline_replicas": ()} if with_epochs else {}),
            )
            for leader in each.partitions
        )
        extra = {"topic_id": each.topic_id} if with_ids else {}
        return schema.MetadataResponseTopic(
            error_code=ErrorCode(each.error_code), name=each.name, is_internal=False, partitions=partitions, **extra
        )

    brokers = tuple(
        schema.MetadataResponseBroker(node_id=each.node_id, host=each.host, port=each.port, rack="r")
        for each in LAYOUT.brokers
    )
    topics = tuple(map(topic, LAYOUT.topics))
    return schema.MetadataResponse(**NOTHING, brokers=brokers, cluster_id="c", controller_id=1, topics=topics)


def answered(request: ClientRequest, body: bytes) -> ClientResponse:
    return ClientResponse(request, memoryview(bytearray(body)), 0)


def encoded(response: Any) -> bytes:
    buffer = BytesIO()
    entity_writer(type(response))(buffer, response)
    return buffer.getvalue()


API_VERSIONS = api_versions.ApiVersionsResponse(
    error_code=ErrorCode(0), api_keys=(api_versions.ApiVersion(api_key=1, min_version=4, max_version=13),)
)
LIST_OFFSETS = list_offsets.ListOffsetsResponse(
    **NOTHING,
    topics=(
        list_offsets.ListOffsetsTopicResponse(
            name="orders",
            partitions=(
                list_offsets.ListOffsetsPartitionResponse(
                    partition_index=3, error_code=ErrorCode(0), timestamp=-1, offset=42, leader_epoch=1
                ),
            ),
        ),
    ),
)
EPOCH_ENDS = epoch_ends.OffsetForLeaderEpochResponse(
    **NOTHING,
    topics=(
        epoch_ends.OffsetForLeaderTopicResult(
            topic="orders",
            partitions=(
                epoch_ends.EpochEndOffset(error_code=ErrorCode(0), partition=3, leader_epoch=4, end_offset=42),
                epoch_ends.EpochEndOffset(error_code=ErrorCode(6), partition=5, leader_epoch=-1, end_offset=-1),
            ),
        ),
    ),
)
HANDSHAKE = handshake.SaslHandshakeResponse(error_code=ErrorCode(33), mechanisms=("PLAIN", "SCRAM-SHA-256"))
AUTHENTICATE = authenticate.SaslAuthenticateResponse(error_code=ErrorCode(58), error_message="no", auth_bytes=b"token")
AUTHENTICATE_V1 = authenticate_v1.SaslAuthenticateResponse(
    error_code=ErrorCode(0), error_message=None, auth_bytes=b"", session_lifetime=timedelta(minutes=1)
)
CASES: list[tuple[Any, ClientRequest, Callable[[ClientResponse], Any], Any]] = [
    (
        API_VERSIONS,
        messages.api_versions_request(),
        messages.decode_api_versions,
        {1: messages.VersionRange(4, 13)},
    ),
    (metadata(metadata_v12), messages.metadata_request(["orders"], 12), messages.decode_metadata, LAYOUT),
    (
        LIST_OFFSETS,
        messages.list_offsets_request({}, -1, True, 9),
        messages.decode_list_offsets,
        {("orders", 3): (0, 42)},
    ),
    (
        EPOCH_ENDS,
        messages.epoch_ends_request({}),
        messages.decode_epoch_ends,
        {("orders", 3): (0, 42), ("orders", 5): (6, -1)},
    ),
    (
        HANDSHAKE,
        messages.sasl_handshake_request("PLAIN"),
        messages.decode_sasl_handshake,
        (33, ("PLAIN", "SCRAM-SHA-256")),
    ),
    (
        AUTHENTICATE,
        messages.sasl_authenticate_request(b"t", 0),
        messages.decode_sasl_authenticate,
        messages.SaslAnswer(58, "no", b"token", 0),
    ),
    (
        AUTHENTICATE_V1,
        messages.sasl_authenticate_request(b"t", 1),
        messages.decode_sasl_authenticate,
        messages.SaslAnswer(0, "", b"", 60_000),
    ),
]


@pytest.mark.parametrize(("response", "request_", "decode", "expected"), CASES, ids=lambda case: type(case).__name__)
def test_responses(
    response: Any, request_: ClientRequest, decode: Callable[[ClientResponse], Any], expected: Any
) -> None:
    body = encoded(response)
    assert decode(answered(request_, body)) == expected
    for length in range(len(body)):
        with pytest.raises(ProtocolError):
            decode(answered(request_, body[:length]))


def test_older_metadata_has_no_topic_ids() -> None:
    layout = messages.decode_metadata(answered(messages.metadata_request([], 7), encoded(metadata(metadata_v7))))
    assert layout.brokers == LAYOUT.brokers
    assert [(topic.name, topic.topic_id, topic.partitions) for topic in layout.topics] == [
        (topic.name, None, topic.partitions) for topic in LAYOUT.topics
    ]


def test_the_oldest_metadata_has_no_epochs() -> None:
    layout = messages.decode_metadata(answered(messages.metadata_request([], 6), encoded(metadata(metadata_v4))))
    assert layout.brokers == LAYOUT.brokers
    assert [topic.partitions for topic in layout.topics] == [
        tuple(replace(each, epoch=-1) for each in topic.partitions) for topic in LAYOUT.topics
    ]


@pytest.mark.parametrize(("asked", "version"), [(4, 4), (6, 4), (7, 7), (9, 7), (11, 7), (12, 12), (13, 12)])
def test_metadata_requests(asked: int, version: int) -> None:
    request = messages.metadata_request(["orders", "returns"], asked)
    assert request.api_version == version
    read = decode_request(ApiKey.METADATA, version, Cursor(b"".join(map(bytes, request.body))))
    assert isinstance(read, MetadataRequest)
    assert [topic.name for topic in read.topics or ()] == ["orders", "returns"]


@pytest.mark.parametrize(("asked", "version"), [(2, 2), (3, 2), (4, 4), (10, 4)])
def test_list_offsets_requests(asked: int, version: int) -> None:
    request = messages.list_offsets_request({"orders": [(3, 5)]}, -2, True, asked)
    assert request.api_version == version
    read = decode_request(ApiKey.LIST_OFFSETS, version, Cursor(b"".join(map(bytes, request.body))))
    assert isinstance(read, ListOffsetsRequest)
    ((topic, partitions),) = [(each.name, each.partitions) for each in read.topics]
    assert (topic, partitions[0].partition_index, partitions[0].timestamp) == ("orders", 3, -2)


def test_older_list_offsets() -> None:
    body = encoded(
        list_offsets_v2.ListOffsetsResponse(
            **NOTHING,
            topics=(
                list_offsets_v2.ListOffsetsTopicResponse(
                    name="orders",
                    partitions=(
                        list_offsets_v2.ListOffsetsPartitionResponse(
                            partition_index=3, error_code=ErrorCode(0), timestamp=-1, offset=42
                        ),
                    ),
                ),
            ),
        )
    )
    request = messages.list_offsets_request({}, -1, True, 3)
    assert messages.decode_list_offsets(answered(request, body)) == {("orders", 3): (0, 42)}


def test_an_error_in_place_of_versions_is_refused() -> None:
    with pytest.raises(ProtocolError, match="35"):
        messages.decode_api_versions(answered(messages.api_versions_request(), b"\x00\x23\x00\x00\x00\x00"))
