"""One upstream partition of a pool: its ledger, and either waiting Fetches or backlog, never both.

A Fetch and the partitions it asks for know each other, by a `PartitionFetch`; so both are described here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from sortedcontainers import SortedDict

from mesh.apis.answers import ConnectionId, Ticket
from mesh.pool.common.history import History
from mesh.pool.common.timers import Timer
from mesh.pool.state.fetch import AcquireTerms, FetchedPartition, FetchParameters
from mesh.pool.state.incarnations import Life, Shared
from mesh.pool.state.leases import Leased
from mesh.pool.state.ledger import Ledger
from mesh.pool.state.member import Member
from mesh.pool.state.released_unread import ReleasedUnread
from mesh.pool.state.slots import Slot
from mesh.pool.state.window import Available, Window
from mesh.records.batch import Batch
from mesh.records.runs import fitting
from mesh.records.sorted_spans import overlapping
from mesh.records.span_lists import without
from mesh.records.spans import Span, UpstreamPartition

NO_LIMIT = 1 << 62
"""Of offsets."""
Rank: TypeAlias = tuple[float, float, int, int]
"""Who is next: load, what it had lately, when it was served, sequence of its Fetch. The lower the sooner."""


class Violation(Exception):
    """The state of a pool contradicts itself. Its pool is closed, loudly; the process and the other pools go on."""


class Ownership(Enum):
    """ABSENT: another process's, or not assigned yet. SUSPENDED: revoked, and may come back. ACTIVE: ours."""

    UNASSIGNED = "absent"
    REVOKED = "suspended"
    ASSIGNED = "active"


@dataclass(slots=True, eq=False)
class Released:
    """A span without bytes that a member gave up; it has to be read again before anybody can have it."""

    span: Span
    history: History
    avoid: Slot | None


