"""Topics in what members of classic groups tell each other, which brokers pass on unread (KIP-559 says what it is).

Consumers' subscriptions and assignments have names of topics in them. What others write there stays as it is: Kafka
Connect, for one. Older versions of SyncGroup do not say who writes; what has the form of an assignment is one there.

A group may have topics of several clusters. Where names differ, its home is told those of others with `ELSEWHERE` in
front, so that no two are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from mesh.wire.apis import ApiKey
from mesh.wire.entities import Side
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import Buffer
from mesh.wire.reader import INT16, INT32, Cursor
from mesh.wire.trees import Tree

CONSUMER: Final = "consumer"
"""The protocol type of groups of consumers, and of those of Kafka Streams."""

Rename: TypeAlias = Callable[[str], str | None]
"""The other name of a topic. None: it has none there, and is left out."""

ELSEWHERE: Final = "another-cluster/"
"""No topic can be called so."""

_HIGHEST_VERSION: Final = 3
"""Of both."""
_LONGEST: Final = 249
"""Characters of the name of a topic."""


def at_home(topic: Rename) -> Rename:
    """What the home of a group calls all topics, also those that are not its own. topic: None for these."""

    def called(name: str) -> str | None:
        own = topic(name)
        if own is not None:
            return own
        return f"{ELSEWHERE}{name}" if len(name) <= _LONGEST else None

    return called


def from_home(topic: Rename) -> Rename:
    """What clients call them. topic: of those that are the home's own."""
    return lambda name: name.removeprefix(ELSEWHERE) if name.startswith(ELSEWHERE) else topic(name)


def with_other_topics(api_key: ApiKey, side: Side, message: Tree, protocol_type: str | None, rename: Rename) -> Tree:
    """A message of a classic group with other names in what its members wrote.

    protocol_type: of the group, where it is known and the message does not say it.
    """
    match api_key, side:
        case ApiKey.JOIN_GROUP, Side.REQUEST:
            return _changed(message, "protocols", "metadata", message["protocol_type"], renamed_subscription, rename)
        case ApiKey.JOIN_GROUP, Side.RESPONSE:
            return _changed(message, "members", "metadata", protocol_type, renamed_subscription, rename)
        case ApiKey.SYNC_GROUP, Side.REQUEST:
            return _changed(message, "assignments", "assignment", protocol_type, renamed_assignment, rename)
        case ApiKey.SYNC_GROUP, Side.RESPONSE if protocol_type in (CONSUMER, None):
            return message | {"assignment": renamed_assignment(message["assignment"], rename)}
        case ApiKey.DESCRIBE_GROUPS, Side.RESPONSE:
            return message | {"groups": [_described(group, rename) for group in message["groups"]]}
        case _:
            return message


def renamed_subscription(subscription: Buffer, rename: Rename) -> bytes:
    """A ConsumerProtocolSubscription; bytes that are none stay as they are."""
    return _renamed(subscription, rename, _subscription)


def subscribed_topics(subscription: Buffer) -> list[str]:
    """The topics of a ConsumerProtocolSubscription; none of bytes that are none."""
    cursor = Cursor(bytes(subscription))
    try:
        if not 0 <= cursor.int16() <= _HIGHEST_VERSION:
            return []
        return [cursor.string() for _ in range(cursor.count(2))]
    except ProtocolError:
        return []


def renamed_assignment(assignment: Buffer, rename: Rename) -> bytes:
    """A ConsumerProtocolAssignment; bytes that are none stay as they are."""
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
    written += cursor.data[cursor.position :]  # the generation, the rack


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
