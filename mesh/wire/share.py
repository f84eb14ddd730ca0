"""ShareFetch and ShareAcknowledge v1 and v2, decoded and encoded by hand: answers contain records that must not be
copied, and requests an acknowledgement type for each record (ShareFetchRequest.json and others of Apache Kafka;
KIP-932).

All versions are flexible. v2 adds the acquire mode (KIP-1206), and the renewal of locks (KIP-1222).
"""

from __future__ import annotations

from struct import Struct
from typing import Final
from uuid import UUID

from mesh.wire.errors import ProtocolError
from mesh.wire.messages import (
    AcknowledgementBatch,
    Buffer,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    SharePartition,
    ShareTopic,
    TopicIdPartitions,
)
from mesh.wire.reader import INT32, Cursor
from mesh.wire.writer import encode_unsigned_varint

FIRST_WITH_RENEWALS: Final = 2

_LIMITS: Final = Struct(">iiiiii")
"""share_session_epoch, max_wait_ms, min_bytes, max_bytes, max_records, batch_size."""
_OFFSETS: Final = Struct(">qq")
_HEAD: Final = Struct(">ih")
_RANGE: Final = Struct(">qqhb")
"""An acquired range without tagged fields."""
_FETCHED: Final = Struct(">ihbhbiib")
"""partition_index, error_code, no error message, acknowledge_error_code, no error message, no leader (id, epoch, no
tagged fields)."""
_ACKNOWLEDGED: Final = Struct(">ihbiibb")
"""partition_index, error_code, no error message, no leader (id, epoch, no tagged fields), no tagged fields of the
partition."""
_NO_ID: Final = bytes(16)
_NO_TAGGED_FIELDS: Final = b"\0"
_NO_ENDPOINTS: Final = b"\1"
_SMALLEST_TOPIC: Final = 18
_SMALLEST_PARTITION: Final = 6
_SMALLEST_BATCH: Final = 18


def decode_share_fetch_request(cursor: Cursor, version: int) -> ShareFetchRequest:
    """Decodes the body of a ShareFetch request in a version of `APIS`. Raises ProtocolError."""
    group_id, member_id = cursor.compact_nullable_string(), cursor.compact_nullable_string()
    epoch, max_wait_ms, min_bytes, max_bytes, max_records, batch_size = cursor.unpack(_LIMITS)
    mode, is_renew_ack = (cursor.int8(), cursor.boolean()) if version >= FIRST_WITH_RENEWALS else (0, False)
    topics = _topics(cursor)
    forgotten = tuple([_forgotten_topic(cursor) for _ in range(_count(cursor, _SMALLEST_TOPIC))])
    cursor.skip_tagged_fields()
    return ShareFetchRequest(
        group_id=group_id,
        member_id=member_id,
        share_session_epoch=epoch,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        max_records=max_records,
        batch_size=batch_size,
        share_acquire_mode=mode,
        is_renew_ack=is_renew_ack,
        topics=topics,
        forgotten_topics=forgotten,
    )


def decode_share_acknowledge_request(cursor: Cursor, version: int) -> ShareAcknowledgeRequest:
    """Decodes the body of a ShareAcknowledge request in a version of `APIS`. Raises ProtocolError."""
    group_id, member_id = cursor.compact_nullable_string(), cursor.compact_nullable_string()
    epoch = cursor.int32()
    is_renew_ack = cursor.boolean() if version >= FIRST_WITH_RENEWALS else False
    topics = _topics(cursor)
    cursor.skip_tagged_fields()
    return ShareAcknowledgeRequest(
        group_id=group_id,
        member_id=member_id,
        share_session_epoch=epoch,
        is_renew_ack=is_renew_ack,
        topics=topics,
    )


