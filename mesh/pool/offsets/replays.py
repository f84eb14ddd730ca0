"""The replay of a partition, as a text in the metadata of its commit.

All numbers are varints. In this order:

* the id of the replay, as its length and its bytes; the time of its begin, in ms since the epoch; the rate in records a
  second, 0 for no limit;
* the first offset of the requested span, the number of its offsets, and the number of offsets to deliver again;
* the number of headers in the filter, with the name and value of each; then 1 and the key, or 0. Each of these texts
  follows its length;
* the number of spans that are left. For each, ascending, the number of offsets between the one before (or the first
  offset) and it, and the number of its offsets.

The text takes a quarter of the room at most. If the spans do not fit, the last ones are joined, including the offsets
between them. Those are delivered once more after a restart.
"""

from __future__ import annotations

from collections.abc import Sequence

from mesh.pool.offsets.payload import ForeignMetadata, Reader, to_base64
from mesh.pool.state.replayed import (
    LONGEST_FILTER,
    LONGEST_ID,
    MOST_RATE,
    RecordFilter,
    Replay,
    ReplayId,
    StoredReplay,
)
from mesh.records.spans import Span
from mesh.records.varints import encode_varint

MOST_HEADERS = 16
LONGEST_SPAN = 20
"""The most bytes of two varints."""
LEAST_LIMIT = 2_048
"""The least characters of commit metadata for a replay. A quarter of them holds the longest filter and some spans."""


def encode_replay(stored: StoredReplay, limit: int) -> str:
    """Encodes the replay of a partition. limit: the most characters of the whole metadata."""
    replay = stored.replay
    head = bytearray()
    _put(head, replay.id.encode())
    for number in (replay.begun, replay.rate or 0, stored.span.first, len(stored.span), stored.total):
        head += encode_varint(number)
    head += encode_varint(len(replay.filter.headers))
    for name, value in replay.filter.headers:
        _put(head, name.encode())
        _put(head, value)
    head += encode_varint(int(replay.filter.key is not None))
    if replay.filter.key is not None:
        _put(head, replay.filter.key)
    return to_base64(bytes(head) + _spans(stored.left, stored.span.first, limit // 4 * 3 // 4 - len(head)))


def read_replay(payload: str) -> StoredReplay:
    """Decodes the replay of a partition. Raises ValueError or IndexError."""
    reader = Reader(payload)
    id = ReplayId(reader.name(LONGEST_ID))
    begun, rate, first, length, total = (reader.number() for _ in range(5))
    header_count = reader.number()
    if not (0 <= rate <= MOST_RATE and first >= 0 and length >= 1 and 0 <= header_count <= MOST_HEADERS):
        raise ForeignMetadata("a replay that no mesh begins")
    headers = tuple((reader.name(LONGEST_FILTER), reader.data(LONGEST_FILTER)) for _ in range(header_count))
    key = reader.data(LONGEST_FILTER) if reader.number() else None
    left = reader.runs(first, reader.number())
    if not reader.is_at_end:
        raise ForeignMetadata("something behind a replay")
    replay = Replay(id, begun, rate or None, RecordFilter(headers, key))
    return StoredReplay(replay, Span(first, first + length - 1), total, left)


def _spans(left: Sequence[Span], base: int, room: int) -> bytes:
    """Returns the spans in at most `room` bytes. The last ones are joined if they do not fit."""
    payload = bytearray()
    position, count = base, 0
    for index, span in enumerate(left):
        is_last = index == len(left) - 1
        if not is_last and len(payload) + 2 * LONGEST_SPAN > room:
            span = Span(span.first, left[-1].last)
            is_last = True
        payload += encode_varint(span.first - position) + encode_varint(len(span))
        position, count = span.last + 1, count + 1
        if is_last:
            break
    return encode_varint(count) + bytes(payload)


def _put(payload: bytearray, data: bytes) -> None:
    payload += encode_varint(len(data)) + data
