"""Topic names in the subscriptions and assignments of classic groups, which brokers pass on unread (KIP-559 adds the
protocol type to these requests).

Only those of consumers contain topic names. The data of other group members, such as Kafka Connect's workers, stay
unchanged. Older versions of SyncGroup have no protocol type; data in the form of an assignment are then taken for one.

A group may have topics of several clusters. Where clients and clusters use different names, the group's home gets the
names of other clusters' topics with the prefix `FOREIGN_PREFIX`, so that no two names are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import Buffer
from mesh.wire.reader import INT16, INT32, Cursor
from mesh.wire.trees import Tree

CONSUMER: Final = "consumer"
"""The protocol type of consumer groups, including those of Kafka Streams."""

Rename: TypeAlias = Callable[[str], str | None]
"""Returns the other name of a topic; None to leave the topic out."""

FOREIGN_PREFIX: Final = "another-cluster/"
"""A prefix that no topic name can have."""

_HIGHEST_VERSION: Final = 3
"""The highest known version of subscriptions and assignments."""
_LONGEST: Final = 249
"""The most characters of a topic's name."""


def to_home_names(topic: Rename) -> Rename:
    """Returns a function that gives the home's names of all topics. topic: gives those of the home's own topics, and
    None for others."""

    def called(name: str) -> str | None:
        own = topic(name)
        if own is not None:
            return own
        return f"{FOREIGN_PREFIX}{name}" if len(name) <= _LONGEST else None

    return called


def to_client_names(topic: Rename) -> Rename:
    """Returns a function that gives the clients' names of all topics at a home. topic: gives those of the home's own
    topics."""
    return lambda name: name.removeprefix(FOREIGN_PREFIX) if name.startswith(FOREIGN_PREFIX) else topic(name)


def with_other_topics(
    api_key: ApiKey, side: Direction, message: Tree, protocol_type: str | None, rename: Rename
) -> Tree:
    """Returns a message of a classic group with other topic names in its members' subscriptions and assignments.

    protocol_type: that of the group, if it is known, for messages that do not contain it.
    """
    match api_key, side:
        case ApiKey.JOIN_GROUP, Direction.REQUEST:
            return _changed(message, "protocols", "metadata", message["protocol_type"], renamed_subscription, rename)
        case ApiKey.JOIN_GROUP, Direction.RESPONSE:
            return _changed(message, "members", "metadata", protocol_type, renamed_subscription, rename)
        case ApiKey.SYNC_GROUP, Direction.REQUEST:
            return _changed(message, "assignments", "assignment", protocol_type, renamed_assignment, rename)
        case ApiKey.SYNC_GROUP, Direction.RESPONSE if protocol_type in (CONSUMER, None):
            return message | {"assignment": renamed_assignment(message["assignment"], rename)}
        case ApiKey.DESCRIBE_GROUPS, Direction.RESPONSE:
            return message | {"groups": [_described(group, rename) for group in message["groups"]]}
        case _:
            return message


def renamed_subscription(subscription: Buffer, rename: Rename) -> bytes:
    """Renames the topics in a ConsumerProtocolSubscription. Other bytes stay as they are."""
    return _renamed(subscription, rename, _subscription)


def subscribed_topics(subscription: Buffer) -> list[str]:
    """Returns the topics of a ConsumerProtocolSubscription; none for other bytes."""
    cursor = Cursor(bytes(subscription))
    try:
        if not 0 <= cursor.int16() <= _HIGHEST_VERSION:
            return []
        return [cursor.string() for _ in range(cursor.count(2))]
    except ProtocolError:
        return []


def renamed_assignment(assignment: Buffer, rename: Rename) -> bytes:
    """Renames the topics in a ConsumerProtocolAssignment. Other bytes stay as they are."""
    return _renamed(assignment, rename, _assignment)


def _changed(
    message: Tree,
    array: str,
    field: str,
    protocol_type: str | None,
    change: Callable[[Buffer, Rename], bytes],
    rename: Rename,
) -> Tree:
    if protocol_type not in (CONSUMER, None):
        return message
    return message | {array: [each | {field: change(each[field], rename)} for each in message[array]]}


def _described(group: Tree, rename: Rename) -> Tree:
    described = _changed(group, "members", "member_metadata", group["protocol_type"], renamed_subscription, rename)
    return _changed(described, "members", "member_assignment", group["protocol_type"], renamed_assignment, rename)


_Write: TypeAlias = Callable[[int, Cursor, Rename, bytearray], None]


def _renamed(content: Buffer, rename: Rename, body: _Write) -> bytes:
    before = bytes(content)
    cursor, written = Cursor(before), bytearray()
    try:
        version = cursor.int16()
        if not 0 <= version <= _HIGHEST_VERSION:
            return before
        written += INT16.pack(version)
        body(version, cursor, rename, written)
    except ProtocolError:
        return before
    return bytes(written)


def _subscription(version: int, cursor: Cursor, rename: Rename, written: bytearray) -> None:
    names = [cursor.string() for _ in range(cursor.count(2))]
    _write_names(filter(None, map(rename, names)), written)
    _pass_bytes(cursor, written)
    if version >= 1:
        _partitions(cursor, rename, written)
    written += cursor.data[cursor.position :]  # the generation and the rack stay as they are


def _assignment(_version: int, cursor: Cursor, rename: Rename, written: bytearray) -> None:
    _partitions(cursor, rename, written)
    _pass_bytes(cursor, written)
    cursor.finish()


def _partitions(cursor: Cursor, rename: Rename, written: bytearray) -> None:
    kept: list[bytes] = []
    for _ in range(cursor.count(6)):
        name, start = rename(cursor.string()), cursor.position
        for _ in range(cursor.count(4)):
            cursor.int32()
        if name is not None:
            kept.append(_text(name) + cursor.data[start : cursor.position])
    written += INT32.pack(len(kept))
    for each in kept:
        written += each


def _pass_bytes(cursor: Cursor, written: bytearray) -> None:
    start = cursor.position
    cursor.skip_byte_string()
    written += cursor.data[start : cursor.position]


def _write_names(names: Iterable[str], written: bytearray) -> None:
    texts = [_text(name) for name in names]
    written += INT32.pack(len(texts))
    for text in texts:
        written += text


def _text(name: str) -> bytes:
    content = name.encode()
    return INT16.pack(len(content)) + content
