"""Decodes a batch into records, for tests and tools. The Fetch path does not decode records."""

from __future__ import annotations

from dataclasses import dataclass

from mesh.records.batch import (
    LOG_APPEND_TIME,
    CorruptBatch,
    RecordBatch,
    attributes_of,
    body_of,
    timestamps_of,
)
from mesh.records.runs import singles
from mesh.records.varints import read_varint


@dataclass(frozen=True, slots=True)
class DecodedRecord:
    """A decoded record. offset: its upstream offset. timestamp: milliseconds, -1 for none."""

    offset: int
    timestamp: int
    log_append_time: bool
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def decode_records(batch: RecordBatch) -> list[DecodedRecord]:
    """Returns all records of a batch or a run. Raises CorruptBatch."""
    return [record for single in singles(batch) for record in _records(single)]


def _records(batch: RecordBatch) -> list[DecodedRecord]:
    body = body_of(batch)
    records: list[DecodedRecord] = []
    position = 0
    try:
        for _ in range(batch.record_count):
            record, position = _record(batch, body, position)
            records.append(record)
    except (IndexError, ValueError) as problem:
        raise CorruptBatch(str(problem)) from problem
    if position != len(body):
        raise CorruptBatch(f"{len(body) - position} bytes follow the last record")
    return records


def _record(batch: RecordBatch, body: bytes, position: int) -> tuple[DecodedRecord, int]:
    appended = bool(attributes_of(batch) & LOG_APPEND_TIME)
    first_timestamp, highest = timestamps_of(batch)
    length, position = read_varint(body, position)
    elapsed, at = read_varint(body, position + 1)
    delta, at = read_varint(body, at)
    key, at = _bytes(body, at)
    value, at = _bytes(body, at)
    count, at = read_varint(body, at)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, at = _bytes(body, at)
        if name is None:
            raise CorruptBatch("a header without a name")
        content, at = _bytes(body, at)
        headers.append((name.decode(), content))
    if at != position + length:
        raise CorruptBatch(f"a record of {length} bytes ends after {at - position}")
    timestamp = highest if appended else first_timestamp + elapsed
    return DecodedRecord(batch.base + delta, timestamp, appended, key, value, tuple(headers)), at


def _bytes(body: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = read_varint(body, position)
    if length < 0:
        return None, position
    if position + length > len(body):
        raise CorruptBatch(f"{length} bytes are said to follow, {len(body) - position} do")
    return body[position : position + length], position + length
