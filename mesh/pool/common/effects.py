"""Effects: the actions that a pool decides on. Decisions are synchronous and do no IO. They return effects, in the
order in which to carry them out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from mesh.apis.answers import Answer, Ticket
from mesh.pool.common.delivery_events import DeliveryEvent
from mesh.pool.common.history import History
from mesh.pool.common.ids import GroupId
from mesh.pool.common.queries import Question
from mesh.records.batch import RecordBatch
from mesh.records.spans import ClusterName, CommitPosition, Span, TopicName, UpstreamPartition


@dataclass(frozen=True, slots=True)
class SubscribeUpstream:
    """Subscribes a group's engine on a cluster to exactly these topics."""

    group: GroupId
    cluster: ClusterName
    topics: frozenset[TopicName]


@dataclass(frozen=True, slots=True)
class ConsumeUpstream:
    """Lets a group's engine on a cluster receive records, or stops it."""

    group: GroupId
    cluster: ClusterName
    consuming: bool


@dataclass(frozen=True, slots=True)
class PauseUpstream:
    group: GroupId
    partition: UpstreamPartition


@dataclass(frozen=True, slots=True)
class ResumeUpstream:
    group: GroupId
    partition: UpstreamPartition


@dataclass(frozen=True, slots=True)
class PollUpstream:
    """Makes a group's engine check its commands every 1-2 ms, as long as records are unacknowledged (often), or less
    often."""

    group: GroupId
    cluster: ClusterName
    often: bool


@dataclass(frozen=True, slots=True)
class LookAtEnds:
    """Asks a cluster for the ends of the logs of a group's partitions. `Intake.ends_known` gets them, with the same
    number or a greater one."""

    group: GroupId
    cluster: ClusterName
    number: int


@dataclass(frozen=True, slots=True)
class CommitUpstream:
    """Commits these positions in the upstream group. `Commits.committed` gets the outcome, with the same token."""

    group: GroupId
    cluster: ClusterName
    token: int
    positions: Mapping[UpstreamPartition, CommitPosition]


@dataclass(frozen=True, slots=True)
class RereadUpstream:
    """Reads a span again. `Intake.reread` gets the records, with the same token."""

    group: GroupId
    token: int
    partition: UpstreamPartition
    span: Span


@dataclass(frozen=True, slots=True)
class DeadLetterUpstream:
    """Writes the record of this batch to the dead-letter topic of its cluster. `DeadLetters.ended` gets the outcome."""

    group: GroupId
    partition: UpstreamPartition
    batch: RecordBatch
    history: History


@dataclass(frozen=True, slots=True)
class LeaveUpstream:
    """Commits these positions for the last time, and leaves the upstream group. cluster: None for all clusters.
    comes_back: True if the process joins again at once, so that a static member keeps its partitions."""

    group: GroupId
    positions: Mapping[UpstreamPartition, CommitPosition]
    cluster: ClusterName | None = None
    comes_back: bool = False


@dataclass(frozen=True, slots=True)
class AskUpstream:
    """Passes a tool's question or change to the upstream clusters. The request is answered with one of the answers of
    `mesh.pool.common.queries`."""

    ticket: Ticket
    question: Question


@dataclass(frozen=True, slots=True)
class KeepShareGroup:
    """Stores that a group has, or had, share members. From now on it is listed, even without a pool."""

    group: GroupId


@dataclass(frozen=True, slots=True)
class ChangeGroupConfigs:
    """Changes configurations of groups. The request is answered with a `GroupConfigsChanged` when that is stored.
    changes: values by name; None removes a value."""

    ticket: Ticket
    changes: Mapping[GroupId, Mapping[str, str | None]]


@dataclass(frozen=True, slots=True)
class RefreshTopics:
    """Refreshes the topics soon, because a client asked for an unknown topic."""


@dataclass(frozen=True, slots=True)
class Gone:
    """Reports that unsettled offsets were skipped because they no longer exist upstream.

    was_read: whether they had been read, and a member held them or they waited for redelivery. If not, no member ever
    had them. offsets: their number in the span.
    """

    group: GroupId
    partition: UpstreamPartition
    span: Span
    offsets: int
    was_read: bool


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Reports that a span was settled although no member processed it, because dead letters are not configured. Share
    members rejected it, or it was delivered to them too often."""

    group: GroupId
    partition: UpstreamPartition
    span: Span
    history: History


@dataclass(frozen=True, slots=True)
class Report:
    """A report for operators. `event` is a fixed phrase; `fields` have the details."""

    event: str
    fields: Mapping[str, object] = field(default_factory=dict)
    level: str = "info"


Effect: TypeAlias = (
    Answer
    | SubscribeUpstream
    | ConsumeUpstream
    | PauseUpstream
    | ResumeUpstream
    | PollUpstream
    | LookAtEnds
    | CommitUpstream
    | RereadUpstream
    | DeadLetterUpstream
    | LeaveUpstream
    | AskUpstream
    | KeepShareGroup
    | ChangeGroupConfigs
    | RefreshTopics
    | DeliveryEvent
    | Gone
    | GivenUp
    | Report
)