def encode_share_fetch_response(response: ShareFetchResponse) -> list[Buffer]:
    """Encodes the body of a ShareFetch response, in pieces. The buffers with records are not copied."""
    pieces: list[Buffer] = []
    head = bytearray(_HEAD.pack(response.throttle_time_ms, response.error_code))
    head += _text(response.error_message)
    head += INT32.pack(response.acquisition_lock_timeout_ms)
    head += encode_unsigned_varint(len(response.topics) + 1)
    for topic in response.topics:
        head += _id(topic.topic_id)
        head += encode_unsigned_varint(len(topic.partitions) + 1)
        for each in topic.partitions:
            head += _FETCHED.pack(each.partition, each.error_code, 0, each.acknowledge_error_code, 0, -1, -1, 0)
            head += encode_unsigned_varint(sum(map(len, each.records)) + 1)
            if each.records:
                pieces.append(head)
                pieces += each.records
                head = bytearray()
            head += encode_unsigned_varint(len(each.acquired) + 1)
            for first, last, delivery_count in each.acquired:
                head += _RANGE.pack(first, last, delivery_count, 0)
            head += _NO_TAGGED_FIELDS
        head += _NO_TAGGED_FIELDS
    head += _NO_ENDPOINTS + _NO_TAGGED_FIELDS
    pieces.append(head)
    return pieces


def encode_share_acknowledge_response(response: ShareAcknowledgeResponse, version: int) -> list[Buffer]:
    """Encodes the body of a ShareAcknowledge response in a version of `APIS`."""
    body = bytearray(_HEAD.pack(response.throttle_time_ms, response.error_code))
    body += _text(response.error_message)
    if version >= FIRST_WITH_RENEWALS:
        body += INT32.pack(response.acquisition_lock_timeout_ms)
    body += encode_unsigned_varint(len(response.topics) + 1)
    for topic in response.topics:
        body += _id(topic.topic_id)
        body += encode_unsigned_varint(len(topic.partitions) + 1)
        for number, error in topic.partitions:
            body += _ACKNOWLEDGED.pack(number, error, 0, -1, -1, 0, 0)
        body += _NO_TAGGED_FIELDS
    body += _NO_ENDPOINTS + _NO_TAGGED_FIELDS
    return [body]


def _topics(cursor: Cursor) -> tuple[ShareTopic, ...]:
    return tuple([_topic(cursor) for _ in range(_count(cursor, _SMALLEST_TOPIC))])


def _topic(cursor: Cursor) -> ShareTopic:
    topic_id = cursor.uuid()
    partitions = tuple([_partition(cursor) for _ in range(_count(cursor, _SMALLEST_PARTITION))])
    cursor.skip_tagged_fields()
    return ShareTopic(topic_id=topic_id, partitions=partitions)


def _partition(cursor: Cursor) -> SharePartition:
    number = cursor.int32()
    batches = tuple([_batch(cursor) for _ in range(_count(cursor, _SMALLEST_BATCH))])
    cursor.skip_tagged_fields()
    return SharePartition(number, batches)


def _batch(cursor: Cursor) -> AcknowledgementBatch:
    first, last = cursor.unpack(_OFFSETS)
    # An array of one-byte numbers is encoded like a byte string of that length, which takes less memory.
    types = cursor.compact_byte_string()
    cursor.skip_tagged_fields()
    return AcknowledgementBatch(first, last, types)


def _forgotten_topic(cursor: Cursor) -> TopicIdPartitions:
    topic_id = cursor.uuid()
    partitions = tuple([cursor.int32() for _ in range(_count(cursor, INT32.size))])
    cursor.skip_tagged_fields()
    return TopicIdPartitions(topic_id=topic_id, partitions=partitions)


def _count(cursor: Cursor, element_size: int) -> int:
    count = cursor.compact_count(element_size)
    if count < 0:
        raise ProtocolError("invalid_length", f"null instead of an array at {cursor.position}")
    return count


def _text(text: str | None) -> bytes:
    if text is None:
        return b"\0"
    content = text.encode()
    return encode_unsigned_varint(len(content) + 1) + content


def _id(topic_id: UUID | None) -> bytes:
    return topic_id.bytes if topic_id is not None else _NO_ID
