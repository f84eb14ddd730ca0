"""Fetch v4 to v17, decoded and encoded by hand: it is most of the traffic, and its answers contain records that must
not be copied.

Changes by version (FetchRequest.json, FetchResponse.json of Apache Kafka): v5 log start offsets; v7 sessions (KIP-227);
v9 the leader epoch in requests; v11 rack and preferred replica (KIP-392); v12 the flexible encoding and
last_fetched_epoch; v13 topic ids instead of names (KIP-516); v15 the replica id becomes a tagged field (KIP-903).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Final
from uuid import UUID

from mesh.wire.apis import APIS, ApiKey, is_flexible
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import (
    Buffer,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FetchTopicResponse,
    ForgottenTopic,
)
from mesh.wire.reader import INT16, INT32, Cursor
from mesh.wire.writer import encode_unsigned_varint

_NO_ID: Final = bytes(16)
_NO_TAGGED_FIELDS: Final = b"\0"


@dataclass(frozen=True, slots=True)
class _Layout:
    """The layout of one version, with its runs of fields of fixed size. Fields that are not used here are padding.

    request: max_wait_ms, min_bytes, max_bytes, isolation_level, and with sessions session_id and session_epoch.
    partition: partition, fetch_offset, partition_max_bytes; in the flexible encoding also the first byte of the count
    of tagged fields, which consumers leave at 0.
    answer: partition, error_code, high_watermark, last_stable_offset, and log_start_offset if the version has it (the
    first `answer_values` of these); then `answer_end`.
    answer_end: no aborted transactions (an empty array, as brokers send to clients with read_committed) and no
    preferred read replica.
    after_records: the bytes after the records.
    tags, partition_tags: read the known tagged fields of a request and of its partitions, by tag. Followers send them.
    empty: a whole partition without records, as most partitions are; `empty_end` ends it.
    """

    is_flexible: bool
    has_sessions: bool
    has_rack: bool
    has_topic_ids: bool
    request: Struct
    partition: Struct
    answer: Struct
    answer_values: int
    answer_end: tuple[int, ...]
    after_records: bytes
    tags: Mapping[int, Callable[[Cursor], object]]
    partition_tags: Mapping[int, Callable[[Cursor], object]]
    empty: Struct
    empty_end: tuple[int, ...]


def decode_fetch_request(cursor: Cursor, version: int) -> FetchRequest:
    """Decodes the body of a Fetch request in a version of `APIS`; ignores trailing bytes. Raises ProtocolError."""
    layout = _LAYOUTS[version]
    max_wait_ms, min_bytes, max_bytes, isolation_level, *session = cursor.unpack(layout.request)
    session_id, session_epoch = session or (0, -1)
    topics = tuple([_topic(cursor, layout) for _ in range(_count(cursor, layout, _TOPIC_SIZE))])
    forgotten: tuple[ForgottenTopic, ...] = ()
    if layout.has_sessions:
        forgotten = tuple([_forgotten_topic(cursor, layout) for _ in range(_count(cursor, layout, _TOPIC_SIZE))])
    rack_id = _string(cursor, layout) if layout.has_rack else ""
    if layout.is_flexible:
        cursor.skip_known_tagged_fields(layout.tags)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=topics,
        forgotten_topics=forgotten,
        rack_id=rack_id,
    )


def encode_fetch_response(response: FetchResponse, version: int) -> list[Buffer]:
    """Encodes the body of a Fetch response in a version of `APIS`, in pieces. The buffers with records are not
    copied."""
    layout = _LAYOUTS[version]
    pieces: list[Buffer] = []
    head = bytearray(INT32.pack(response.throttle_time_ms))
    if layout.has_sessions:
        head += _ERROR_AND_SESSION.pack(response.error_code, response.session_id)
    head += _length(len(response.topics), layout)
    for topic in response.topics:
        head += _encode_topic(topic, layout)
        head += _length(len(topic.partitions), layout)
        for number, error, high_watermark, last_stable_offset, log_start_offset, records in topic.partitions:
            values = (number, error, high_watermark, last_stable_offset, log_start_offset)[: layout.answer_values]
            if not records:
                head += layout.empty.pack(*values, *layout.empty_end)
                continue
            head += layout.answer.pack(*values, *layout.answer_end)
            head += _length(sum(map(len, records)), layout)
            pieces.append(head)
            pieces += records
            head = bytearray(layout.after_records)
        if layout.is_flexible:
            head += _NO_TAGGED_FIELDS
    if layout.is_flexible:
        head += _NO_TAGGED_FIELDS
    if head:
        pieces.append(head)
    return pieces


def _topic(cursor: Cursor, layout: _Layout) -> FetchTopic:
    name, topic_id = _name_or_id(cursor, layout)
    partitions = _partitions(cursor, layout, _count(cursor, layout, layout.partition.size))
    if layout.is_flexible:
        cursor.skip_tagged_fields()
    return FetchTopic(name=name, topic_id=topic_id, partitions=partitions)


def _partitions(cursor: Cursor, layout: _Layout, count: int) -> tuple[FetchPartition, ...]:
    """Reads all partitions of a topic in one call, since each Fetch has dozens of them."""
    begin = cursor.position
    rows = cursor.unpack_rows(layout.partition, count)
    if not layout.is_flexible:
        return tuple([FetchPartition(partition, offset, size) for partition, offset, size in rows])
    if any([row[-1] for row in rows]):  # tagged fields, which consumers leave out; a row with them has no fixed size
        cursor.position = begin
        return tuple([_partition_with_tags(cursor, layout) for _ in range(count)])
    return tuple([FetchPartition(partition, offset, size) for partition, offset, size, _ in rows])


def _partition_with_tags(cursor: Cursor, layout: _Layout) -> FetchPartition:
    partition, offset, size, _ = cursor.unpack(layout.partition)
    cursor.position -= 1
    cursor.skip_known_tagged_fields(layout.partition_tags)
    return FetchPartition(partition, offset, size)


def _forgotten_topic(cursor: Cursor, layout: _Layout) -> ForgottenTopic:
    name, topic_id = _name_or_id(cursor, layout)
    partitions = tuple([cursor.int32() for _ in range(_count(cursor, layout, INT32.size))])
    if layout.is_flexible:
        cursor.skip_tagged_fields()
    return ForgottenTopic(name=name, topic_id=topic_id, partitions=partitions)


def _name_or_id(cursor: Cursor, layout: _Layout) -> tuple[str | None, UUID | None]:
    return (None, cursor.uuid()) if layout.has_topic_ids else (_string(cursor, layout), None)


def _string(cursor: Cursor, layout: _Layout) -> str:
    return cursor.compact_string() if layout.is_flexible else cursor.string()


def _count(cursor: Cursor, layout: _Layout, element_size: int) -> int:
    count = cursor.compact_count(element_size) if layout.is_flexible else cursor.count(element_size)
    if count < 0:
        raise ProtocolError("invalid_length", f"null instead of an array at {cursor.position}")
    return count


def _encode_topic(topic: FetchTopicResponse, layout: _Layout) -> bytes:
    if layout.has_topic_ids:
        return topic.topic_id.bytes if topic.topic_id else _NO_ID
    if topic.name is None:
        raise ValueError("this version of Fetch names topics, and this topic has no name")
    name = topic.name.encode()
    return (encode_unsigned_varint(len(name) + 1) if layout.is_flexible else INT16.pack(len(name))) + name


def _length(length: int, layout: _Layout) -> bytes:
    """Encodes the length of records or of an array, neither of which is ever null."""
    return encode_unsigned_varint(length + 1) if layout.is_flexible else INT32.pack(length)


def _layout(version: int) -> _Layout:
    flexible = is_flexible(ApiKey.FETCH, version)
    sessions, leader_epoch, log_start_offset, rack = version >= 7, version >= 9, version >= 5, version >= 11
    replica_id = "4x" if version < 15 else ""
    # last_fetched_epoch and log_start_offset, which followers send, are padding.
    epochs = "4x8x" if flexible else "8x" if log_start_offset else ""
    answer = f">ihqq{'q' if log_start_offset else ''}{'b' if flexible else 'i'}{'i' if rack else ''}"
    answer_end = (1 if flexible else 0, *((-1,) if rack else ()))
    return _Layout(
        is_flexible=flexible,
        has_sessions=sessions,
        has_rack=rack,
        has_topic_ids=version >= 13,
        request=Struct(f">{replica_id}iiib{'ii' if sessions else ''}"),
        partition=Struct(f">i{'4x' if leader_epoch else ''}q{epochs}i{'B' if flexible else ''}"),
        answer=Struct(answer),
        answer_values=5 if log_start_offset else 4,
        answer_end=answer_end,
        after_records=_NO_TAGGED_FIELDS if flexible else b"",
        tags={tag: read for first, tag, read in _TAGS if first <= version},
        partition_tags={tag: read for first, tag, read in _PARTITION_TAGS if first <= version},
        empty=Struct(answer + ("bb" if flexible else "i")),
        empty_end=(*answer_end, *((1, 0) if flexible else (0,))),
    )


_TOPIC_SIZE: Final = 3
"""The fewest bytes of a topic in the flexible encoding: an empty name, no partitions, no tagged fields."""

_REPLICA_STATE: Final = Struct(">iq")


def _replica_state(cursor: Cursor) -> None:
    cursor.unpack(_REPLICA_STATE)
    cursor.skip_tagged_fields()


_TAGS: Final = ((12, 0, Cursor.compact_nullable_string), (15, 1, _replica_state))
"""The first version, the tag and the reader of cluster_id and replica_state."""
_PARTITION_TAGS: Final = ((17, 0, Cursor.uuid), (18, 1, Cursor.int64))
"""The same for replica_directory_id and high_watermark."""

_ERROR_AND_SESSION: Final = Struct(">hi")

_LAYOUTS: Final = {version: _layout(version) for version in APIS[ApiKey.FETCH].all()}
