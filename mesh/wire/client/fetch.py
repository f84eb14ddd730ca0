"""Fetch as a client sends it, v10 to v13, by hand: its answers carry records, which must not be copied.

v10 is that of Kafka 2.1; v11 adds the rack (KIP-392), v12 is flexible (KIP-482), v13 has topic ids (KIP-516), by which
a topic that was made anew is told from the old one. Sessions (KIP-227) are not used: a session id of 0, epoch -1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError
from typing import Final
from uuid import UUID

from mesh.wire.client.connection import ClientRequest, ClientResponse
from mesh.wire.client.messages import FETCH
from mesh.wire.errors import ProtocolError
from mesh.wire.writer import encode_unsigned_varint

LOWEST: Final = 10
HIGHEST: Final = 13
FIRST_FLEXIBLE: Final = 12
FIRST_WITH_TOPIC_IDS: Final = 13

_START: Final = Struct(">iiiibii")
_PARTITION: Final = Struct(">iiqqi")
_PARTITION_FLEXIBLE: Final = Struct(">iiqiqib")
_ANSWER_START: Final = Struct(">ihi")
_ANSWER: Final = Struct(">ihqqq")
_ABORTED: Final = Struct(">qq")
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")


@dataclass(frozen=True, slots=True)
class FetchFrom:
    """leader_epoch: of the leader we believe in, -1 for none (KIP-320)."""

    partition: int
    leader_epoch: int
    offset: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a Fetch answer says of one partition. records: a part of the received frame, no copy."""

    topic: str | UUID
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[AbortedTransaction, ...]
    records: memoryview


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    error_code: int
    throttle_time_ms: int
    partitions: tuple[Fetched, ...]


def fetch_request(
    version: int,
    topics: Mapping[str | UUID, Sequence[FetchFrom]],
    *,
    max_wait_ms: int,
    max_bytes: int,
    read_committed: bool,
) -> ClientRequest:
    """topics: in the order in which the broker is to fill the answer; by id from v13 on, by name before."""
    flexible = version >= FIRST_FLEXIBLE
    body = bytearray(_START.pack(-1, max_wait_ms, 1, max_bytes, read_committed, 0, -1))
    body += _length(len(topics), flexible)
    for topic, partitions in topics.items():
        body += _topic_name(topic, flexible)
        body += _length(len(partitions), flexible)
        for each in partitions:
            start = (each.partition, each.leader_epoch, each.offset)
            body += (
                _PARTITION_FLEXIBLE.pack(*start, -1, -1, each.max_bytes, 0)
                if flexible
                else _PARTITION.pack(*start, -1, each.max_bytes)
            )
        if flexible:
            body += b"\0"
    body += _length(0, flexible)  # forgotten topics
    if version >= 11:
        body += _length(0, flexible) if flexible else _INT16.pack(0)  # rack
    if flexible:
        body += b"\0"
    return ClientRequest(FETCH, version, flexible, (body,))


def decode_fetch_answer(response: ClientResponse) -> FetchAnswer:
    """Raises ProtocolError."""
    version = response.request.api_version
    try:
        return _Reading(response.frame, response.body, version).answer()
    except (StructError, IndexError, ValueError) as problem:
        raise ProtocolError("truncated", f"a Fetch answer that cannot be read: {problem}") from problem


class _Reading:
    """Raises StructError, IndexError or ValueError where the bytes do not fit."""

    def __init__(self, data: memoryview, position: int, version: int) -> None:
        self._data = data
        self._position = position
        self._version = version
        self._flexible = version >= FIRST_FLEXIBLE

    def answer(self) -> FetchAnswer:
        throttle, error, _session = self._unpack(_ANSWER_START)
        partitions: list[Fetched] = []
        for _ in range(self._count(4)):
            topic = self._topic()
            for _ in range(self._count(_ANSWER.size)):
                partitions.append(self._fetched(topic))
            self._skip_tagged()
        self._skip_tagged()
        return FetchAnswer(error, throttle, tuple(partitions))

    def _fetched(self, topic: str | UUID) -> Fetched:
        partition, error, high_watermark, last_stable, log_start = self._unpack(_ANSWER)
        aborted: list[AbortedTransaction] = []
        for _ in range(self._count(_ABORTED.size)):
            aborted.append(AbortedTransaction(*self._unpack(_ABORTED)))
            self._skip_tagged()
        if self._version >= 11:
            self._position += 4  # preferred read replica: we name no rack
        length = max(self._length(), 0)
        records = self._take(length)
        self._skip_tagged()
        return Fetched(topic, partition, error, high_watermark, last_stable, log_start, tuple(aborted), records)

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
            for _ in range(self._varint()):
                self._varint()
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


def _topic_name(topic: str | UUID, flexible: bool) -> bytes:
    if isinstance(topic, UUID):
        return topic.bytes
    name = topic.encode()
    return (encode_unsigned_varint(len(name) + 1) if flexible else _INT16.pack(len(name))) + name


def _length(length: int, flexible: bool) -> bytes:
    return encode_unsigned_varint(length + 1) if flexible else _INT32.pack(length)
