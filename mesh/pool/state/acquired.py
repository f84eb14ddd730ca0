"""What share members have acquired of a partition (KIP-932): runs of upstream offsets, each with a lock of its own.

Beside the windows of other members and the leases of batch readers this is the third way of holding records. A share
member keeps no position, so it sees upstream offsets, and settles them one by one and in any order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sortedcontainers import SortedDict

from mesh.pool.common.history import History
from mesh.pool.common.timers import Timer
from mesh.pool.state.ledger import Ledger
from mesh.records.batch import Batch
from mesh.records.sorted_spans import overlapping
from mesh.records.span_lists import without
from mesh.records.spans import Span, UpstreamPartition


@dataclass(slots=True, eq=False)
class KeptBatch:
    """The bytes of what was acquired at once, whole. batch: None once they were given up to the replay budget; then
    they are read again if somebody is to have them. runs: how many acquired runs are of them."""

    batch: Batch | None
    runs: int = 0

    @property
    def held(self) -> bool:
        return self.runs > 0

    def strip(self) -> None:
        """Give up its bytes."""
        self.batch = None


@dataclass(slots=True, eq=False)
class Acquired:
    """One run of upstream offsets that a share member has. deadline: when it loses them, unless it acknowledges them or
    renews its lock. since: when it was sent them. Both in seconds."""

    span: Span
    history: History
    kept: KeptBatch
    deadline: float
    since: float

    def __len__(self) -> int:
        return len(self.span)


@dataclass(slots=True, eq=False)
class Settling:
    """A span that a member has acknowledged, and of which it has not been told yet that it is stored: it may say so
    again. version: of the ledger, once all of it is settled; a dead letter is written before that."""

    span: Span
    version: int | None = None

    def is_stored(self, ledger: Ledger) -> bool:
        if self.version is None and ledger.is_all_settled(self.span):
            self.version = ledger.version
        return self.version is not None and ledger.is_stored(self.version, self.span.last)


class Holding:
    """What one share member holds of one partition. held: how many offsets. timer: of the lock that ends next, or of
    one that has been renewed or is not held any more."""

    __slots__ = ("_runs", "held", "settling", "timer")

    def __init__(self) -> None:
        self._runs: SortedDict[int, Acquired] = SortedDict()
        self.held = 0
        self.settling: list[Settling] = []
        self.timer: Timer | None = None

    def __iter__(self) -> Iterator[Acquired]:
        """Ascending."""
        return iter(self._runs.values())

    def __len__(self) -> int:
        return len(self._runs)

    def first(self) -> Acquired | None:
        """The lowest."""
        return self._runs.peekitem(0)[1] if self._runs else None

    def add(self, acquired: Acquired) -> None:
        """Raises ValueError for a run that begins where another one does."""
        if acquired.span.first in self._runs:
            raise ValueError(f"offset {acquired.span.first} is acquired already")
        self._runs[acquired.span.first] = acquired
        acquired.kept.runs += 1
        self.held += len(acquired)

    def missing(self, spans: Iterable[Span]) -> list[Span]:
        """What of these (ascending, apart) it does not hold."""
        wanted = list(spans)
        return without(wanted, [each.span for each in self._overlapping(wanted)])

    def take(self, spans: Iterable[Span]) -> list[Acquired]:
        """Give up these (ascending, apart), as far as they are held; as runs with their histories, ascending."""
        taken: list[Acquired] = []
        for span in spans:
            for acquired in self._overlapping([span]):
                part = Span(max(acquired.span.first, span.first), min(acquired.span.last, span.last))
                self._remove(acquired)
                for rest in without([acquired.span], [part]):
                    self.add(Acquired(rest, acquired.history, acquired.kept, acquired.deadline, acquired.since))
                taken.append(Acquired(part, acquired.history, acquired.kept, acquired.deadline, acquired.since))
        return taken

    def take_all(self) -> list[Acquired]:
        """Give up everything."""
        taken: list[Acquired] = list(self._runs.values())
        for acquired in taken:
            self._remove(acquired)
        return taken

    def renew(self, spans: Iterable[Span], deadline: float) -> None:
        """Hold these, as far as they are held, until another time."""
        for acquired in self.take(spans):
            acquired.deadline = deadline
            self.add(acquired)

    def overdue(self, now: float) -> list[Span]:
        """Those whose locks are over."""
        return [acquired.span for acquired in self if acquired.deadline <= now]

    def next_deadline(self) -> float | None:
        return min((acquired.deadline for acquired in self), default=None)

    def truncate(self, offset: int) -> int:
        """Upstream there are other records from this offset on; returns how many offsets that takes away. The bytes of
        what reaches beyond it are of the old log."""
        held = self.held
        for acquired in [each for each in self if each.span.last >= offset]:
            self._remove(acquired)
            if acquired.span.first < offset:
                span = Span(acquired.span.first, offset - 1)
                kept = KeptBatch(None)
                self.add(Acquired(span, acquired.history, kept, acquired.deadline, acquired.since))
        return held - self.held

    def _overlapping(self, spans: Iterable[Span]) -> list[Acquired]:
        return overlapping(self._runs, spans)

    def _remove(self, acquired: Acquired) -> None:
        del self._runs[acquired.span.first]
        acquired.kept.runs -= 1
        self.held -= len(acquired)


@dataclass(slots=True)
class ShareHoldings:
    """What makes a member a share member. by_partition: what it has acquired, or had. has_session: whether it fetches
    by a share session at the moment; until that ends it is a member, whatever its group says."""

    by_partition: dict[UpstreamPartition, Holding] = field(default_factory=dict)
    has_session: bool = False

    def of(self, source: UpstreamPartition) -> Holding:
        return self.by_partition.setdefault(source, Holding())
