"""The mesh's own requests to brokers, except Fetch: each API in the one or few versions that are needed.

Kafka 0.11 and all later versions support them. Every length in a response is checked against the received bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Final, TypeAlias
from uuid import UUID

from kio.schema.list_offsets.v2 import request as list_offsets_v2
from kio.schema.list_offsets.v4 import request as list_offsets_v4
from kio.schema.metadata.v7 import request as metadata_v7
from kio.schema.metadata.v12 import request as metadata_v12
from kio.schema.offset_for_leader_epoch.v2 import request as epoch_ends_v2
from kio.schema.types import BrokerId, TopicName
from kio.serial import entity_writer
from kio.static.primitive import i8, i32, i64

from mesh.wire.client.connection import ClientRequest, ClientResponse
from mesh.wire.errors import ProtocolError
from mesh.wire.reader import INT16, INT32, Cursor

MAX_RESPONSE_ELEMENTS: Final = 1_000_000
"""Ten times the elements in the Metadata of ten thousand partitions with three replicas each."""

FETCH: Final = 1
LIST_OFFSETS: Final = 2
METADATA: Final = 3
SASL_HANDSHAKE: Final = 17
API_VERSIONS: Final = 18
OFFSET_FOR_LEADER_EPOCH: Final = 23
SASL_AUTHENTICATE: Final = 36
EpochsAsked: TypeAlias = Mapping[str, Sequence[tuple[int, int, int]]]
Partitions: TypeAlias = Mapping[str, Sequence[tuple[int, int]]]


@dataclass(frozen=True, slots=True)
class VersionRange:
    lowest: int
    highest: int


@dataclass(frozen=True, slots=True)
class Broker:
    node_id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class PartitionLeader:
    """The leader of one partition. leader: a node id, -1 while there is no leader. epoch: -1 if it is unknown."""

    partition: int
    leader: int
    epoch: int
    error_code: int


@dataclass(frozen=True, slots=True)
class TopicLeaders:
    name: str
    topic_id: UUID | None
    error_code: int
    partitions: tuple[PartitionLeader, ...]


@dataclass(frozen=True, slots=True)
class ClusterLayout:
    """A Metadata response. cluster_id: None if the broker does not report it."""

    brokers: tuple[Broker, ...]
    topics: tuple[TopicLeaders, ...]
    cluster_id: str | None = None


def cursor_of(response: ClientResponse) -> Cursor:
    """Returns a cursor over the body of a response. It copies the bytes, so it is not for responses with records."""
    cursor = Cursor(bytes(response.frame), response.body)
    cursor.elements_left = MAX_RESPONSE_ELEMENTS
    return cursor


def api_versions_request() -> ClientRequest:
    """Makes an ApiVersions request, version 0: all brokers answer that version."""
    return ClientRequest(API_VERSIONS, 0, False, ())


def decode_api_versions(response: ClientResponse) -> Mapping[int, VersionRange]:
    """Returns the versions by API key. Raises ProtocolError."""
    cursor = cursor_of(response)
    if error := cursor.int16():
        raise ProtocolError("unexpected_response", f"ApiVersions was answered with error {error}")
    return {cursor.int16(): VersionRange(cursor.int16(), cursor.int16()) for _ in range(max(cursor.count(6), 0))}


def metadata_request(topics: Iterable[str], version: int) -> ClientRequest:
    """Makes a Metadata request in the highest of these versions up to `version`: 12 (topic ids, KIP-516), 7 (leader
    epochs, KIP-320) or 4.

    The request does not create topics.
    """
    if version >= 12:
        request: object = metadata_v12.MetadataRequest(
            topics=tuple(metadata_v12.MetadataRequestTopic(topic_id=None, name=TopicName(name)) for name in topics),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        return ClientRequest(METADATA, 12, True, (_written(request),))
    # Versions 4 to 7 have the same request.
    request = metadata_v7.MetadataRequest(
        topics=tuple(metadata_v7.MetadataRequestTopic(name=TopicName(name)) for name in topics),
        allow_auto_topic_creation=False,
    )
    return ClientRequest(METADATA, 7 if version >= 7 else 4, False, (_written(request),))


def decode_metadata(response: ClientResponse) -> ClusterLayout:
    """Decodes a Metadata response. Raises ProtocolError."""
    cursor, flexible = cursor_of(response), response.request.is_flexible
    has_epochs = response.request.api_version >= 7
    cursor.int32()  # throttle time
    brokers = tuple([_broker(cursor, flexible) for _ in range(count_of(cursor, flexible, 11))])
    cluster_id = nullable_string_of(cursor, flexible)
    cursor.int32()  # controller
    topics = tuple([_topic(cursor, flexible, has_epochs) for _ in range(count_of(cursor, flexible, 9))])
    if flexible:
        cursor.skip_tagged_fields()
    return ClusterLayout(brokers, topics, cluster_id)


def list_offsets_request(partitions: Partitions, timestamp: int, read_committed: bool, version: int) -> ClientRequest:
    """Makes a ListOffsets request in version 4, or in version 2, without leader epochs, if `version` is lower.

    partitions: partition numbers and leader epochs (-1 if unknown), by topic. timestamp: -1 for the latest offset, -2
    for the earliest.
    """
    if version < 4:
        return _older_list_offsets_request(partitions, timestamp, read_committed)
    request = list_offsets_v4.ListOffsetsRequest(
        replica_id=BrokerId(-1),
        isolation_level=i8(int(read_committed)),
        topics=tuple(
            list_offsets_v4.ListOffsetsTopic(
                name=TopicName(topic),
                partitions=tuple(
                    list_offsets_v4.ListOffsetsPartition(
                        partition_index=i32(number), current_leader_epoch=i32(epoch), timestamp=i64(timestamp)
                    )
                    for number, epoch in numbers
                ),
            )
            for topic, numbers in partitions.items()
        ),
    )
    return ClientRequest(LIST_OFFSETS, 4, False, (_written(request),))


def _older_list_offsets_request(partitions: Partitions, timestamp: int, read_committed: bool) -> ClientRequest:
    request = list_offsets_v2.ListOffsetsRequest(
        replica_id=BrokerId(-1),
        isolation_level=i8(int(read_committed)),
        topics=tuple(
            list_offsets_v2.ListOffsetsTopic(
                name=TopicName(topic),
                partitions=tuple(
                    list_offsets_v2.ListOffsetsPartition(partition_index=i32(number), timestamp=i64(timestamp))
                    for number, _ in numbers
                ),
            )
            for topic, numbers in partitions.items()
        ),
    )
    return ClientRequest(LIST_OFFSETS, 2, False, (_written(request),))


def decode_list_offsets(response: ClientResponse) -> Mapping[tuple[str, int], tuple[int, int]]:
    """Returns the error code and offset by topic and partition. Raises ProtocolError."""
    cursor, has_epochs = cursor_of(response), response.request.api_version >= 4
    cursor.int32()  # throttle time
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for _ in range(max(cursor.count(6), 0)):
        topic = cursor.string()
        for _ in range(max(cursor.count(22), 0)):
            partition, error = cursor.int32(), cursor.int16()
            cursor.int64()  # timestamp
            found[topic, partition] = error, cursor.int64()
            if has_epochs:
                cursor.int32()
    return found


def epoch_ends_request(partitions: EpochsAsked) -> ClientRequest:
    """Makes an OffsetForLeaderEpoch request in version 2 (KIP-320). partitions: by topic, partition numbers, leader
    epochs (-1 if unknown), and the epochs whose end offsets are wanted."""
    request = epoch_ends_v2.OffsetForLeaderEpochRequest(
        topics=tuple(
            epoch_ends_v2.OffsetForLeaderTopic(
                topic=TopicName(topic),
                partitions=tuple(
                    epoch_ends_v2.OffsetForLeaderPartition(
                        partition=i32(number), current_leader_epoch=i32(current), leader_epoch=i32(epoch)
                    )
                    for number, current, epoch in numbers
                ),
            )
            for topic, numbers in partitions.items()
        ),
    )
    return ClientRequest(OFFSET_FOR_LEADER_EPOCH, 2, False, (_written(request),))


def decode_epoch_ends(response: ClientResponse) -> Mapping[tuple[str, int], tuple[int, int]]:
    """Returns the error code and the end offset of the epoch by topic and partition; -1 if the log does not have the
    epoch. Raises ProtocolError."""
    cursor = cursor_of(response)
    cursor.int32()  # throttle time
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for _ in range(max(cursor.count(6), 0)):
        topic = cursor.string()
        for _ in range(max(cursor.count(18), 0)):
            error, partition = cursor.int16(), cursor.int32()
            cursor.int32()  # the epoch that ends there
            found[topic, partition] = error, cursor.int64()
    return found


def sasl_handshake_request(mechanism: str) -> ClientRequest:
    """Makes a SaslHandshake request, version 1: the SASL tokens are then sent in SaslAuthenticate (KIP-152)."""
    name = mechanism.encode()
    return ClientRequest(SASL_HANDSHAKE, 1, False, (INT16.pack(len(name)) + name,))


def decode_sasl_handshake(response: ClientResponse) -> tuple[int, tuple[str, ...]]:
    """Returns the error code, and the mechanisms of the broker. Raises ProtocolError."""
    cursor = cursor_of(response)
    error = cursor.int16()
    return error, tuple([cursor.string() for _ in range(max(cursor.count(2), 0))])


@dataclass(frozen=True, slots=True)
class SaslAnswer:
    """A broker's answer to SaslAuthenticate. lifetime_ms: the lifetime of the session (KIP-368), 0 if it does not end
    or the version does not report it."""

    error_code: int
    message: str
    token: bytes = field(repr=False)
    lifetime_ms: int


def sasl_authenticate_request(token: bytes, version: int) -> ClientRequest:
    """Makes a SaslAuthenticate request in version 0 or 1."""
    return ClientRequest(SASL_AUTHENTICATE, version, False, (INT32.pack(len(token)) + token,))


def decode_sasl_authenticate(response: ClientResponse) -> SaslAnswer:
    """Decodes a SaslAuthenticate response. Raises ProtocolError."""
    cursor = cursor_of(response)
    error, message, token = cursor.int16(), cursor.nullable_string(), cursor.byte_string()
    return SaslAnswer(error, message or "", token, cursor.int64() if response.request.api_version >= 1 else 0)


def _broker(cursor: Cursor, flexible: bool) -> Broker:
    node_id = cursor.int32()
    host = cursor.compact_string() if flexible else cursor.string()
    port = cursor.int32()
    nullable_string_of(cursor, flexible)  # rack
    if flexible:
        cursor.skip_tagged_fields()
    return Broker(node_id, host, port)


def _topic(cursor: Cursor, flexible: bool, has_epochs: bool) -> TopicLeaders:
    error = cursor.int16()
    name = nullable_string_of(cursor, flexible) or ""
    topic_id = cursor.uuid() if flexible else None
    cursor.boolean()  # is internal
    partitions = tuple([_partition(cursor, flexible, has_epochs) for _ in range(count_of(cursor, flexible, 13))])
    if flexible:
        cursor.int32()  # authorized operations
        cursor.skip_tagged_fields()
    return TopicLeaders(name, topic_id, error, partitions)


def _partition(cursor: Cursor, flexible: bool, has_epochs: bool) -> PartitionLeader:
    error, number, leader = cursor.int16(), cursor.int32(), cursor.int32()
    epoch = cursor.int32() if has_epochs else -1
    for _ in range(3 if has_epochs else 2):  # replicas, in-sync replicas, offline replicas
        for _ in range(count_of(cursor, flexible, 4)):
            cursor.int32()
    if flexible:
        cursor.skip_tagged_fields()
    return PartitionLeader(number, leader, epoch, error)


def count_of(cursor: Cursor, flexible: bool, element_size: int) -> int:
    return max(cursor.compact_count(element_size) if flexible else cursor.count(element_size), 0)


def nullable_string_of(cursor: Cursor, flexible: bool) -> str | None:
    return cursor.compact_nullable_string() if flexible else cursor.nullable_string()


def _written(request: object) -> bytes:
    body = BytesIO()
    entity_writer(type(request))(body, request)  # type: ignore[type-var]
    return body.getvalue()
