"""Records to an uncompressed batch: what the librdkafka engine has decoded is put into words again."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, TypeAlias

from mesh.records.batch import HEADER_SIZE, LENGTH_OVERHEAD, MAGIC, Batch, seal
from mesh.records.varints import SMALL, varint

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
PlainRecord: TypeAlias = tuple[int, int, bytes | None, bytes | None, Headers | None]
"""Upstream offset, timestamp (milliseconds, -1 for none), key, value, headers."""

LOG_APPEND_TIME: Final = 0x08
"""The attribute bit that says that timestamps are those of the broker."""

_HEADER: Final = Struct(">qiibIhiqqqhii")
_NULL: Final = varint(-1)
_NO_HEADERS: Final = varint(0)


def encode_batch(base: int, records: Sequence[PlainRecord], log_append_time: bool = False) -> Batch:
    """A batch of one run of a partition, offsets ascending from `base` on, gaps allowed. Raises ValueError for none."""
    if not records:
        raise ValueError("a batch has at least one record")
    data = bytearray(HEADER_SIZE)
    first_timestamp = records[0][1]
    highest = first_timestamp
    for offset, timestamp, key, value, headers in records:
        if timestamp > highest:
            highest = timestamp
        body = _body(offset - base, timestamp - first_timestamp, key, value, headers)
        data += varint(len(body))
        data += body
    last = records[-1][0]
    _HEADER.pack_into(
        data,
        0,
        base,
        len(data) - LENGTH_OVERHEAD,
        0,
        MAGIC,
        0,
        LOG_APPEND_TIME if log_append_time else 0,
        last - base,
        first_timestamp,
        highest,
        -1,
        -1,
        -1,
        len(records),
    )
    seal(data)
    return Batch(data, base, base, last, len(records))


def _body(delta: int, elapsed: int, key: bytes | None, value: bytes | None, headers: Headers | None) -> bytes:
    parts = [b"\0", SMALL[elapsed] if 0 <= elapsed < len(SMALL) else varint(elapsed), varint(delta)]
    if key is None:
        parts.append(_NULL)
    else:
        parts += (varint(len(key)), key)
    if value is None:
        parts.append(_NULL)
    else:
        parts += (varint(len(value)), value)
    if not headers:
        parts.append(_NO_HEADERS)
    else:
        parts.append(varint(len(headers)))
        for name, content in headers:
            encoded = name.encode()
            parts += (varint(len(encoded)), encoded)
            parts += (_NULL,) if content is None else (varint(len(content)), content)
    return b"".join(parts)
