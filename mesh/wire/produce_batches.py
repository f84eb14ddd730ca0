"""Where the records stand in a Produce request that is whole, and what is said in front of them."""

from __future__ import annotations

from typing import Final, NamedTuple

from mesh.wire.apis import ApiKey, is_flexible
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import Buffer
from mesh.wire.spans import Spans

FRAME_HEADER: Final = 12
"""Length, key, version and correlation id."""
_TOPIC_ID: Final = 16
_FIRST_WITH_TOPIC_IDS: Final = 13
_SMALLEST_TOPIC: Final = 3
_SMALLEST_PARTITION: Final = 5
_TIMEOUT: Final = 4


class ProduceParts(NamedTuple):
    """acks: 0: it is not answered. is_transactional: it has a transactional id. records: where those of each partition
    begin and end in the frame."""

    acks: int
    is_transactional: bool
    records: list[tuple[int, int]]


def body_of(api_key: ApiKey, version: int, frame: memoryview) -> int:
    """Where the body of a request begins in its frame, which has its length in front. Raises ProtocolError."""
    spans = Spans(frame, FRAME_HEADER)
    _skip_text(spans, is_flexible=False)
    if is_flexible(api_key, version):
        spans.skip_tagged_fields()
    return spans.position


def client_id_in(frame: Buffer) -> str | None:
    """Of a request whose header has been read. frame: with its length."""
    spans = Spans(memoryview(frame), FRAME_HEADER)
    length = spans.int16()
    return None if length < 0 else spans.text(length)


def parts_of(version: int, frame: memoryview, body: int) -> ProduceParts:
    """frame: with its length. body: where its body begins. Raises ProtocolError."""
    spans, flexible = Spans(frame, body), is_flexible(ApiKey.PRODUCE, version)
    is_transactional = _skip_text(spans, is_flexible=flexible)
    acks = spans.int16()
    spans.skip(_TIMEOUT)
    records: list[tuple[int, int]] = []
    for _ in range(max(spans.count(_SMALLEST_TOPIC, flexible), 0)):
        if version >= _FIRST_WITH_TOPIC_IDS:
            spans.skip(_TOPIC_ID)
        else:
            _skip_text(spans, is_flexible=flexible)
        for _ in range(max(spans.count(_SMALLEST_PARTITION, flexible), 0)):
            spans.int32()
            length = spans.compact_length() if flexible else spans.int32()
            start = spans.position
            if length > 0:
                spans.skip(length)
                records.append((start, spans.position))
            if flexible:
                spans.skip_tagged_fields()
        if flexible:
            spans.skip_tagged_fields()
    if flexible:
        spans.skip_tagged_fields()
    return ProduceParts(acks, is_transactional, records)


def _skip_text(spans: Spans, *, is_flexible: bool) -> bool:
    """Whether it is there, and not null."""
    length = spans.compact_length() if is_flexible else spans.int16()
    if length < -1:
        raise ProtocolError("invalid_length", f"a text of {length} bytes at {spans.position}")
    spans.skip(max(length, 0))
    return length >= 0
