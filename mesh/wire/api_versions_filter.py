"""A broker's answer to ApiVersions, with no more in it than is served here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from mesh.wire.apis import ApiKey, is_flexible
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import Buffer
from mesh.wire.reader import INT32
from mesh.wire.spans import Spans, encoded_count

Raise: TypeAlias = Callable[[Mapping[int, tuple[int, int]]], Mapping[int, tuple[int, int]]]
"""The lowest and the highest version of APIs that are served, by those that a broker serves."""

_RANGE: Final = Struct(">hh")
_ENTRY: Final = Struct(">hhh")


class _Entry(NamedTuple):
    """An API in the answer: its key, the versions, and where all of it begins and ends."""

    api_key: int
    lowest: int
    highest: int
    start: int
    end: int


class _Answer:
    """A response frame without its length, and where in it the array of APIs stands.

    Its header has no tagged fields in any version (KIP-511), and a broker that does not know the version that was asked
    for answers in that of v0.
    """

    def __init__(self, version: int, answer: memoryview) -> None:
        self.spans: Final = Spans(answer, INT32.size)
        is_refused = self.spans.int16() == ErrorCode.UNSUPPORTED_VERSION
        self.is_flexible: Final = not is_refused and is_flexible(ApiKey.API_VERSIONS, version)
        self.start: Final = self.spans.position
        self.count: Final = max(self.spans.count(_ENTRY.size + self.is_flexible, self.is_flexible), 0)
        self.entries_start: Final = self.spans.position

    def entries(self) -> Iterator[_Entry]:
        """To be taken once, all of them."""
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
    """The answer with its length in front, and in it only versions that are served too; all else as it came.

    version: that of the request. answer: a whole response frame without its length. raise_versions: what is served
    besides, by what the broker serves; APIs that it does not list come last. Raises ProtocolError.
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
    if count := len(added) - left_out:
        read.spans.insert(0, read.start, read.entries_start, encoded_count(read.count + count, read.is_flexible))
    pieces = read.spans.pieces()
    return [INT32.pack(sum(map(len, pieces))), *pieces]
