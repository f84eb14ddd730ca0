"""The records that share members have acquired of a partition (KIP-932): runs of upstream offsets, each with its own
lock.

Records can be held in three ways: in the window of a member, by the lease of a batch reader, and so. A share member has
no position. It sees upstream offsets, and settles them one by one, in any order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sortedcontainers import SortedDict

from mesh.pool.common.history import History
from mesh.pool.common.timers import Timer
from mesh.pool.state.ledger import Ledger
from mesh.records.batch import RecordBatch
from mesh.records.sorted_spans import overlapping
from mesh.records.span_lists import below, disjoint, without
from mesh.records.spans import Span, UpstreamPartition


@dataclass(slots=True, eq=False)
class KeptBatch:
    """The whole bytes of records that were acquired together. batch: None once the replay budget has dropped the bytes;
    then they are read again before a member gets them. runs: the number of acquired runs in them."""

    batch: RecordBatch | None
    runs: int = 0

    @property
    def held(self) -> bool:
        return self.runs > 0

    def strip(self) -> None:
        """Drops the bytes."""
        self.batch = None


@dataclass(slots=True, eq=False)
class Acquired:
    """One run of upstream offsets that a share member holds. deadline: when its lock ends, unless the member
    acknowledges the offsets or renews the lock. since: when the member got it. Both are in seconds."""

    span: Span
    history: History
    kept: KeptBatch
    deadline: float
    since: float

    def __len__(self) -> int:
        return len(self.span)


@dataclass(slots=True, eq=False)
class Settling:
    """A span that a member has acknowledged, while no answer says yet that it is stored; the member may repeat the
    request. version: the version of the ledger when all of it was settled; None before. A dead letter is written before
    that."""

    span: Span
    version: int | None = None

    def is_stored(self, ledger: Ledger) -> bool:
        if self.version is None and ledger.is_all_settled(self.span):
            self.version = ledger.version
        return self.version is not None and ledger.is_stored(self.version, self.span.last)


@dataclass(slots=True, eq=False)
class CarriedOut:
    """The acknowledgements of one request that were carried out, while no answer says so; the member may repeat the
    request.

    settling: spans that it settled; at least one. released, renewed: spans that it released, and whose locks it renewed
    (ascending, none overlapping). last: the highest offset of all.
    """

    settling: list[Settling]
    released: list[Span]
    renewed: list[Span]
    last: int = field(init=False)

    def __post_init__(self) -> None:
        self.last = max(each.span.last for each in self.settling)
        self.add((), ())

    def add(self, released: Iterable[Span], renewed: Iterable[Span]) -> None:
        """Adds the releases and renewals of a repetition of the request."""
        self.released = disjoint([*self.released, *released])
        self.renewed = disjoint([*self.renewed, *renewed])
        self.last = max([self.last, *(each.last for each in (*self.released[-1:], *self.renewed[-1:]))])


class Holding:
    """The records that one share member holds of one partition.

    * held: the number of offsets.
    * carried_out: acknowledgements of which the member has no answer yet.
    * timer: the timer of the lock that ends next. That lock may have been renewed or released since.
    * node: the node whose session fetches the partition.
    """

    __slots__ = ("_runs", "carried_out", "held", "node", "timer")

    def __init__(self) -> None:
        self._runs: SortedDict[int, Acquired] = SortedDict()
        self.held = 0
        self.node = 0
        self.carried_out: list[CarriedOut] = []
        self.timer: Timer | None = None

    def __iter__(self) -> Iterator[Acquired]:
        """Yields the runs, ascending."""
        return iter(self._runs.values())

    def __len__(self) -> int:
        return len(self._runs)

    def first(self) -> Acquired | None:
        """Returns the lowest run; None if there is none."""
        return self._runs.peekitem(0)[1] if self._runs else None

    def add(self, acquired: Acquired) -> None:
        """Adds a run. Raises ValueError if another run begins at the same offset."""
        if acquired.span.first in self._runs:
            raise ValueError(f"offset {acquired.span.first} is acquired already")
        self._runs[acquired.span.first] = acquired
        acquired.kept.runs += 1
        self.held += len(acquired)

    def missing(self, spans: Iterable[Span]) -> list[Span]:
        """Returns the parts of these spans (ascending, none overlapping) that the member does not hold."""
        wanted = list(spans)
        return without(wanted, [each.span for each in self._overlapping(wanted)])

    def take(self, spans: Iterable[Span]) -> list[Acquired]:
        """Removes the held parts of these spans (ascending, none overlapping). Returns them as runs with their
        histories, ascending."""
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
        """Removes all runs, and returns them."""
        taken: list[Acquired] = list(self._runs.values())
        for acquired in taken:
            self._remove(acquired)
        return taken

    def renew(self, spans: Iterable[Span], deadline: float) -> None:
        """Sets a new deadline for the held parts of these spans."""
        for acquired in self.take(spans):
            acquired.deadline = deadline
            self.add(acquired)

    def overdue(self, now: float) -> list[Span]:
        """Returns the runs whose locks have ended."""
        return [acquired.span for acquired in self if acquired.deadline <= now]

    def next_deadline(self) -> float | None:
        return min((acquired.deadline for acquired in self), default=None)

    def note_answered(self, settled: Iterable[Settling]) -> None:
        """Notes that the member is told that these are stored, so that it has no reason to repeat them."""
        told = set(settled)
        for each in self.carried_out:
            each.settling = [one for one in each.settling if one not in told]
        self.carried_out = [each for each in self.carried_out if each.settling]

    def truncate(self, offset: int) -> int:
        """Removes everything from `offset` on, where the log now has other records. Returns the number of removed
        offsets. A run that begins below it loses its bytes, which are those of the old log."""
        held = self.held
        for request in self.carried_out:
            request.settling = [each for each in request.settling if each.span.last < offset]
            request.released, request.renewed = below(request.released, offset), below(request.renewed, offset)
        self.carried_out = [each for each in self.carried_out if each.settling]
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
    """The records of a share member, by partition. by_partition: also has partitions of which the member holds nothing
    any more. has_session: whether the member has a share session now. It stays a member until the session ends."""

    by_partition: dict[UpstreamPartition, Holding] = field(default_factory=dict)
    has_session: bool = False

    def of(self, source: UpstreamPartition) -> Holding:
        holding = self.by_partition.get(source)
        if holding is None:
            holding = self.by_partition[source] = Holding()
        return holding
