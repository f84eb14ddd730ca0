"""What the decisions of a pool want done. Decisions are synchronous and do no IO: they return these, in the order in
which they are to be carried out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from mesh.apis.answers import Answer, Ticket
from mesh.pool.common.delivery_events import DeliveryEvent
from mesh.pool.common.history import History
from mesh.pool.common.ids import GroupId
from mesh.pool.common.queries import Question
from mesh.records.batch import Batch
from mesh.records.spans import ClusterName, CommitPosition, Span, TopicName, UpstreamPartition


@dataclass(frozen=True, slots=True)
class SubscribeUpstream:
    """Consume these topics of a cluster for a group: the whole set."""

    group: GroupId
    cluster: ClusterName
    topics: frozenset[TopicName]


@dataclass(frozen=True, slots=True)
class ConsumeUpstream:
    """Whether a group's engine on a cluster may receive records now."""

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
class HurryUpstream:
    """Whether a group's engine is to look at its commands every 1-2 ms: something is un-acknowledged."""

    group: GroupId
    cluster: ClusterName
    eager: bool


@dataclass(frozen=True, slots=True)
class CommitUpstream:
    """Store these in the upstream group; the outcome is told to `Commits.committed` with the same token."""

    group: GroupId
    cluster: ClusterName
    token: int
    positions: Mapping[UpstreamPartition, CommitPosition]


@dataclass(frozen=True, slots=True)
class RereadUpstream:
    """Read a span again; what comes is told to `Intake.reread` with the same token."""

    group: GroupId
    token: int
    partition: UpstreamPartition
    span: Span


@dataclass(frozen=True, slots=True)
class DeadLetterUpstream:
    """Write the record of this batch to the dead-letter topic of its cluster; the outcome is told to
    `DeadLetters.ended`."""

    group: GroupId
    partition: UpstreamPartition
    batch: Batch
    history: History


@dataclass(frozen=True, slots=True)
class LeaveUpstream:
    """Commit these a last time and leave the upstream group: on one cluster, or on all of them if none is named."""

    group: GroupId
    positions: Mapping[UpstreamPartition, CommitPosition]
    cluster: ClusterName | None = None


@dataclass(frozen=True, slots=True)
class AskUpstream:
    """A tool wants to know, or to change, something that the upstream clusters know: answer the request with what they
    say, one of the answers of `mesh.pool.common.queries`."""

    ticket: Ticket
    question: Question


@dataclass(frozen=True, slots=True)
class RefreshTopics:
    """Somebody asked for a topic that is not known: look upstream again soon."""


@dataclass(frozen=True, slots=True)
class Gone:
    """Offsets that nobody had settled, and that upstream has no more, are skipped.

    was_read: whether they had been read, and were held by somebody or to be given again; else nobody ever had them.
    offsets: how many of the span.
    """

    group: GroupId
    partition: UpstreamPartition
    span: Span
    offsets: int
    was_read: bool


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A span that share members rejected, or that was delivered to them too often, is settled: dead letters are not
    configured."""

    group: GroupId
    partition: UpstreamPartition
    span: Span
    history: History


@dataclass(frozen=True, slots=True)
class Report:
    """Something an operator wants to know. `event` is a fixed sentence; `fields` say who and how much."""

    event: str
    fields: Mapping[str, object] = field(default_factory=dict)
    level: str = "info"


Effect: TypeAlias = (
    Answer
    | SubscribeUpstream
    | ConsumeUpstream
    | PauseUpstream
    | ResumeUpstream
    | HurryUpstream
    | CommitUpstream
    | RereadUpstream
    | DeadLetterUpstream
    | LeaveUpstream
    | AskUpstream
    | RefreshTopics
    | DeliveryEvent
    | Gone
    | GivenUp
    | Report
)
