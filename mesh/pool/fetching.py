"""A Fetch while it is being answered: what it may take, what it has collected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mesh.pool.effects import ConnectionId, GroupId, Ticket
from mesh.pool.timers import Timer
from mesh.pool.window import Available, Delivery, Window
from mesh.records.batch import Batch
from mesh.records.spans import TopicName
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import Buffer

if TYPE_CHECKING:
    from mesh.pool.member import Member
    from mesh.pool.partition import Partition


@dataclass(frozen=True, slots=True)
class FetchPartition:
    """One partition of a Fetch request, in virtual terms. maximum: partition_max_bytes."""

    topic: TopicName | None
    partition: int
    offset: int
    maximum: int


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """maximum: max_bytes; minimum: min_bytes; wait: seconds (max_wait_ms)."""

    partitions: Sequence[FetchPartition]
    minimum: int
    maximum: int
    wait: float


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """records: whole batches, re-based; empty where nothing is to be had. high_watermark: -1 with an error."""

    error: ErrorCode
    high_watermark: int
    records: tuple[Buffer, ...] = ()


@dataclass(frozen=True, slots=True)
class Delivered:
    """What an answer holds, for those who count: records and bytes by topic. redelivered: offsets that another member,
    or this one, was sent before and gave up."""

    group: GroupId
    topics: Mapping[TopicName, tuple[int, int]]
    redelivered: int
    is_new: bool
    """Whether some of it was not sent to this member before."""


@dataclass(frozen=True, slots=True)
class FetchResult:
    """One entry for every partition of the request, in its order."""

    partitions: tuple[FetchedPartition, ...]
    delivered: Delivered | None = None


@dataclass(slots=True, eq=False)
class Lane:
    """One partition of one Fetch.

    partition, window: None where the Fetch only waits (an unknown topic, or a client of an earlier run).
    replay: deliveries that are sent again, at the offsets they had, and their bytes as they are now.
    """

    offset: int
    maximum: int
    partition: Partition | None = None
    window: Window | None = None
    error: ErrorCode = ErrorCode.NONE
    collected: list[Available] | None = None
    replay: list[tuple[Delivery, Batch]] | None = None
    size: int = 0

    @property
    def position(self) -> int:
        """Where its client stands: below the window means at its start."""
        return self.offset if self.window is None or self.offset in self.window else self.window.committed

    @property
    def behind(self) -> bool:
        """Whether its client was sent more than it has, which comes first; nothing else may be sent here until then."""
        return self.window is not None and self.window.holds_beyond(self.position)


class Fetch:
    """A Fetch request and what it has collected. Owned by its pool until it is answered or its connection dies."""

    __slots__ = (
        "answered",
        "connection",
        "deadline",
        "lanes",
        "maximum",
        "member",
        "minimum",
        "rank",
        "replays",
        "sequence",
        "size",
        "ticket",
        "timer",
        "waiting",
    )

    def __init__(
        self,
        ticket: Ticket,
        connection: ConnectionId,
        member: Member | None,
        lanes: list[Lane],
        request: FetchRequest,
        sequence: int,
        now: float,
    ) -> None:
        self.ticket = ticket
        self.connection = connection
        self.member = member
        self.lanes = lanes
        self.minimum = request.minimum
        self.maximum = request.maximum
        self.deadline = now + request.wait
        self.sequence = sequence
        self.size = 0
        self.waiting = 0
        self.rank: tuple[float, int, int] | None = None
        self.timer: Timer | None = None
        self.answered = False
        self.replays = False

    def __repr__(self) -> str:
        return f"<Fetch {self.sequence} of {self.member!r}: {self.size} bytes, waits on {self.waiting}>"

    @property
    def has_records(self) -> bool:
        return self.size > 0

    @property
    def is_satisfied(self) -> bool:
        """It has what it asked for. One that collected nothing never is: it parks, or its client
        would ask again at once, thousands of times a second. A replay does not wait for more to come with it."""
        return self.size > 0 and (self.size >= self.minimum or self.replays)

    def has_room(self, lane: Lane, size: int) -> bool:
        """A first batch above the limits is sent all the same (KIP-74)."""
        if self.size == 0:
            return True
        return self.size + size <= self.maximum and lane.size + size <= lane.maximum

    def collect(self, lane: Lane, available: Available) -> None:
        if lane.collected is None:
            lane.collected = []
        lane.collected.append(available)
        lane.size += available.size
        self.size += available.size

    def replay(self, lane: Lane, delivery: Delivery, batch: Batch) -> None:
        if lane.replay is None:
            lane.replay = []
        lane.replay.append((delivery, batch))
        lane.size += len(batch.data)
        self.size += len(batch.data)
        self.replays = True
