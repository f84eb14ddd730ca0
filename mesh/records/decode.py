"""A batch to records, for tests and tools; nothing on the Fetch path looks inside."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from struct import Struct
from typing import Final

from mesh.records.batch import COMPRESSION_MASK, HEADER_SIZE, Batch, CorruptBatch
from mesh.records.encode import LOG_APPEND_TIME
from mesh.records.varints import read_varint

_ATTRIBUTES: Final = Struct(">h")
_TIMESTAMPS: Final = Struct(">qq")
_GZIP: Final = 1


@dataclass(frozen=True, slots=True)
class Record:
    """offset: upstream. timestamp: milliseconds, -1 for none."""

    offset: int
    timestamp: int
    log_append_time: bool
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def decode_records(batch: Batch) -> list[Record]:
    """All records of an uncompressed or gzip batch. Raises CorruptBatch."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch.data, 21)
    first_timestamp, highest = _TIMESTAMPS.unpack_from(batch.data, 27)
    appended = bool(attributes & LOG_APPEND_TIME)
    match attributes & COMPRESSION_MASK:
        case 0:
            body = bytes(batch.data[HEADER_SIZE:])
        case 1:
            body = gzip.decompress(batch.data[HEADER_SIZE:])
        case codec:
            raise CorruptBatch(f"compression {codec} is not read here")
    records: list[Record] = []
    position = 0
    try:
        for _ in range(batch.record_count):
            length, position = read_varint(body, position)
            end = position + length
            elapsed, at = read_varint(body, position + 1)
            delta, at = read_varint(body, at)
            key, at = _bytes(body, at)
            value, at = _bytes(body, at)
            count, at = read_varint(body, at)
            headers: list[tuple[str, bytes | None]] = []
            for _ in range(count):
                name, at = _bytes(body, at)
                content, at = _bytes(body, at)
                headers.append(((name or b"").decode(), content))
            if at != end:
                raise CorruptBatch(f"a record of {length} bytes ends after {at - position}")
            timestamp = highest if appended else first_timestamp + elapsed
            records.append(Record(batch.base + delta, timestamp, appended, key, value, tuple(headers)))
            position = end
    except (IndexError, ValueError) as problem:
        raise CorruptBatch(str(problem)) from problem
    return records


def _bytes(body: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = read_varint(body, position)
    if length < 0:
        return None, position
    if position + length > len(body):
        raise CorruptBatch(f"{length} bytes are said to follow, {len(body) - position} do")
    return body[position : position + length], position + length
