"""Reads the beginning of a Produce request with records of a single partition, which is all that a union needs to
decide about it.

Clients with librdkafka send only such requests. The records are most of the request, and only empty tagged fields
follow them. So a union decides before they arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError
from typing import Final, Literal, NamedTuple

from mesh.wire.apis import ApiKey, is_flexible
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import Buffer
from mesh.wire.produce_batches import CLASSIC, FIRST_WITH_TOPIC_IDS, FLEXIBLE, Reads, text_at, without_header_tags
from mesh.wire.reader import INT16, INT32
from mesh.wire.writer import encode_unsigned_varint

LARGEST_BEGINNING: Final = 128 << 10
"""The most bytes before the records: three strings of at most 32 KiB, and tagged fields of the header."""
_LARGEST_KEPT: Final = 1 << 10
"""The most bytes before the records that are kept for a comparison with the next request."""
_FIELDS: Final = 12
"""The position after the length, key, version and correlation id of a frame."""
_ACKS_AND_TIMEOUT: Final = 6
_TOPIC_ID: Final = 16
_TAGS: Final = 3
"""The bytes after the records in flexible versions: no tagged fields of the partition, of its topic, and of the
request."""


class OnePartition(NamedTuple):
    """A Produce request for one partition, in a frame with its length in front.

    acks, transactional_id, topic: as in the request; topic is None if the version has topic ids. length_at: the
    position of the length of the records. records_at: the position of the records. size: the bytes of the records.
    is_compact: whether their length is a varint, and tagged fields follow.
    """

    acks: int
    transactional_id: str | None
    topic: str | None
    length_at: int
    records_at: int
    size: int
    is_compact: bool

    def without_records(self, beginning: memoryview) -> bytearray:
        """Returns the request without records, in a frame of its own. beginning: the first bytes of the request."""
        frame = bytearray(beginning[: self.length_at])
        frame += b"\1" + bytes(_TAGS) if self.is_compact else bytes(INT32.size)
        INT32.pack_into(frame, 0, len(frame) - INT32.size)
        return frame

    def with_records(self, changed: Sequence[Buffer], beginning: memoryview) -> list[Buffer]:
        """Returns the beginning of the request, with changed fields before the records. changed: the changed form of
        the frame without records."""
        head = bytearray(b"".join(changed))
        del head[-(1 + _TAGS) if self.is_compact else -INT32.size :]
        head += encode_unsigned_varint(self.size + 1) if self.is_compact else INT32.pack(self.size)
        INT32.pack_into(head, 0, len(head) + self.size + (_TAGS if self.is_compact else 0) - INT32.size)
        return [head, beginning[self.records_at :]]


class OnePartitionReader:
    """Reads the Produce requests of one client, like `one_partition`.

    Most requests have the same fields as the one before, except for the partition and the size of its records. Equal
    fields are not read again.
    """

    __slots__ = ("_before", "_fields", "_version")

    def __init__(self) -> None:
        self._version = -1
        self._fields = b""
        """The bytes from the client id up to the partition, of the last request in which there were few."""
        self._before: OnePartition | None = None

    def read(self, version: int, beginning: memoryview, size: int) -> OnePartition | Literal["incomplete"] | None:
        """Reads a request like `one_partition`."""
        before, fields = self._before, self._fields
        if before is not None and version == self._version and beginning[_FIELDS : _FIELDS + len(fields)] == fields:
            _, length, _ = FLEXIBLE if before.is_compact else CLASSIC
            try:
                records, at = length(beginning, before.length_at)
            except (IndexError, StructError, ProtocolError):
                return one_partition(version, beginning, size)
            acks, name, topic, length_at, _, _, is_compact = before
            again = OnePartition(acks, name, topic, length_at, at, records, is_compact)
            return _checked(again, len(beginning), size)
        found = one_partition(version, beginning, size)
        if isinstance(found, OnePartition) and found.length_at <= _LARGEST_KEPT:
            self._version, self._before = version, found
            self._fields = bytes(beginning[_FIELDS : found.length_at - INT32.size])
        return found


def one_partition(version: int, beginning: memoryview, size: int) -> OnePartition | Literal["incomplete"] | None:
    """Reads the beginning of a Produce request. beginning: its first bytes, with its length. size: the bytes of the
    whole frame. Returns None if the request has another number of partitions, has tagged fields, has text that is not
    UTF-8, or is invalid.

    Bytes are read directly and not with `Spans`, for speed: this runs for each large request of a producer through a
    union.
    """
    is_compact = is_flexible(ApiKey.PRODUCE, version)
    try:
        found = _one_partition(version, beginning, FLEXIBLE if is_compact else CLASSIC, is_compact)
    except (IndexError, StructError):
        return "incomplete"
    except UnicodeDecodeError:
        return None
    except ProtocolError as problem:
        return "incomplete" if problem.reason == "truncated" else None
    return None if found is None else _checked(found, len(beginning), size)


def _checked(found: OnePartition, come: int, size: int) -> OnePartition | Literal["incomplete"] | None:
    if found.records_at > come:
        return "incomplete"
    is_all = found.records_at + found.size + (_TAGS if found.is_compact else 0) == size
    return found if is_all and found.size > 0 else None


def _one_partition(version: int, frame: memoryview, reads: Reads, is_compact: bool) -> OnePartition | None:
    text_length, length, _ = reads
    plain, body = without_header_tags(ApiKey.PRODUCE, version, frame)
    if plain is not frame:
        return None
    size, at = text_length(frame, body)
    name = text_at(frame, at, size) if size >= 0 else None
    at += max(size, 0)
    acks: int = INT16.unpack_from(frame, at)[0]
    count, at = length(frame, at + _ACKS_AND_TIMEOUT)
    if count != 1:
        return None
    topic = None
    if version >= FIRST_WITH_TOPIC_IDS:
        at += _TOPIC_ID
    else:
        size, at = text_length(frame, at)
        if size < 0:
            return None
        topic = text_at(frame, at, size)
        at += size
    count, length_at = length(frame, at)
    if count != 1:
        return None
    length_at += INT32.size
    size, at = length(frame, length_at)
    return OnePartition(acks, name, topic, length_at, at, size, is_compact)
