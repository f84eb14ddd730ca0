"""The upstream engine: the consumer of one pool on one upstream cluster.

The event loop gives it commands, which never block. The engine answers with events, delivered on the event loop's
thread in the order in which they happened. An engine is a member of the pool's upstream consumer group from the first
`subscribe` until `close`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NewType, Protocol, TypeAlias

from mesh.records.batch import RecordBatch
from mesh.records.spans import ClusterName, CommitPosition, Gap, Span, TopicName, UpstreamPartition
from mesh.upstream.links.connection_settings import ConnectionSettings
from mesh.upstream.problems import UpstreamProblem

CommitToken = NewType("CommitToken", int)
"""The name of one `commit` command, and of its `Committed` event."""
RereadToken = NewType("RereadToken", int)
"""The name of one `reread` command, and of its `Reread` events."""
EngineName = Literal["raw", "librdkafka"]
Isolation = Literal["read_committed", "read_uncommitted"]
Start: TypeAlias = Literal["earliest", "latest"] | int
"""The position at which a group without commits begins. A number means the first record from that time on, in ms since
1970."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The options of an engine: the cluster, and the membership of one process in one upstream group there.

    properties: the user's librdkafka properties; they hold secrets. instance_id: the `group.instance.id` of a static
    member, else None. start: where a group without commits begins. buffer_bytes: the most bytes to prefetch.
    session_timeout_ms: None for the value in the properties, or the default. settings: of the mesh's own connections to
    the cluster; None to make them from the properties.
    """

    cluster: ClusterName
    bootstrap_servers: str
    properties: Mapping[str, Any] = field(repr=False)
    group_id: str
    instance_id: str | None
    start: Start
    isolation: Isolation
    buffer_bytes: int
    session_timeout_ms: int | None = None
    settings: ConnectionSettings | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class AssignedPartition:
    """One partition of a new assignment.

    start: the upstream offset from which the engine reads.
    committed: the group's committed position. The start position of a new group is committed at once, and counts.
    resumed: True when the partition came straight back (eager rebalance), so the engine continues at its own position.
        What it delivered before is then still valid. False: forget everything known of the partition.
    end: the high watermark at the time of the assignment, or None if it could not be read.
    """

    partition: UpstreamPartition
    start: int
    committed: CommitPosition
    resumed: bool
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Assigned:
    """All partitions that the engine reads. Reported when a rebalance ended, or when more of the assignment could be
    opened. A partition that was revoked and is not in it belongs to another member, or is in `Unopened`."""

    partitions: tuple[AssignedPartition, ...]


@dataclass(frozen=True, slots=True)
class Unopenable:
    """The reason why a partition cannot be opened, in Kafka's or librdkafka's words. lasts: True if another attempt
    failed too, or would not help."""

    reason: str
    problem: UpstreamProblem
    lasts: bool


@dataclass(frozen=True, slots=True)
class Unopened:
    """All partitions that are assigned but not in the last `Assigned`, because their start is unknown or the group may
    not store it. Reported when these partitions or the reason change. The engine tries again by itself, and reports
    opened partitions by another `Assigned`."""

    partitions: Mapping[UpstreamPartition, Unopenable]


@dataclass(frozen=True, slots=True)
class Revoked:
    """A rebalance began: nothing may be delivered from these partitions until `Assigned` returns them."""

    partitions: tuple[UpstreamPartition, ...]


@dataclass(frozen=True, slots=True)
class Lost:
    """The membership was lost (session expired, fenced). Other members may already own these partitions; forget them at
    once."""

    partitions: tuple[UpstreamPartition, ...]


@dataclass(frozen=True, slots=True)
class Received:
    """Batches of one partition, in upstream order. Offsets missing between batches do not exist upstream. engine: the
    one that read them; the raw engine leaves some partitions to librdkafka."""

    partition: UpstreamPartition
    batches: tuple[RecordBatch, ...]
    engine: EngineName = "librdkafka"

    @property
    def gap(self) -> Gap:
        """The reason for the missing offsets."""
        return Gap.EMPTY if self.engine == "raw" else Gap.UNKNOWN


@dataclass(frozen=True, slots=True)
class EndReached:
    """The event that everything below `offset` was received or does not exist, for the reason `gap`."""

    partition: UpstreamPartition
    offset: int
    gap: Gap = Gap.UNKNOWN


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events of the same moment, mostly of several partitions. The pool takes them in one step, and shares their
    records out as a whole."""

    events: tuple[Received | EndReached, ...]


@dataclass(frozen=True, slots=True)
class HighWatermarks:
    """The ends of the logs of all assigned partitions that answered, for lag and for leases. They are checked every
    second. They are reported when one has changed, after every PositionReset and Truncated, and after `look_at_ends`.
    Under read_committed they are last stable offsets.

    resets: the number of resets and truncations, noticed elsewhere, that were known at the time of the request.
    looked: the number of the last `look_at_ends` that came before the cluster was asked.
    """

    offsets: Mapping[UpstreamPartition, int]
    resets: int = field(default=0, compare=False)
    looked: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class TopicsIdentified:
    """Ids of subscribed topics, as text; "" for unknown ones. Reported when one becomes known or changes, and after
    every PositionReset.

    resets: as in HighWatermarks, without truncations.
    """

    ids: Mapping[TopicName, str]
    resets: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class PositionReset:
    """The upstream offsets of a partition start again: the topic was created again, or may have been. Reading continues
    at `start`; everything known of the partition is void."""

    partition: UpstreamPartition
    start: int
    reason: str


