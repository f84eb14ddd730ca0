"""One upstream partition of a pool: its ledger, and either waiting Fetches or a backlog, never both.

A Fetch and its partitions refer to each other by a `PartitionFetch`, so this module has both.
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
from mesh.pool.state.incarnations import CommonPrefix, Incarnation
from mesh.pool.state.leases import Leased
from mesh.pool.state.ledger import Ledger
from mesh.pool.state.member import Member
from mesh.pool.state.released_unread import ReleasedUnread
from mesh.pool.state.slots import Slot
from mesh.pool.state.window import Available, Window
from mesh.records.batch import RecordBatch
from mesh.records.runs import fitting
from mesh.records.sorted_spans import overlapping
from mesh.records.span_lists import without
from mesh.records.spans import Span, UpstreamPartition

NO_LIMIT = 1 << 62
"""A number of offsets above all limits."""
Rank: TypeAlias = tuple[float, float, int, int]
"""The rank of a waiting Fetch: load, recent deliveries, time of the last service, sequence of the Fetch. The lowest
rank comes first."""


class Violation(Exception):
    """Raised when the state of a pool violates an invariant. The pool is closed with an error. The process and other
    pools go on."""


class Ownership(Enum):
    """The ownership of a partition by this process. UNASSIGNED: another process has it, or it is not assigned yet.
    REVOKED: it was revoked, and may come back. ASSIGNED: this process has it."""

    UNASSIGNED = "absent"
    REVOKED = "suspended"
    ASSIGNED = "active"


@dataclass(slots=True, eq=False)
class Released:
    """A span without bytes that a member gave back. It must be read again before any member can get it. avoid: as in
    `Available`."""

    span: Span
    history: History
    avoid: Slot | None


class Partition:
    """One upstream partition of a pool.

    Its log and ownership:

    * incarnation: the incarnation of the log. It changes with a new start, a truncation, and another owner.
    * end: the known end of the upstream log: the high watermark, or the last stable offset under read_committed.
      looked: the number of the last `LookAtEnds` before the cluster was asked for it; 0 if `end` is not from it.
    * is_awaited: whether the upstream group has not reported an owner yet. is_unopened: whether it is assigned but
      cannot be read yet.
    * mean_size: bytes per offset of recent records in the log; 0 if there were none.
    * priority: the priority of its topic. A Fetch of several topics gets those of a higher priority first.

    Its records, most of them by upstream offset:

    * backlog: batches that wait for a Fetch. Released ones come before new ones. suspects: the number of batches in it
      that are suspected of having killed a member.
    * released: spans whose bytes must be read again. resting: such spans that rest for a while.
    * released_unread: spans that were released before the engine brought them.
    * dead_lettering: records on their way to the dead-letter topic.
    * leased: spans that leases hold, by their first offset. Some may not have been received yet.
    * acquired_offsets: the number of offsets that share members hold, or that are collected for them.
    * highest_given: the highest upstream offset that any Fetch got; -1 if none did.
    * is_full: whether so much is acknowledged above the lowest unsettled record that hardly more can be stored.

    Its Fetches:

    * parked: every parked Fetch that asks for this partition. waiting: those that may take a batch now. ineligible:
      those that may not take the batches in the backlog, for example suspected ones.
    * reservations: the members between two Fetches that have a reservation here.
    """

    __slots__ = (
        "acquired_offsets",
        "backlog",
        "backlog_bytes",
        "backlog_offsets",
        "dead_lettering",
        "end",
        "highest_given",
        "incarnation",
        "ineligible",
        "is_awaited",
        "is_full",
        "is_unopened",
        "leased",
        "ledger",
        "looked",
        "mean_size",
        "ownership",
        "parked",
        "priority",
        "released",
        "released_unread",
        "reservations",
        "resting",
        "source",
        "suspects",
        "waiting",
    )

    def __init__(self, source: UpstreamPartition) -> None:
        self.source = source
        self.ownership = Ownership.UNASSIGNED
        self.ledger = Ledger(0)
        self.incarnation = Incarnation()
        self.end = 0
        self.looked = 0
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
        self.reservations: dict[Reservation, None] = {}
        self.highest_given = -1
        self.acquired_offsets = 0
        self.priority = 0

    def __repr__(self) -> str:
        return (
            f"<Partition {self.source} {self.ownership.value} backlog {len(self.backlog)} waiting {len(self.waiting)} "
            f"committable {self.ledger.committable} received {self.ledger.received}>"
        )

    def learn_size(self, size: int, offsets: int) -> None:
        """Updates the mean size of records with received bytes and offsets. The latest records count most."""
        mean = size / offsets
        self.mean_size = (3 * self.mean_size + mean) / 4 if self.mean_size else mean

    @property
    def is_leased(self) -> bool:
        """True if leases hold records of it, or released some that were not received yet."""
        return bool(self.leased or self.released_unread)

    def is_replayed(self, span: Span) -> bool:
        """Returns whether a span is part of a replay, and is thus not new."""
        return self.ledger.replayed is not None and self.ledger.replayed.has(span)

    @property
    def is_active(self) -> bool:
        return self.ownership is Ownership.ASSIGNED

    @property
    def has_no_known_owner(self) -> bool:
        """True until the upstream group reports an owner: after a start, a loss, and during a rebalance."""
        if self.ownership is Ownership.UNASSIGNED:
            return self.is_awaited
        return self.ownership is Ownership.REVOKED

    @property
    def has_more(self) -> bool:
        """True if there are, or may be, records that no member holds. Then a client must not believe that it has all
        records. Records of other processes do not count."""
        if self.ownership is Ownership.UNASSIGNED:
            return self.is_awaited or self.is_unopened
        if self.ownership is not Ownership.ASSIGNED or self.ledger.received < self.end:
            return True
        return bool(self.backlog or self.released or self.reservations)

    @property
    def lag(self) -> int:
        """The offsets between the stored position and the end of the log; 0 for a partition of another process."""
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
        """Returns the oldest batch in the backlog that may be given; no new batch while the partition is full."""
        entries: Iterator[Available] = iter(self.backlog.values())
        oldest = next((entry for entry in entries if may_have(entry)), None)
        is_new = oldest is not None and self.is_full and oldest.first > self.ledger.highest_acknowledged
        return None if is_new else oldest

    @property
    def highest_leased(self) -> int:
        """The highest leased offset; -1 if nothing is leased."""
        return int(self.leased.peekitem(-1)[1].span.last) if self.leased else -1

    def unleased(self, spans: list[Span]) -> list[Span]:
        """Returns the parts of these spans (ascending, none overlapping) that are not leased."""
        if not self.leased:
            return spans
        return without(spans, (leased.span for leased in self.leased_in(spans)))

    def leased_in(self, spans: Iterable[Span]) -> list[Leased]:
        """Returns the leased spans that overlap these (ascending, none overlapping), ascending."""
        return overlapping(self.leased, spans)

    def released_in(self, spans: Iterable[Span]) -> list[Released]:
        """Returns the spans to be read again that overlap these (ascending, none overlapping), ascending."""
        return overlapping(self.released, spans)

    def backlog_in(self, spans: Iterable[Span]) -> list[Available]:
        """Returns the entries of the backlog that overlap these spans (ascending, none overlapping), ascending."""
        return overlapping(self.backlog, spans)

    def begin_incarnation(self, common_prefix: CommonPrefix, topic_id: str | None) -> None:
        """Begins another incarnation of the log. common_prefix: the offsets that it shares with the one before.
        topic_id: as in `Incarnation`."""
        incarnation = Incarnation(topic_id)
        self.incarnation.followed_by(incarnation, common_prefix)
        self.incarnation = incarnation

    def clear(self) -> None:
        self.backlog.clear()
        self.backlog_bytes = self.backlog_offsets = 0
        self.suspects = 0
        self.released.clear()
        self.resting.clear()
        self.dead_lettering.clear()
        self.leased.clear()
        self.released_unread.clear()
        self.highest_given = -1

    def check(self) -> None:
        """Checks the invariants: a partition never has both a backlog and waiting Fetches, and only an active one has
        Fetches. Raises Violation."""
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
    """Records that are reserved for a member between two Fetches. records: the records by partition; `size` and `count`
    are their bytes and offsets. until: when others may get them, except those below `Partition.highest_given`, which
    would come out of order."""

    member: Member
    until: float
    rank: Rank
    records: dict[Partition, list[Available]] = field(default_factory=dict)
    size: int = 0
    count: int = 0
    timer: Timer | None = None


@dataclass(slots=True, eq=False)
class PartitionFetch:
    """One partition from which one Fetch may get records. A partition that failed at once is a `FetchedPartition` with
    its error instead.

    resent: records that are sent again at their old offsets, each with the virtual offset behind it.
    """

    partition: Partition
    window: Window
    offset: int
    maximum: int
    collected: list[Available] | None = None
    resent: list[tuple[RecordBatch, int]] | None = None
    size: int = 0

    @property
    def is_locked(self) -> bool:
        """True if as many offsets of the partition are acquired as allowed. Always False for a Fetch."""
        return False

    @property
    def position(self) -> int:
        """The position of the client. A position outside of the window means the start of the window."""
        return self.offset if self.offset in self.window else self.window.committed

    @property
    def needs_resend(self) -> bool:
        """True if the client asks for records that it was sent already. These come first; no other records may be sent
        until then."""
        window = self.window
        if not window.held or self.offset == window.end:  # most Fetches ask for the end of what was sent
            return False
        return window.holds_beyond(self.position)


@dataclass(slots=True, eq=False)
class SharePartitionFetch(PartitionFetch):
    """One partition from which one ShareFetch may acquire records. most_locks: as in `AcquireTerms`."""

    most_locks: int = field(kw_only=True)

    @property
    def is_locked(self) -> bool:
        return self.partition.acquired_offsets >= self.most_locks


class Fetch:
    """A Fetch request with its collected records. Its pool owns it until it is answered or its connection ends.

    * requested: its partitions in the order of the request; failed ones have their errors. partition_fetches: those
      that have not failed.
    * terms: the limits of a ShareFetch; None for a Fetch.
    * offsets: the number of offsets that it has collected. size: the bytes.
    * has_resent: whether records are sent again in it.
    """

    __slots__ = (
        "answered",
        "connection",
        "deadline",
        "has_resent",
        "maximum",
        "member",
        "minimum",
        "offsets",
        "partition_fetches",
        "rank",
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
        self.offsets = 0
        self.waiting = 0
        self.rank: Rank | None = None
        self.timer: Timer | None = None
        self.answered = False
        self.has_resent = False

    def __repr__(self) -> str:
        return f"<Fetch {self.sequence} of {self.member!r}: {self.size} bytes, waits on {self.waiting}>"

    @property
    def has_failed(self) -> bool:
        """True if a partition has an error. Then the answer does not wait for records."""
        return len(self.partition_fetches) < len(self.requested)

    @property
    def has_records(self) -> bool:
        return self.size > 0

    @property
    def is_satisfied(self) -> bool:
        """True if the Fetch has as many bytes as it asked for. A Fetch without records never has, not even with
        min_bytes 0: it parks, since its client would ask again thousands of times a second. A Fetch with resent records
        does not wait for more."""
        return self.size > 0 and (self.size >= self.minimum or self.has_resent)

    def fitting(self, partition_fetch: PartitionFetch, batch: RecordBatch, offsets: int = NO_LIMIT) -> int:
        """Returns the number of batches of a run that fit, of those that begin within the first `offsets` offsets. The
        first batch of an answer is sent even if it exceeds the limits (KIP-74)."""
        room = min(self.maximum - self.size, partition_fetch.maximum - partition_fetch.size)
        return fitting(batch, room, offsets) or int(self.size == 0)

    def collect(self, partition_fetch: PartitionFetch, available: Available) -> None:
        if partition_fetch.collected is None:
            partition_fetch.collected = []
        partition_fetch.collected.append(available)
        partition_fetch.size += available.size
        self.size += available.size
        self.offsets += len(available)

    @property
    def has_enough(self) -> bool:
        """True for a ShareFetch with as many offsets as it may have."""
        return self.terms is not None and self.offsets >= self.terms.most

    def resend(self, partition_fetch: PartitionFetch, batch: RecordBatch, end: int) -> None:
        """Adds a batch that is sent again. end: the virtual offset behind the batch."""
        if partition_fetch.resent is None:
            partition_fetch.resent = []
        partition_fetch.resent.append((batch, end))
        partition_fetch.size += len(batch.data)
        self.size += len(batch.data)
        self.has_resent = True
