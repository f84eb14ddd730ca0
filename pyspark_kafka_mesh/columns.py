"""Decodes record batches into Arrow columns, without a Python object for each record.

Only the beginnings of records are found one by one. All else is done for many records at once: numpy reads the varints
of one field of every record, and Arrow takes keys and values out of the bytes as they came.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from mesh.records.batch import (
    LOG_APPEND_TIME,
    CorruptBatch,
    RecordBatch,
    attributes_of,
    body_of,
    is_intact,
    timestamps_of,
)
from mesh.records.runs import singles

TOGETHER = 8 << 20
"""Bytes of uncompressed records that are decoded at once, unless one batch has more. Arrow's offsets have 31 bits."""
_LONGEST_VARINT = 10
_LARGEST_MS = (1 << 63) // 1_000 - 1
"""The most milliseconds whose microseconds fit into 63 bits; producers may send any number."""

Array: TypeAlias = Any
"""A numpy array, whose type shows neither length nor content."""
Columns: TypeAlias = Mapping[str, pa.Array]


def decode(runs: Iterable[RecordBatch], first: int, last: int, headers: bool) -> Iterator[tuple[int, Columns]]:
    """Yields the records of these runs whose offsets are in [first, last]: their number, and their key, value, offset,
    timestamp, timestampType and, if requested, headers. Each item has at least one record, and about `TOGETHER` bytes.

    Raises CorruptBatch.
    """
    batches: list[RecordBatch] = []
    bodies: list[bytes] = []
    size = 0
    for batch in chain.from_iterable(map(singles, runs)):
        if not is_intact(batch):
            raise CorruptBatch(f"the checksum of the batch at {batch.base} is not that of its bytes")
        body = body_of(batch)
        if bodies and size + len(body) > TOGETHER:
            yield from _decode(batches, bodies, first, last, headers)
            batches, bodies, size = [], [], 0
        batches.append(batch)
        bodies.append(body)
        size += len(body)
    if bodies:
        yield from _decode(batches, bodies, first, last, headers)


def _decode(
    batches: Sequence[RecordBatch], bodies: Sequence[bytes], first: int, last: int, headers: bool
) -> Iterator[tuple[int, Columns]]:
    data = b"".join([*bodies, bytes(_LONGEST_VARINT)])
    is_appended = [bool(attributes_of(batch) & LOG_APPEND_TIME) for batch in batches]
    times = [timestamps_of(batch)[appended] for batch, appended in zip(batches, is_appended, strict=True)]
    counts = np.asarray([batch.record_count for batch in batches], np.int64)
    try:
        records = _Records(
            data,
            _starts(data, [len(body) for body in bodies], [batch.record_count for batch in batches]),
            np.repeat(np.asarray([batch.base for batch in batches], np.int64), counts),
            np.repeat(np.asarray(times, np.int64), counts),
            np.repeat(np.asarray(is_appended, np.bool_), counts),
        )
        count, columns = records.columns(first, last, headers)
    except (IndexError, ValueError, pa.ArrowInvalid) as problem:
        raise CorruptBatch(str(problem)) from problem
    if count:
        yield count, columns


def _starts(data: bytes, sizes: Sequence[int], counts: Sequence[int]) -> Array:
    """Returns the position of each record, and the end of the last one. Raises ValueError and IndexError."""
    starts: list[int] = []
    add = starts.append
    end = 0
    for size, count in zip(sizes, counts, strict=True):
        position, end = end, end + size
        for _ in range(count):
            if position >= end:
                raise ValueError(f"{count} records are said to be in {size} bytes")
            add(position)
            low = data[position]
            if low < 0x80:
                position += 1 + (low >> 1)
                continue
            high = data[position + 1]
            if high < 0x80:
                position += 2 + ((high << 7 | low & 0x7F) >> 1)
                continue
            length, position = _length(data, position)
            position += length
        if position != end:
            raise ValueError(f"the records of a batch of {size} bytes end at {position - end + size}")
    add(end)
    return np.asarray(starts, np.int64)