@dataclass(frozen=True, slots=True)
class Truncated:
    """The log may have other records from `offset` on (an unclean leader election). Below `offset` it equals the log
    that was read, or to which the stored leader epoch belongs, and everything known stays true. Reading continues at
    `offset` or before it. For a partition that was just assigned this is reported before anything is read, even if
    nothing lies above."""

    partition: UpstreamPartition
    offset: int


@dataclass(frozen=True, slots=True)
class Committed:
    """The outcome of one `commit` command: for each partition 0 when stored, else the Kafka error code. A partition
    that is not ours (any more) has 27 (REBALANCE_IN_PROGRESS)."""

    token: CommitToken
    errors: Mapping[UpstreamPartition, int]


@dataclass(frozen=True, slots=True)
class Reread:
    """Part of the answer to the `reread` command with this token, in upstream order; the last part has `complete`. An
    offset of the span that is in none of the batches has no record upstream.

    error: the reason of an early end, "" for none; the rest may be requested again. log_start: the first offset of the
    log, 0 if it was not asked for. Offsets below it that are in none of the batches were deleted.
    """

    partition: UpstreamPartition
    token: RereadToken
    batches: tuple[RecordBatch, ...]
    complete: bool
    error: str = ""
    log_start: int = 0


@dataclass(frozen=True, slots=True)
class SourceDown:
    """The upstream cluster cannot be used from here, so nothing is stored there; the engine keeps trying. Reported
    again when the problem changes. reason: in librdkafka's words. problem: one of `CONNECTION`."""

    reason: str
    problem: UpstreamProblem = UpstreamProblem.UNREACHABLE


@dataclass(frozen=True, slots=True)
class SourceUp:
    """The upstream cluster can be used (again)."""


@dataclass(frozen=True, slots=True)
class GroupDown:
    """The cluster answers, but the coordinator refuses this member of the group. Nothing will be assigned, and the
    current assignment may be lost; the answers to commits say whether they are stored. The engine keeps trying.
    Reported again when the problem changes: FENCED, ASSIGNOR, or NOT_AUTHORIZED for the group."""

    reason: str
    problem: UpstreamProblem


@dataclass(frozen=True, slots=True)
class GroupUp:
    """The group accepts this member (again)."""


@dataclass(frozen=True, slots=True)
class ReadingDown:
    """Some subscribed partitions cannot be read, though the group works and stores commits. Reported again when the
    problem changes: UNREADABLE, or NOT_AUTHORIZED for a topic."""

    reason: str
    problem: UpstreamProblem = UpstreamProblem.UNREADABLE


@dataclass(frozen=True, slots=True)
class ReadingUp:
    """The event that all assigned partitions can be read (again)."""


@dataclass(frozen=True, slots=True)
class EngineFailed:
    """The engine has a bug, and executes no command any more except `close`. Its assignment and all pending commands
    are void. traceback: as text."""

    reason: str
    traceback: str


SingleEvent: TypeAlias = (
    Assigned
    | Unopened
    | Revoked
    | Lost
    | Received
    | EndReached
    | HighWatermarks
    | TopicsIdentified
    | PositionReset
    | Truncated
    | Committed
    | Reread
    | SourceDown
    | SourceUp
    | GroupDown
    | GroupUp
    | ReadingDown
    | ReadingUp
    | EngineFailed
)
EngineEvent: TypeAlias = SingleEvent | EventBatch


class Engine(Protocol):
    """Commands to an upstream consumer. None of them blocks; all are called on the event loop's thread."""

    def subscribe(self, topics: frozenset[TopicName]) -> None:
        """Consumes these topics, which replace the earlier ones. Joins the upstream group at the first call."""

    def set_consuming(self, consuming: bool) -> None:
        """Sets whether the engine may receive records. False stops further fetches; membership and commits continue,
        and may still bring a few records."""

    def pause(self, partitions: frozenset[UpstreamPartition]) -> None:
        """Pauses these partitions, and drops their prefetched records; for long idleness only."""

    def resume(self, partitions: frozenset[UpstreamPartition]) -> None:
        """Reads these partitions again, from where they were paused."""

    def commit(self, token: CommitToken, positions: Mapping[UpstreamPartition, CommitPosition]) -> None:
        """Stores these positions in the upstream group. A `Committed` with this token always reports the outcome."""

    def reread(self, token: RereadToken, partition: UpstreamPartition, span: Span) -> None:
        """Reads a span of an assigned partition again, beside the normal reading. `Reread` events with this token bring
        the records."""

    def set_eager(self, eager: bool) -> None:
        """Sets how often the engine looks at its commands: every 1-2 ms if True, else every 50 ms. The pool sets True
        while a delivered record is unacknowledged."""

    def look_at_ends(self, number: int) -> None:
        """Asks the cluster now for the ends of the logs of assigned partitions. `HighWatermarks` with this number, or a
        greater one, bring those that the cluster answers; the others are asked for every second. Numbers rise."""

    def change_login(self, username: str, password: str) -> None:
        """Uses this user name and password for SASL from the next connection on."""

    async def close(
        self, positions: Mapping[UpstreamPartition, CommitPosition], *, leaves: bool = True
    ) -> Mapping[UpstreamPartition, int]:
        """Commits these positions a last time, leaves the upstream group, and ends the threads. Returns errors as in
        `Committed`. No event is delivered afterwards. leaves: False if another engine takes the place of this one: a
        static member stays in the group then."""
