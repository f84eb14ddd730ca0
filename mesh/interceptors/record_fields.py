"""Converts between the records that interceptors see and records in a batch."""

from __future__ import annotations

from mesh.interceptors.spi import Reads, Record
from mesh.records.rewrite import RecordFields


def shown(fields: RecordFields, base: int) -> Record:
    delta, timestamp, key, value, headers = fields
    size = len(key or b"") + len(value or b"") + sum(len(name.encode()) + len(each or b"") for name, each in headers)
    return Record(key, value, tuple(headers), timestamp, base + delta, size)


def stored(record: Record, base: int) -> RecordFields:
    return RecordFields(record.offset - base, record.timestamp, record.key, record.value, list(record.headers))


def is_same(one: Record, other: Record) -> bool:
    return one is other or one == other


def merged(record: Record, new: Record, reads: Reads) -> Record | TypeError:
    """Returns the record with the fields that an interceptor returned. Fields that the interceptor does not see
    stay."""
    headers, timestamp = new.headers, new.timestamp
    key = new.key if reads >= Reads.KEY else record.key
    value = new.value if reads >= Reads.VALUE else record.value
    if not (_is_bytes(key) and _is_bytes(value)):
        return TypeError("key and value of a Record are bytes or None")
    if not isinstance(timestamp, int) or not -1 <= timestamp < 1 << 62:
        return TypeError("the timestamp of a Record is a number of milliseconds")
    try:
        if not all(isinstance(name, str) and _is_bytes(content) for name, content in headers):
            return TypeError("headers are pairs of a text and bytes or None")
    except (TypeError, ValueError):
        return TypeError("headers are pairs of a text and bytes or None")
    new_record = record._replace(key=key, value=value, headers=tuple(headers), timestamp=timestamp)
    return record if new_record == record else new_record


def _is_bytes(value: object) -> bool:
    return value is None or isinstance(value, bytes)
