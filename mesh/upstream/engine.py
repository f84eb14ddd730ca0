"""What an upstream engine is: the consumer of one pool on one upstream cluster.

The event loop gives it commands, which never block; it answers with events, which are delivered on the event loop's
thread, in the order in which they happened. An engine is a member of the pool's upstream consumer group from the first
`subscribe` until `close`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NewType, Protocol, TypeAlias

from mesh.records.batch import Batch
from mesh.records.spans import ClusterName, CommitPosition, Gap, Span, TopicName, UpstreamPartition
from mesh.upstream.problems import UpstreamProblem

CommitToken = NewType("CommitToken", int)
"""Names one `commit` command, so that its `Committed` event can be told from others."""
RereadToken = NewType("RereadToken", int)
"""The same of a `reread` command and its `Reread` events."""
EngineName = Literal["raw", "librdkafka"]
Isolation = Literal["read_committed", "read_uncommitted"]


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What an engine is made with: the cluster, and the membership of one process in one upstream group there.

    properties: librdkafka's, the user's words; they hold secrets. instance_id: of a static member, else None. start: of
    a group that has committed nothing. buffer_bytes: what may be fetched ahead. session_timeout_ms: None for what the
    properties say, or the default.
    """

    cluster: ClusterName
    bootstrap_servers: str
    properties: Mapping[str, str] = field(repr=False)
    group_id: str
    instance_id: str | None
    start: Literal["earliest", "latest"]
    isolation: Isolation
    buffer_bytes: int
    session_timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class AssignedPartition:
    """One partition of a new assignment.

    start: the upstream offset the engine reads from.
    committed: what the group has committed (already including the start position of a new group, committed at once).
    resumed: True when the engine goes on at its own position because the partition came straight back (eager
        rebalance); what it delivered before is then still valid. False: forget everything known of the partition.
    end: the high watermark at the time of the assignment, or None if it could not be read.
    """

    partition: UpstreamPartition
    start: int
    committed: CommitPosition
    resumed: bool
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Assigned:
    """A rebalance ended, or more of its assignment could be opened: this is all that is read. What was revoked before
    and is not in it belongs to others, or is named by `Unopened`."""

    partitions: tuple[AssignedPartition, ...]


@dataclass(frozen=True, slots=True)
class Unopenable:
    """Why a partition cannot be opened: in Kafka's or librdkafka's words. lasts: it was tried again, or trying again
    does not help by itself."""

    reason: str
    problem: UpstreamProblem
    lasts: bool


@dataclass(frozen=True, slots=True)
class Unopened:
    """All partitions that are assigned and not in the last `Assigned`, since it is not known where to begin, or the
    group may not store that. Told when they are others, or for another reason; the engine tries again by itself, and
    tells by another `Assigned` what it could open."""

    partitions: Mapping[UpstreamPartition, Unopenable]


@dataclass(frozen=True, slots=True)
class Revoked:
    """A rebalance began: nothing may be delivered from these until `Assigned` gives them back."""

    partitions: tuple[UpstreamPartition, ...]


@dataclass(frozen=True, slots=True)
class Lost:
    """The membership was lost (session expired, fenced): others may already own these; forget them at once."""

    partitions: tuple[UpstreamPartition, ...]


@dataclass(frozen=True, slots=True)
class Received:
    """Batches of one partition, in upstream order. Offsets between batches that are missing do not exist upstream.

    engine: which one brought them; the raw engine leaves some partitions to librdkafka.
    """

    partition: UpstreamPartition
    batches: tuple[Batch, ...]
    engine: EngineName = "librdkafka"

    @property
    def gap(self) -> Gap:
        """What the missing ones were."""
        return Gap.EMPTY if self.engine == "raw" else Gap.UNKNOWN


@dataclass(frozen=True, slots=True)
class EndReached:
    """Everything below `offset` was received or does not exist, for the reason `gap`."""

    partition: UpstreamPartition
    offset: int
    gap: Gap = Gap.UNKNOWN


@dataclass(frozen=True, slots=True)
class Together:
    """What came at the same time, mostly of several partitions: a step of the pool, which shares it out as a whole."""

    events: tuple[Received | EndReached, ...]


@dataclass(frozen=True, slots=True)
class HighWatermarks:
    """How far the logs of all assigned partitions go that could be asked, looked at every second, told when one has
    changed, and after every PositionReset and Truncated; for lag, and for what may be leased. Last stable offsets under
    read_committed, as far as consumers are served.

    resets: how many of the resets that others have noticed were known when this was asked.
    """

    offsets: Mapping[UpstreamPartition, int]
    resets: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class TopicsIdentified:
    """Ids of topics that are subscribed to, as text; "" for what has none, or whose id nobody tells. Told when one is
    known, is another one, and anew after every PositionReset.

    resets: as of HighWatermarks, but for Truncated.
    """

    ids: Mapping[TopicName, str]
    resets: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class PositionReset:
    """Upstream offsets begin anew unasked: the topic was made anew, or may have been.

    Reading goes on at `start`; everything known of the partition is void.
    """

    partition: UpstreamPartition
    start: int
    reason: str


