"""Limits a broker's answer to ApiVersions to the APIs that the mesh serves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from struct import Struct
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from mesh.wire.apis import ApiKey, is_flexible
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import Buffer
from mesh.wire.reader import INT32, NO_TAG, tag_size
from mesh.wire.spans import Spans, encoded_count
from mesh.wire.transaction_levels import SECOND_PROTOCOL, TRANSACTIONS

Raise: TypeAlias = Callable[[Mapping[int, tuple[int, int]]], Mapping[int, tuple[int, int]]]
"""Returns the versions that the mesh can serve by API key, from the versions of the broker."""

_RANGE: Final = Struct(">hh")
_ENTRY: Final = Struct(">hhh")
_THROTTLE_TIME: Final = 4
_SUPPORTED: Final = 0
"""The tag of the supported features."""
_FINALIZED: Final = 2
"""The tag of the finalized features."""
_FIXED: Final[Mapping[int, int]] = MappingProxyType({1: 8, 3: 1})
"""The sizes of the epoch of the finalized features, and of a boolean about ZooKeeper, by tag."""
_LEVELS: Final = Struct(">hh")
"""The highest and the lowest level of a feature, in this order."""


class _Entry(NamedTuple):
    """An API in the answer: its key, its versions, and the beginning and end of its entry."""

    api_key: int
    lowest: int
    highest: int
    start: int
    end: int


class _Answer:
    """An ApiVersions response frame without its length, read up to the array of APIs.

    Its header has no tagged fields in any version (KIP-511). A broker that does not know the requested version answers
    in v0.
    """

    def __init__(self, version: int, answer: memoryview) -> None:
        self.spans: Final = Spans(answer, INT32.size)
        is_refused = self.spans.int16() == ErrorCode.UNSUPPORTED_VERSION
        self.is_flexible: Final = not is_refused and is_flexible(ApiKey.API_VERSIONS, version)
        self.start: Final = self.spans.position
        self.count: Final = max(self.spans.count(_ENTRY.size + self.is_flexible, self.is_flexible), 0)
        self.entries_start: Final = self.spans.position

    def entries(self) -> Iterator[_Entry]:
        """Yields the entries of the array. Must be read completely, and only once."""
        spans = self.spans
        for _ in range(self.count):
            start = spans.position
            spans.skip(_ENTRY.size)
            api_key, lowest, highest = _ENTRY.unpack_from(spans.frame, start)
            if self.is_flexible:
                spans.skip_tagged_fields()
            yield _Entry(api_key, lowest, highest, start, spans.position)


def limited(
    version: int, answer: memoryview, served: Mapping[ApiKey, tuple[int, int]], raise_versions: Raise | None = None
) -> list[Buffer]:
    """Returns the answer with its length in front, limited to versions that the mesh also serves. Level 2 of
    transactions is kept only if all of its versions are served, because clients with a feature do not check versions.
    Everything else is unchanged.

    version: the version of the request. answer: a whole response frame without its length. raise_versions: returns
    additional versions, given those of the broker; APIs that the broker does not list are appended. Raises
    ProtocolError.
    """
    read = _Answer(version, answer)
    left_out = 0
    by_key = {int(api_key): versions for api_key, versions in served.items()}
    entries = list(read.entries())
    theirs: dict[int, tuple[int, int]] = {each.api_key: (each.lowest, each.highest) for each in entries}
    more = raise_versions(theirs) if raise_versions is not None else {}
    for entry in entries:
        lowest, highest = by_key.get(entry.api_key, (0, -1))
        its_lowest, its_highest = more.get(entry.api_key, (entry.lowest, entry.highest))
        both = max(lowest, its_lowest), min(highest, its_highest)
        if both[0] > both[1]:
            read.spans.replace(entry.start, entry.end, b"")
            left_out += 1
        elif both != (entry.lowest, entry.highest):
            read.spans.replace(entry.start + 2, entry.start + _ENTRY.size, _RANGE.pack(*both))
    added = [(key, *each) for key, each in more.items() if key not in theirs and key in by_key]
    if added:
        tags = b"\0" if read.is_flexible else b""
        end = entries[-1].end
        read.spans.replace(end, end, b"".join(_ENTRY.pack(*each) + tags for each in added))
    if read.is_flexible and any(key in served and served[key][1] < first for key, first in SECOND_PROTOCOL.items()):
        _lower_transactions(read.spans)
    if count := len(added) - left_out:
        read.spans.insert(0, read.start, read.entries_start, encoded_count(read.count + count, read.is_flexible))
    pieces = read.spans.pieces()
    return [INT32.pack(sum(map(len, pieces))), *pieces]


def _lower_transactions(spans: Spans) -> None:
    """Limits the transaction feature to level 1. Must be called after the APIs have been read."""
    spans.skip(_THROTTLE_TIME)
    tag = NO_TAG
    for _ in range(spans.tag_count()):
        tag = spans.next_tag(tag)
        size = spans.unsigned_varint()
        start = spans.position
        if tag == _FINALIZED:
            _lower_finalized(spans)
        elif tag == _SUPPORTED:
            for _ in range(spans.count(_LEVELS.size + 2, True)):
                spans.skip(max(spans.compact_length(), 0) + _LEVELS.size)
                spans.skip_tagged_fields()
        else:
            spans.skip(_FIXED.get(tag, size))
        if spans.position != start + size:
            raise tag_size(tag, size, spans.position - start)


def _lower_finalized(spans: Spans) -> None:
    for _ in range(spans.count(_LEVELS.size + 2, True)):
        name = spans.text(max(spans.compact_length(), 0))
        start = spans.position
        spans.skip(_LEVELS.size)
        if name == TRANSACTIONS:
            levels = (min(each, 1) for each in _LEVELS.unpack_from(spans.frame, start))
            spans.replace(start, spans.position, _LEVELS.pack(*levels))
        spans.skip_tagged_fields()
