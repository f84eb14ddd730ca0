"""Fetch of a client, v4 to v17, encoded and decoded by hand: its answers contain records, which must not be copied.

v4 is that of Kafka 0.11, the first with batches and transactions (KIP-98). v5 adds the start of the log, v7 an error of
the whole answer, v9 the leader epoch (KIP-320). v10 allows zstd. v11 adds a rack, and a replica to read from in the
answer (KIP-392). v12 is flexible and reports truncated logs (KIP-595). v13 has topic ids (KIP-516), by which a topic
that was created again differs from the old one. v15 has no replica id. Sessions (KIP-227) are not used: session id 0,
epoch -1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError
from typing import Final
from uuid import UUID

from mesh.wire.client.connection import ClientRequest, ClientResponse
from mesh.wire.client.messages import FETCH, VersionRange
from mesh.wire.errors import ProtocolError
from mesh.wire.reader import NO_TAG, tag_order, tag_size
from mesh.wire.writer import encode_unsigned_varint

LOWEST: Final = 4
HIGHEST: Final = 17
FIRST_WITH_LOG_START: Final = 5
FIRST_WITH_SESSIONS: Final = 7
FIRST_WITH_EPOCHS: Final = 9
FIRST_WITH_RACKS: Final = 11
FIRST_FLEXIBLE: Final = 12
FIRST_WITH_TOPIC_IDS: Final = 13
FIRST_WITHOUT_REPLICA: Final = 15
FIRST_WITH_ENDPOINTS: Final = 16

_REPLICA: Final = Struct(">i")
_START: Final = Struct(">iiib")
_SESSION: Final = Struct(">ii")
_PARTITION_V4: Final = Struct(">iqi")
_PARTITION_V5: Final = Struct(">iqqi")
_PARTITION: Final = Struct(">iiqqi")
_PARTITION_FLEXIBLE: Final = Struct(">iiqiqib")
_ANSWER_START: Final = Struct(">ihi")
_ANSWER_V4: Final = Struct(">ihqq")
_ANSWER: Final = Struct(">ihqqq")
_USUAL: Final = Struct(">ihqqqBiB")
"""The usual partition of a flexible answer, up to the length of its records: no aborted transactions, and a length of
one byte."""
_EPOCH_AND_END: Final = Struct(">iq")
_LEADER: Final = Struct(">ii")
_END_AND_EPOCH: Final = Struct(">qi")
_DIVERGING_TAG: Final = 0
_LEADER_TAG: Final = 1
_SNAPSHOT_TAG: Final = 2
_ENDPOINTS_TAG: Final = 0
_SMALLEST_ENDPOINT: Final = 11
"""The fewest bytes of an endpoint: a node id, an empty host, a port, no rack, no tagged fields."""
_ABORTED: Final = Struct(">qq")
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")


@dataclass(frozen=True, slots=True)
class FetchFrom:
    """The position from which to fetch one partition. leader_epoch: the epoch of the known leader, -1 if it is unknown
    (KIP-320).

    last_epoch: the epoch of the batch before `offset`, -1 if it is unknown. From v12, a broker whose log has another
    batch there answers where the logs diverge.
    """

    partition: int
    leader_epoch: int
    offset: int
    max_bytes: int
    last_epoch: int = -1


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """The part of a Fetch answer for one partition.

    records: a slice of the received frame, not a copy. preferred_replica: the node to read from instead, -1 for none.
    diverging: the end offset of the last epoch that both logs have; None unless the log was truncated. leader: the node
    id and epoch of a newer leader that the broker knows of.
    """

    topic: str | UUID
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[AbortedTransaction, ...]
    records: memoryview
    preferred_replica: int = -1
    diverging: int | None = None
    leader: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    error_code: int
    throttle_time_ms: int
    partitions: tuple[Fetched, ...]


def version_for(served: VersionRange | None, has_ids: bool) -> int | None:
    """Returns the Fetch version to use with a broker that serves these versions. None: there is none, as before Kafka
    0.11.

    has_ids: whether the ids of all topics are known.
    """
    if served is None:
        return None
    version = min(served.highest, HIGHEST if has_ids else FIRST_WITH_TOPIC_IDS - 1)
    return version if version >= max(LOWEST, served.lowest) else None


def fetch_request(
    version: int,
    topics: Mapping[str | UUID, Sequence[FetchFrom]],
    *,
    max_wait_ms: int,
    max_bytes: int,
    read_committed: bool,
    rack: str = "",
) -> ClientRequest:
    """Makes a Fetch request. topics: in the order in which the broker is to fill the answer; by id from v13, by name
    before."""
    flexible = version >= FIRST_FLEXIBLE
    body = bytearray() if version >= FIRST_WITHOUT_REPLICA else bytearray(_REPLICA.pack(-1))
    body += _START.pack(max_wait_ms, 1, max_bytes, read_committed)
    if version >= FIRST_WITH_SESSIONS:
        body += _SESSION.pack(0, -1)
    body += _length(len(topics), flexible)
    for topic, partitions in topics.items():
        body += _topic_name(topic, flexible)
        body += _length(len(partitions), flexible)
        for each in partitions:
            body += _partition(version, each)
        if flexible:
            body += b"\0"
    if version >= FIRST_WITH_SESSIONS:
        body += _length(0, flexible)  # forgotten topics
    if version >= FIRST_WITH_RACKS:
        body += _string(rack, flexible)
    if flexible:
        body += b"\0"
    return ClientRequest(FETCH, version, flexible, (body,))


def decode_fetch_answer(response: ClientResponse) -> FetchAnswer:
    """Decodes a Fetch answer. Raises ProtocolError."""
    version = response.request.api_version
    try:
        return _Reading(response.frame, response.body, version).answer()
    except (StructError, IndexError, ValueError) as problem:
        raise ProtocolError("truncated", f"a Fetch answer that cannot be read: {problem}") from problem


class _Reading:
    """A reader of one Fetch answer. Raises StructError, IndexError or ValueError if the bytes do not fit."""

    def __init__(self, data: memoryview, position: int, version: int) -> None:
        self._data = data
        self._position = position
        self._version = version
        self._flexible = version >= FIRST_FLEXIBLE

    def answer(self) -> FetchAnswer:
        if self._version >= FIRST_WITH_SESSIONS:
            throttle, error, _session = self._unpack(_ANSWER_START)
        else:
            (throttle,), error = self._unpack(_INT32), 0
        partitions: list[Fetched] = []
        for _ in range(self._count(4)):
            topic = self._topic()
            for _ in range(self._count(_ANSWER_V4.size)):
                partitions.append((self._flexible and self._empty(topic)) or self._fetched(topic))
            self._skip_tagged()
        if self._flexible:
            self._tags()
        return FetchAnswer(error, throttle, tuple(partitions))

    def _empty(self, topic: str | UUID) -> Fetched | None:
        """Reads a partition without records, aborted transactions and tagged fields in one step; returns None for
        others. Most partitions of most answers have none of these."""
        data, position = self._data, self._position
        if len(data) - position <= _USUAL.size:
            return None
        partition, error, high_watermark, last_stable, log_start, aborted, preferred, length = _USUAL.unpack_from(
            data, position
        )
        if aborted > 1 or length > 1 or data[position + _USUAL.size]:
            return None
        self._position = position + _USUAL.size + 1
        nothing = data[position:position]
        return Fetched(topic, partition, error, high_watermark, last_stable, log_start, (), nothing, preferred)

    def _fetched(self, topic: str | UUID) -> Fetched:
        if self._version >= FIRST_WITH_LOG_START:
            partition, error, high_watermark, last_stable, log_start = self._unpack(_ANSWER)
        else:
            (partition, error, high_watermark, last_stable), log_start = self._unpack(_ANSWER_V4), -1
        aborted: list[AbortedTransaction] = []
        for _ in range(self._count(_ABORTED.size)):
            aborted.append(AbortedTransaction(*self._unpack(_ABORTED)))
            self._skip_tagged()
        preferred = self._unpack(_INT32)[0] if self._version >= FIRST_WITH_RACKS else -1
        records = self._take(max(self._length(), 0))
        diverging, leader = self._partition_tags() if self._flexible else (None, None)
        ends = (high_watermark, last_stable, log_start)
        return Fetched(topic, partition, error, *ends, tuple(aborted), records, preferred, diverging, leader)

    def _partition_tags(self) -> tuple[int | None, tuple[int, int] | None]:
        diverging: int | None = None
        leader: tuple[int, int] | None = None
        tag = NO_TAG
        for _ in range(self._varint()):
            tag = self._tag(tag)
            length = self._varint()
            start = self._position
            if tag == _DIVERGING_TAG:
                epoch, end = self._unpack(_EPOCH_AND_END)
                diverging = end if epoch >= 0 else None
                self._skip_tagged()
            elif tag == _LEADER_TAG:
                node, epoch = self._unpack(_LEADER)
                leader = (node, epoch) if node >= 0 else None
                self._skip_tagged()
            elif tag == _SNAPSHOT_TAG:
                self._unpack(_END_AND_EPOCH)
                self._skip_tagged()
            else:
                self._take(length)
            self._check_size(tag, length, start)
        return diverging, leader

    def _tags(self) -> None:
        """Skips the tagged fields of the answer."""
        tag = NO_TAG
        for _ in range(self._varint()):
            tag = self._tag(tag)
            length = self._varint()
            start = self._position
            if tag == _ENDPOINTS_TAG and self._version >= FIRST_WITH_ENDPOINTS:
                for _ in range(self._count(_SMALLEST_ENDPOINT)):
                    self._skip_endpoint()
            else:
                self._take(length)
            self._check_size(tag, length, start)

    def _skip_endpoint(self) -> None:
        self._unpack(_INT32)
        self._take(max(self._length(), 0))
        self._unpack(_INT32)
        self._take(max(self._length(), 0))
        self._skip_tagged()

    def _tag(self, previous: int) -> int:
        tag = self._varint()
        if tag <= previous:
            raise tag_order(tag, previous)
        return tag

    def _check_size(self, tag: int, size: int, start: int) -> None:
        if self._position != start + size:
            raise tag_size(tag, size, self._position - start)

    def _topic(self) -> str | UUID:
        if self._version >= FIRST_WITH_TOPIC_IDS:
            return UUID(bytes=bytes(self._take(16)))
        length = self._varint() - 1 if self._flexible else self._unpack(_INT16)[0]
        return bytes(self._take(length)).decode()

    def _count(self, element_size: int) -> int:
        count = max(self._length(), 0)
        if count * element_size > len(self._data) - self._position:
            raise ValueError(f"{count} elements announced at {self._position}")
        return count

    def _length(self) -> int:
        return self._varint() - 1 if self._flexible else int(self._unpack(_INT32)[0])

    def _take(self, length: int) -> memoryview:
        end = self._position + length
        if length < 0 or end > len(self._data):
            raise ValueError(f"{length} bytes announced at {self._position}, {len(self._data) - self._position} left")
        taken = self._data[self._position : end]
        self._position = end
        return taken

    def _skip_tagged(self) -> None:
        if self._flexible:
            tag = NO_TAG
            for _ in range(self._varint()):
                tag = self._tag(tag)
                self._take(self._varint())

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self._data[self._position]
            self._position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise ValueError(f"a varint of more than five bytes at {self._position}")

    def _unpack(self, layout: Struct) -> tuple[int, ...]:
        values = layout.unpack_from(self._data, self._position)
        self._position += layout.size
        return values


def _partition(version: int, each: FetchFrom) -> bytes:
    if version >= FIRST_FLEXIBLE:
        start = (each.partition, each.leader_epoch, each.offset)
        return _PARTITION_FLEXIBLE.pack(*start, each.last_epoch, -1, each.max_bytes, 0)
    if version >= FIRST_WITH_EPOCHS:
        return _PARTITION.pack(each.partition, each.leader_epoch, each.offset, -1, each.max_bytes)
    if version >= FIRST_WITH_LOG_START:
        return _PARTITION_V5.pack(each.partition, each.offset, -1, each.max_bytes)
    return _PARTITION_V4.pack(each.partition, each.offset, each.max_bytes)


def _topic_name(topic: str | UUID, flexible: bool) -> bytes:
    if isinstance(topic, UUID):
        return topic.bytes
    return _string(topic, flexible)


def _string(text: str, flexible: bool) -> bytes:
    encoded = text.encode()
    return (encode_unsigned_varint(len(encoded) + 1) if flexible else _INT16.pack(len(encoded))) + encoded


def _length(length: int, flexible: bool) -> bytes:
    return encode_unsigned_varint(length + 1) if flexible else _INT32.pack(length)