class Partition:
    """One upstream partition of a pool. backlog: batches that wait for a Fetch, by upstream offset; so what was given
    up stands in front of the new.

    suspects: how many of them are suspected of having killed a member.
    parked: every parked Fetch that asks for this partition; waiting: those of them that may take a batch now;
    ineligible: those that may take one as soon as there is one that is not kept for others.
    reserving: the members between two Fetches for which batches of this partition are kept.
    given: the highest upstream offset that any Fetch has had, -1 for none.
    released: spans whose bytes have to be read again. resting: such that are not to be delivered again yet.
    dead_lettering: records that are being written to the dead-letter topic.
    leased: spans that leases hold, by their first offset; some may not have been received yet. released_unread: those
    that nobody holds, and the engine will bring, but that were given up before.
    life: which log that is; another one when it begins anew, is cut off, or was another process's meanwhile.
    end: the end of the upstream log, as far as it is known.
    is_awaited: the group upstream has not told yet whose it is. is_unopened: it is ours, and cannot be read yet.
    is_full: so much was acknowledged above the lowest record that is not, that hardly more of it can be stored.
    mean_size: bytes that an offset of what was received lately had in the log; 0 if nothing was.
    locks: offsets that share members have, or that are collected for them.
    """

    __slots__ = (
        "backlog",
        "backlog_bytes",
        "backlog_offsets",
        "dead_lettering",
        "end",
        "given",
        "ineligible",
        "is_awaited",
        "is_full",
        "is_unopened",
        "leased",
        "ledger",
        "life",
        "locks",
        "mean_size",
        "ownership",
        "parked",
        "released",
        "released_unread",
        "reserving",
        "resting",
        "source",
        "suspects",
        "waiting",
    )

    def __init__(self, source: UpstreamPartition) -> None:
        self.source = source
        self.ownership = Ownership.UNASSIGNED
        self.ledger = Ledger(0)
        self.life = Life()
        self.end = 0
        self.is_awaited = True
        self.is_full = False
        self.is_unopened = False
        self.mean_size = 0.0
        self.backlog: SortedDict[int, Available] = SortedDict()
        self.backlog_bytes = 0
        self.backlog_offsets = 0
        self.suspects = 0
        self.released: SortedDict[int, Released] = SortedDict()
        self.dead_lettering: dict[int, Available] = {}
        self.leased: SortedDict[int, Leased] = SortedDict()
        self.released_unread = ReleasedUnread()
        self.resting: SortedDict[int, Released] = SortedDict()
        self.parked: dict[Fetch, PartitionFetch] = {}
        self.waiting: dict[Fetch, PartitionFetch] = {}
        self.ineligible: dict[Fetch, PartitionFetch] = {}
        self.reserving: dict[Reservation, None] = {}
        self.given = -1
        self.locks = 0

    def __repr__(self) -> str:
        return (
            f"<Partition {self.source} {self.ownership.value} backlog {len(self.backlog)} waiting {len(self.waiting)} "
            f"committable {self.ledger.committable} received {self.ledger.received}>"
        )

    def weigh(self, size: int, offsets: int) -> None:
        """So many bytes were received for so many offsets. What came last counts most."""
        mean = size / offsets
        self.mean_size = (3 * self.mean_size + mean) / 4 if self.mean_size else mean

    @property
    def is_leased(self) -> bool:
        """Whether leases hold some of it, or gave back some that was not received yet."""
        return bool(self.leased or self.released_unread)

    @property
    def is_active(self) -> bool:
        return self.ownership is Ownership.ASSIGNED

    @property
    def has_more(self) -> bool:
        """Whether records are known to be there that no member holds, or may be: a client must not take what it was
        given for all there is. What another process has of the topic does not count."""
        if self.ownership is Ownership.UNASSIGNED:
            return self.is_awaited or self.is_unopened
        if self.ownership is not Ownership.ASSIGNED or self.ledger.received < self.end:
            return True
        return bool(self.backlog or self.released or self.reserving)

    @property
    def lag(self) -> int:
        """Offsets between what is stored upstream and the end of the log; 0 while it is not ours."""
        return max(self.end, self.ledger.received) - max(self.ledger.stored.offset, 0) if self.is_active else 0

    def put(self, available: Available) -> None:
        first = available.first
        if first in self.backlog:
            raise Violation(f"{self.source}: offset {first} is in the backlog already")
        self.backlog[first] = available
        self.backlog_bytes += available.size
        self.backlog_offsets += len(available)

    def take(self, available: Available) -> None:
        if self.backlog.pop(available.first, None) is not available:
            raise Violation(f"{self.source}: offset {available.first} is not in the backlog")
        self.backlog_bytes -= available.size
        self.backlog_offsets -= len(available)

    def oldest(self, may_have: Callable[[Available], bool]) -> Available | None:
        """The oldest batch that somebody may have; nothing new while the partition is full."""
        entries: Iterator[Available] = iter(self.backlog.values())
        oldest = next((entry for entry in entries if may_have(entry)), None)
        is_new = oldest is not None and self.is_full and oldest.first > self.ledger.highest_acknowledged
        return None if is_new else oldest

    @property
    def highest_leased(self) -> int:
        """-1 if nothing is."""
        return int(self.leased.peekitem(-1)[1].span.last) if self.leased else -1

    def unleased(self, spans: list[Span]) -> list[Span]:
        """What of these (ascending, none overlapping) is not leased."""
        if not self.leased:
            return spans
        return without(spans, (leased.span for leased in self.leased_in(spans)))

    def leased_in(self, spans: Iterable[Span]) -> list[Leased]:
        """What leases hold that has something of these (ascending, none overlapping); ascending."""
        return overlapping(self.leased, spans)

    def released_in(self, spans: Iterable[Span]) -> list[Released]:
        """The same of what has to be read again."""
        return overlapping(self.released, spans)

    def backlog_in(self, spans: Iterable[Span]) -> list[Available]:
        """The same of the backlog."""
        return overlapping(self.backlog, spans)

    def live_on(self, shared: Shared, topic_id: str | None) -> None:
        """Another life begins. shared: what the log has in common with the one before. topic_id: as `Life` has it."""
        life = Life(topic_id)
        self.life.followed_by(life, shared)
        self.life = life

    def clear(self) -> None:
        self.backlog.clear()
        self.backlog_bytes = self.backlog_offsets = 0
        self.suspects = 0
        self.released.clear()
        self.resting.clear()
        self.dead_lettering.clear()
        self.leased.clear()
        self.released_unread.clear()
        self.given = -1

    def check(self) -> None:
        """The invariant: Fetches wait here, or there is a backlog, never both. Raises Violation."""
        if self.waiting and self.backlog:
            raise Violation(
                f"{self.source}: {len(self.waiting)} fetches wait although {len(self.backlog)} batches are there"
            )
        if self.ineligible and not self.backlog:
            raise Violation(f"{self.source}: {len(self.ineligible)} fetches stand aside for nothing")
        if not self.is_active and (self.waiting or self.ineligible):
            raise Violation(f"{self.source}: fetches wait on a partition that is {self.ownership.value}")


