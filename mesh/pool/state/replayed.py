"""The replay of one partition: settled offsets that are processed once more.

They stay settled in the ledger, so the committed offset and the lag do not change. A separate account has the offsets
that are left. It is stored in the metadata of the same commit
(docs/decisions/0099-a-replay-is-an-account-beside-the-ledger.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NewType

from mesh.pool.state.limiter import Bucket
from mesh.records.decode import DecodedRecord
from mesh.records.span_lists import below, common, count, within, without_span
from mesh.records.spans import Span

ReplayId = NewType("ReplayId", str)
LONGEST_ID: Final = 32
"""The most bytes of a replay's id."""
LONGEST_FILTER: Final = 256
"""The most bytes of all names and values of a filter together. They are in the commit metadata of each partition."""
MOST_RATE: Final = 1_000_000_000
"""The highest rate, in records a second."""
UNLIMITED: Final = 1 << 62
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """A filter for records. A record matches if it has all these headers (name and value), and this key. key: None for
    any."""

    headers: tuple[tuple[str, bytes], ...] = ()
    key: bytes | None = None

    @property
    def is_for_all(self) -> bool:
        return not self.headers and self.key is None

    @property
    def size(self) -> int:
        """The bytes of its names and values."""
        return sum(len(name.encode()) + len(value) for name, value in self.headers) + len(self.key or b"")

    def matches(self, record: DecodedRecord) -> bool:
        if self.key is not None and record.key != self.key:
            return False
        return all(header in record.headers for header in self.headers)


ALL: Final = RecordFilter()


@dataclass(frozen=True, slots=True)
class Replay:
    """A replay of a group. rate: records a second in each process of the mesh; None for as fast as members take them.
    begun: ms since the epoch."""

    id: ReplayId
    begun: int
    rate: int | None = None
    filter: RecordFilter = ALL


@dataclass(frozen=True, slots=True)
class StoredReplay:
    """One partition of a replay, as in the commit metadata. span: the requested offsets. total: the number of offsets
    to deliver again. left: those that are not acknowledged, ascending."""

    replay: Replay
    span: Span
    total: int
    left: tuple[Span, ...]


class Replayed:
    """The current state of a replay in one partition.

    * left: offsets that are not acknowledged again, ascending, none overlapping. All of them are settled in the ledger.
    * next: the next offset to read again. Offsets of `left` below it wait for a member, or a member holds them.
    * is_cancelled: whether nothing more is read again. Members hold the remaining records.
    * bucket: the rate limit, for all partitions of the replay; None for no limit.
    """

    __slots__ = ("bucket", "is_cancelled", "left", "next", "replay", "span", "total")

    def __init__(self, stored: StoredReplay, bucket: Bucket | None = None) -> None:
        self.bucket = bucket
        self.replay = stored.replay
        self.span = stored.span
        self.total = stored.total
        self.left = list(stored.left)
        self.next = self.left[0].first if self.left else stored.span.last + 1
        self.is_cancelled = False

    @property
    def stored(self) -> StoredReplay | None:
        """The replay as it is stored; None if no part of it needs to survive a restart."""
        if self.is_cancelled or not self.left:
            return None
        return StoredReplay(self.replay, self.span, self.total, tuple(self.left))

    @property
    def offsets_left(self) -> int:
        return count(self.left)

    def room(self, now: float) -> int:
        """Returns the number of records of the replay that may be delivered now."""
        if self.bucket is None:
            return UNLIMITED
        self.bucket.refill(now)
        return int(self.bucket.tokens + _ROUNDING)

    def took(self, records: int) -> None:
        if self.bucket is not None:
            self.bucket.tokens -= records

    @property
    def out(self) -> list[Span]:
        """The spans that were read again, or are being read, and are not acknowledged."""
        return below(self.left, self.next)

    def has(self, span: Span) -> bool:
        """Returns whether offsets of this span are left; then all of them are."""
        return any(each.first <= span.last and each.last >= span.first for each in self.left)

    def part(self, most: int) -> Span | None:
        """Returns the next span to read again, of at most `most` offsets; None if there is none."""
        for span in self.left:
            if span.last >= self.next:
                first = max(span.first, self.next)
                return Span(first, min(span.last, first + most - 1))
        return None

    def settle(self, first: int, last: int) -> bool:
        """Settles [first, last] of the replay. Returns whether that changes anything."""
        if not self.left or last < self.left[0].first or first > self.left[-1].last:
            return False
        kept = without_span(self.left, Span(first, last))
        is_news = count(kept) < count(self.left)
        self.left = kept
        return is_news

    def keep(self, spans: Iterable[Span]) -> None:
        """Drops what is left outside of these spans (ascending, none overlapping)."""
        self.left = within(self.left, spans)

    def truncate(self, offset: int) -> None:
        """Drops the remaining spans from `offset` on, where the log now has other records."""
        self.left = below(self.left, offset)

    def within(self, span: Span) -> list[Span]:
        """Returns the parts of a span that are left."""
        return [part for each in self.left if (part := common(each, span)) is not None]