def _length(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    for byte in data[position : position + 5]:
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value >> 1, position
    raise ValueError("a record of more bytes than there can be")


def _varints(data: Array, at: Array) -> tuple[Array, Array]:
    """Returns the numbers at these positions, and the end of each. Raises IndexError and ValueError."""
    byte = data[at]
    value = (byte & 0x7F).astype(np.uint64)
    after = at + 1
    rest = np.flatnonzero(byte >= 0x80)
    shift = 7
    while len(rest):
        if shift > 63:
            raise ValueError("a varint of more than ten bytes")
        byte = data[after[rest]]
        value[rest] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        after[rest] += 1
        rest = rest[byte >= 0x80]
        shift += 7
    half = (value >> np.uint64(1)).astype(np.int64)
    return np.where(value & np.uint64(1), ~half, half), after


def _field(data: Array, at: Array) -> tuple[Array, Array, Array]:
    """Returns the length (negative for null), start and end of fields that begin with their length."""
    length, begin = _varints(data, at)
    if len(length) and int(length.max()) > len(data):
        raise ValueError(f"a field of {int(length.max())} bytes")
    return length, begin, begin + np.maximum(length, 0)


@dataclass(frozen=True, slots=True, eq=False)
class _Records:
    """The records of some batches, by columns. starts: the position of each record in `data`, and the end of the last
    one. bases, times: the base offset and the timestamp of each record's batch. is_appended: whether that timestamp is
    the broker's."""

    data: bytes
    starts: Array
    bases: Array
    times: Array
    is_appended: Array

    def columns(self, first: int, last: int, headers: bool) -> tuple[int, Columns]:
        """Returns the number of records with offsets in [first, last], and their columns. Raises IndexError, ValueError
        and pa.ArrowInvalid."""
        bytes_ = np.frombuffer(self.data, np.uint8)
        _, at = _varints(bytes_, self.starts[:-1])
        elapsed, at = _varints(bytes_, at + 1)  # after the attributes byte
        delta, at = _varints(bytes_, at)
        offsets = self.bases + delta
        if not bool((np.diff(offsets) > 0).all()):
            raise ValueError("offsets that do not rise")
        low, high = np.searchsorted(offsets, [first, last + 1])
        wanted = slice(int(low), int(high))
        key, key_begin, at = _field(bytes_, at[wanted])
        value, value_begin, at = _field(bytes_, at)
        count, at = _varints(bytes_, at)
        found, at = _headers(self.data, bytes_, count, at, headers)
        if not np.array_equal(at, self.starts[1:][wanted]):
            raise ValueError("a record does not end where its length says")
        appended, times = self.is_appended[wanted], self.times[wanted]
        milliseconds = np.where(appended, times, times + elapsed[wanted])
        microseconds = np.clip(milliseconds, -_LARGEST_MS, _LARGEST_MS) * 1_000
        columns = {
            "key": _taken(self.data, key, key_begin),
            "value": _taken(self.data, value, value_begin),
            "offset": pa.array(offsets[wanted]),
            "timestamp": pa.array(microseconds).view(pa.timestamp("us", tz="UTC")),
            "timestampType": pa.array(appended.astype(np.int32)),
        }
        return len(appended), {**columns, **found}


def _headers(data: bytes, bytes_: Array, count: Array, at: Array, wanted: bool) -> tuple[Columns, Array]:
    """Returns the column of headers, and the end of each record's headers."""
    if len(count) and (int(count.min()) < 0 or int(count.max()) > len(data)):
        raise ValueError("a number of headers that cannot be")
    before = np.zeros(len(count) + 1, np.int64)
    np.cumsum(count, out=before[1:])
    total = int(before[-1])
    if total > len(data):
        raise ValueError(f"{total} headers")
    names, name_begins = np.empty(total, np.int64), np.empty(total, np.int64)
    values, value_begins = np.empty(total, np.int64), np.empty(total, np.int64)
    at = at.copy()
    who = np.flatnonzero(count)
    number = 0
    while len(who):
        place = before[who] + number
        names[place], name_begins[place], after = _field(bytes_, at[who])
        values[place], value_begins[place], at[who] = _field(bytes_, after)
        number += 1
        who = who[count[who] > number]
    if not wanted:
        return {}, at
    if total and int(names.min()) < 0:
        raise ValueError("a header without a name")
    structs = pa.StructArray.from_arrays(
        [_taken(data, names, name_begins).cast(pa.string()), _taken(data, values, value_begins)], ["key", "value"]
    )
    return {"headers": pa.ListArray.from_arrays(pa.array(before.astype(np.int32)), structs)}, at


def _taken(data: bytes, lengths: Array, begins: Array) -> pa.Array:
    """Returns an array of the bytes at these positions; null where the length is negative."""
    count = len(lengths)
    if not count:
        return pa.array([], pa.binary())
    cuts = np.empty(2 * count, np.int32)
    cuts[::2] = begins
    cuts[1::2] = begins + np.maximum(lengths, 0)
    # Every second piece is a field; those between are skipped.
    parts = pa.BinaryArray.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(cuts), pa.py_buffer(data)])
    if int(cuts[-1]) > len(data) or not bool((cuts[1:] >= cuts[:-1]).all()):
        raise ValueError("fields that overlap, or end beyond their batch")
    missing = lengths < 0
    indices = pa.array(np.arange(0, 2 * count, 2, dtype=np.int32), mask=missing if bool(missing.any()) else None)
    return parts.take(indices)