@dataclass(slots=True, eq=False)
class Reservation:
    """One member that was answered and has not asked again. kept: for it; bytes and offsets of that. until: when others
    are given what they have not gone past."""

    member: Member
    until: float
    rank: Rank
    kept: dict[Partition, list[Available]] = field(default_factory=dict)
    size: int = 0
    count: int = 0
    timer: Timer | None = None


@dataclass(slots=True, eq=False)
class PartitionFetch:
    """One partition of which one Fetch may have records. What failed is a `FetchedPartition` with its error at once.

    replay: what is sent again, at the offsets it had, and the virtual offset behind each of them.
    """

    partition: Partition
    window: Window
    offset: int
    maximum: int
    collected: list[Available] | None = None
    replay: list[tuple[Batch, int]] | None = None
    size: int = 0

    @property
    def is_locked(self) -> bool:
        """Whether as many of its offsets are acquired as may be."""
        return False

    @property
    def position(self) -> int:
        """Where its client stands: below the window means at its start."""
        return self.offset if self.offset in self.window else self.window.committed

    @property
    def behind(self) -> bool:
        """Whether its client was sent more than it has, which comes first; nothing else may be sent here until then."""
        window = self.window
        if not window.held or self.offset == window.end:  # most are where they were sent to
            return False
        return window.holds_beyond(self.position)


@dataclass(slots=True, eq=False)
class SharePartitionFetch(PartitionFetch):
    """The same of a ShareFetch. most_locks: as in `AcquireTerms`."""

    most_locks: int = field(kw_only=True)

    @property
    def is_locked(self) -> bool:
        return self.partition.locks >= self.most_locks


class Fetch:
    """A Fetch request and what it has collected. Owned by its pool until it is answered or its connection dies.

    requested: its partitions in the order of the request, and with their errors those that failed; partition_fetches:
    the others. terms: of a ShareFetch, None of any other.
    """

    __slots__ = (
        "answered",
        "connection",
        "deadline",
        "maximum",
        "member",
        "minimum",
        "partition_fetches",
        "rank",
        "replays",
        "requested",
        "sequence",
        "size",
        "terms",
        "ticket",
        "timer",
        "waiting",
    )

    def __init__(
        self,
        ticket: Ticket,
        connection: ConnectionId,
        member: Member,
        requested: list[PartitionFetch | FetchedPartition],
        request: FetchParameters,
        sequence: int,
        now: float,
        terms: AcquireTerms | None = None,
    ) -> None:
        self.ticket = ticket
        self.terms = terms
        self.connection = connection
        self.member = member
        self.requested = requested
        self.partition_fetches = [each for each in requested if isinstance(each, PartitionFetch)]
        self.minimum = request.minimum
        self.maximum = request.maximum
        self.deadline = now + request.wait
        self.sequence = sequence
        self.size = 0
        self.waiting = 0
        self.rank: Rank | None = None
        self.timer: Timer | None = None
        self.answered = False
        self.replays = False

    def __repr__(self) -> str:
        return f"<Fetch {self.sequence} of {self.member!r}: {self.size} bytes, waits on {self.waiting}>"

    @property
    def has_failed(self) -> bool:
        """Whether it has an error to tell, which does not wait for records."""
        return len(self.partition_fetches) < len(self.requested)

    @property
    def has_records(self) -> bool:
        return self.size > 0

    @property
    def is_satisfied(self) -> bool:
        """It has what it asked for. One that collected nothing never is: it parks, or its client
        would ask again at once, thousands of times a second. A replay does not wait for more to come with it."""
        return self.size > 0 and (self.size >= self.minimum or self.replays)

    def fitting(self, partition_fetch: PartitionFetch, batch: Batch, offsets: int = NO_LIMIT) -> int:
        """How many batches of a run there is room for, of those that begin within the first `offsets` offsets. A first
        batch above the limits is sent all the same (KIP-74)."""
        room = min(self.maximum - self.size, partition_fetch.maximum - partition_fetch.size)
        return fitting(batch, room, offsets) or int(self.size == 0)

    def collect(self, partition_fetch: PartitionFetch, available: Available) -> None:
        if partition_fetch.collected is None:
            partition_fetch.collected = []
        partition_fetch.collected.append(available)
        partition_fetch.size += available.size
        self.size += available.size

    def replay(self, partition_fetch: PartitionFetch, batch: Batch, end: int) -> None:
        """end: the virtual offset behind it."""
        if partition_fetch.replay is None:
            partition_fetch.replay = []
        partition_fetch.replay.append((batch, end))
        partition_fetch.size += len(batch.data)
        self.size += len(batch.data)
        self.replays = True
