"""Requests about the members and offsets of a group: FindCoordinator, DescribeGroups and OffsetDelete, encoded by hand.
No IO.

FindCoordinator has versions 0, 1 and 2 here (1 adds a key type and an error message). DescribeGroups has versions 0 to
5: v3 can ask for authorized operations, which are not needed here, v4 adds the instance ids of static members
(KIP-345), v5 is flexible. OffsetDelete has version 0 only (Kafka 2.4).

Every length in a response is checked against the received bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from mesh.wire.client.connection import ClientRequest, ClientResponse
from mesh.wire.client.messages import Broker, VersionRange, count_of, cursor_of, nullable_string_of
from mesh.wire.errors import ProtocolError
from mesh.wire.reader import INT16, INT32, Cursor
from mesh.wire.writer import encode_unsigned_varint

FIND_COORDINATOR: Final = 10
DESCRIBE_GROUPS: Final = 15
OFFSET_DELETE: Final = 47
HIGHEST_FIND_COORDINATOR: Final = 2
HIGHEST_DESCRIBE_GROUPS: Final = 5
FIRST_WITH_AUTHORIZED_OPERATIONS: Final = 3
FIRST_WITH_INSTANCE_IDS: Final = 4
FIRST_FLEXIBLE: Final = 5
CONSUMER: Final = "consumer"
"""The protocol type of consumer groups. Groups of other types, such as Kafka Connect, do not assign partitions."""
STABLE: Final = "Stable"
"""The state in which every member has its assignment. In other states a broker reports no assignments and no
assignor."""

TopicPartition: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class FoundCoordinator:
    """The coordinator of a group, or the error if there is none. broker: meaningless with an error."""

    error_code: int
    broker: Broker


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a classic group. instance_id: None for a dynamic member, and from brokers before 2.4."""

    instance_id: str | None
    assigned: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A classic group as described by its coordinator. state: `Dead` for a group that does not exist. assignor: ""
    unless the state is `STABLE`."""

    state: str
    assignor: str
    members: tuple[GroupMember, ...]


@dataclass(frozen=True, slots=True)
class GroupAnswer:
    """The description of a group, or the error if there is none. group: meaningless with an error."""

    error_code: int
    group: GroupDescription


def find_coordinator_request(group: str, served: VersionRange | None) -> ClientRequest:
    version = min(served.highest if served else 0, HIGHEST_FIND_COORDINATOR)
    key_type = b"\0" if version >= 1 else b""  # the key type of a group
    return ClientRequest(FIND_COORDINATOR, version, False, (_string(group, False) + key_type,))


def decode_find_coordinator(response: ClientResponse) -> FoundCoordinator:
    """Decodes a FindCoordinator response. Raises ProtocolError."""
    cursor, version = cursor_of(response), response.request.api_version
    if version >= 1:
        cursor.int32()  # throttle time
    error = cursor.int16()
    if version >= 1:
        cursor.nullable_string()  # error message
    found = FoundCoordinator(error, Broker(cursor.int32(), cursor.string(), cursor.int32()))
    cursor.finish()
    return found


def describe_group_request(group: str, served: VersionRange | None) -> ClientRequest:
    """Makes a DescribeGroups request for one group, in the highest version that both sides know."""
    version = min(served.highest if served else 0, HIGHEST_DESCRIBE_GROUPS)
    flexible = version >= FIRST_FLEXIBLE
    body = (encode_unsigned_varint(2) if flexible else INT32.pack(1)) + _string(group, flexible)
    if version >= FIRST_WITH_AUTHORIZED_OPERATIONS:
        body += b"\0"
    return ClientRequest(DESCRIBE_GROUPS, version, flexible, (body + b"\0" if flexible else body,))


def decode_described_group(response: ClientResponse) -> GroupAnswer:
    """Decodes a DescribeGroups response about one group. Raises ProtocolError."""
    cursor, version = cursor_of(response), response.request.api_version
    flexible = response.request.is_flexible
    if version >= 1:
        cursor.int32()  # throttle time
    if (groups := count_of(cursor, flexible, 10)) != 1:
        raise ProtocolError("unexpected_response", f"{groups} groups were described; one was asked for")
    answer = _group(cursor, version, flexible)
    if flexible:
        cursor.skip_tagged_fields()
    cursor.finish()
    return answer


def offset_delete_request(group: str, partitions: Iterable[TopicPartition]) -> ClientRequest:
    numbers: dict[str, list[int]] = {}
    for topic, number in partitions:
        numbers.setdefault(topic, []).append(number)
    topics = (
        _string(topic, False) + INT32.pack(len(each)) + b"".join(map(INT32.pack, each))
        for topic, each in numbers.items()
    )
    body = _string(group, False) + INT32.pack(len(numbers)) + b"".join(topics)
    return ClientRequest(OFFSET_DELETE, 0, False, (body,))


def decode_offset_delete(response: ClientResponse) -> tuple[int, dict[TopicPartition, int]]:
    """Returns the top-level error code, and that of each partition. Raises ProtocolError."""
    cursor = cursor_of(response)
    error = cursor.int16()
    cursor.int32()  # throttle time
    errors: dict[TopicPartition, int] = {}
    for _ in range(max(cursor.count(6), 0)):
        topic = cursor.string()
        for _ in range(max(cursor.count(6), 0)):
            number = cursor.int32()
            errors[topic, number] = cursor.int16()
    cursor.finish()
    return error, errors


def _group(cursor: Cursor, version: int, flexible: bool) -> GroupAnswer:
    error = cursor.int16()
    _text(cursor, flexible)  # group id
    state, kind, assignor = _text(cursor, flexible), _text(cursor, flexible), _text(cursor, flexible)
    members = tuple(
        [_member(cursor, version, flexible, kind == CONSUMER) for _ in range(count_of(cursor, flexible, 5))]
    )
    if version >= FIRST_WITH_AUTHORIZED_OPERATIONS:
        cursor.int32()
    if flexible:
        cursor.skip_tagged_fields()
    return GroupAnswer(error, GroupDescription(state, assignor, members))


def _member(cursor: Cursor, version: int, flexible: bool, consumes: bool) -> GroupMember:
    _text(cursor, flexible)  # member id
    instance_id = nullable_string_of(cursor, flexible) if version >= FIRST_WITH_INSTANCE_IDS else None
    _text(cursor, flexible)  # client id
    _text(cursor, flexible)  # host
    (cursor.skip_compact_byte_string if flexible else cursor.skip_byte_string)()  # subscription
    assignment = cursor.compact_byte_string() if flexible else cursor.byte_string()
    if flexible:
        cursor.skip_tagged_fields()
    return GroupMember(instance_id, _assigned(assignment) if assignment and consumes else frozenset())


def _assigned(assignment: bytes) -> frozenset[TopicPartition]:
    """Returns the partitions in a ConsumerProtocolAssignment. Later versions of it only append fields."""
    cursor = Cursor(assignment)
    cursor.int16()  # version
    found: set[TopicPartition] = set()
    for _ in range(max(cursor.count(6), 0)):
        topic = cursor.string()
        found.update([(topic, cursor.int32()) for _ in range(max(cursor.count(4), 0))])
    return frozenset(found)


def _text(cursor: Cursor, flexible: bool) -> str:
    return cursor.compact_string() if flexible else cursor.string()


def _string(text: str, flexible: bool) -> bytes:
    encoded = text.encode()
    return (encode_unsigned_varint(len(encoded) + 1) if flexible else INT16.pack(len(encoded))) + encoded