@dataclass(frozen=True, slots=True)
class Truncated:
    """The log is the one that was read, or that the stored leader epoch speaks of, only up to `offset`: from there on
    it may have other records (an unclean leader election). Below, all that is known stays true. Reading goes on there,
    or before it. Of a partition that was just assigned it is told before anything is read, also if nothing lies above.
    """

    partition: UpstreamPartition
    offset: int


@dataclass(frozen=True, slots=True)
class Committed:
    """The end of one `commit` command: per partition 0 when stored, else the Kafka error code that kept it from being
    stored; 27 (REBALANCE_IN_PROGRESS) for a partition that is not ours (any more)."""

    token: CommitToken
    errors: Mapping[UpstreamPartition, int]


@dataclass(frozen=True, slots=True)
class Reread:
    """Part of the answer to the `reread` command with this token, in upstream order; the last one has `complete`.

    An offset of the span that is in none of the batches has no record upstream. error: why it ended early, "" if it did
    not; what was not covered may be asked for again. log_start: where the log begins, 0 if that was not asked; what
    lies below it, and in none of the batches, was deleted.
    """

    partition: UpstreamPartition
    token: RereadToken
    batches: tuple[Batch, ...]
    complete: bool
    error: str = ""
    log_start: int = 0


@dataclass(frozen=True, slots=True)
class SourceDown:
    """The upstream cluster cannot be used by anybody here, so nothing is stored there; the engine goes on trying by
    itself. Told again when it is another problem than before. reason: in librdkafka's words; problem: of `CONNECTION`.
    """

    reason: str
    problem: UpstreamProblem = UpstreamProblem.UNREACHABLE


@dataclass(frozen=True, slots=True)
class SourceUp:
    """The upstream cluster can be used (again)."""


@dataclass(frozen=True, slots=True)
class GroupDown:
    """The cluster answers, and our group there refuses us: nothing will be assigned, and what is may be lost. Whether a
    commit is stored, the coordinator says. The engine goes on trying; told again when it is another problem: FENCED,
    ASSIGNOR, or NOT_AUTHORIZED, of the group."""

    reason: str
    problem: UpstreamProblem


@dataclass(frozen=True, slots=True)
class GroupUp:
    """Our group takes us (again)."""


@dataclass(frozen=True, slots=True)
class ReadingDown:
    """Some partitions of what is subscribed to cannot be read, though the group works and stores commits. Told again
    when it is another problem than before: UNREADABLE or NOT_AUTHORIZED, of a topic."""

    reason: str
    problem: UpstreamProblem = UpstreamProblem.UNREADABLE


@dataclass(frozen=True, slots=True)
class ReadingUp:
    """All that is assigned can be read (again)."""


@dataclass(frozen=True, slots=True)
class EngineFailed:
    """The engine has a bug and does nothing any more, but for `close`; all it was assigned and was to do is void.

    traceback: as text.
    """

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
EngineEvent: TypeAlias = SingleEvent | Together


class Engine(Protocol):
    """Commands to an upstream consumer. None of them blocks; all are called on the event loop's thread."""

    def subscribe(self, topics: frozenset[TopicName]) -> None:
        """Consume these topics, the whole set; joins the upstream group at the first call."""

    def set_consuming(self, consuming: bool) -> None:
        """Whether records may be received now. False stops asking for more; membership and commits go on, for which a
        few more may have to come."""

    def pause(self, partitions: frozenset[UpstreamPartition]) -> None:
        """Stop reading these; costs what was prefetched of them, so for long idleness only."""

    def resume(self, partitions: frozenset[UpstreamPartition]) -> None:
        """Read these again, from where they were paused."""

    def commit(self, token: CommitToken, positions: Mapping[UpstreamPartition, CommitPosition]) -> None:
        """Store these in the upstream group; `Committed` with this token tells how it ended, always."""

    def reread(self, token: RereadToken, partition: UpstreamPartition, span: Span) -> None:
        """Read a span of an assigned partition again, beside the normal reading; `Reread` events with this token bring
        it."""

    def set_eager(self, eager: bool) -> None:
        """True while something is un-acknowledged: commands are then looked at every 1-2 ms, else every 50 ms."""

    async def close(self, positions: Mapping[UpstreamPartition, CommitPosition]) -> Mapping[UpstreamPartition, int]:
        """Commit these a last time, leave the upstream group, end the threads. Returns the errors as `Committed` has
        them. No event is delivered afterwards."""
