"""What a tool asks of the upstream clusters, and what they answer; in upstream terms.

The pool's own state is not asked for any of it: a tool is told what Kafka knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from mesh.pool.common.ids import GroupId
from mesh.records.spans import ClusterName, UpstreamPartition
from mesh.wire.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """What these groups have committed of these partitions. A cluster of which none is named is asked whether it
    answers."""

    groups: tuple[GroupId, ...]
    partitions: frozenset[UpstreamPartition]


@dataclass(frozen=True, slots=True)
class LogOffsets:
    """Offsets by time, as ListOffsets means it: -1 latest, -2 earliest, -3 of the largest timestamp, else ms."""

    times: Mapping[UpstreamPartition, int]
    read_committed: bool


@dataclass(frozen=True, slots=True)
class SetOffsets:
    """Commit these for a group without members."""

    group: GroupId
    offsets: Mapping[UpstreamPartition, int]


@dataclass(frozen=True, slots=True)
class DeleteGroups:
    """Forget these groups on every cluster."""

    groups: tuple[GroupId, ...]


Question: TypeAlias = GroupOffsets | LogOffsets | SetOffsets | DeleteGroups


@dataclass(frozen=True, slots=True)
class CommittedUpstream:
    """By group. errors: of clusters that did not answer; their partitions are missing in `offsets`."""

    offsets: Mapping[GroupId, Mapping[UpstreamPartition, int]]
    errors: Mapping[GroupId, Mapping[ClusterName, ErrorCode]]


@dataclass(frozen=True, slots=True)
class LogOffset:
    """An offset of an upstream log that was asked for by time. offset, timestamp: -1 where there is none. timestamp:
    ms."""

    error: ErrorCode
    offset: int = -1
    timestamp: int = -1


@dataclass(frozen=True, slots=True)
class LogOffsetsFound:
    offsets: Mapping[UpstreamPartition, LogOffset]


@dataclass(frozen=True, slots=True)
class OffsetsSet:
    errors: Mapping[UpstreamPartition, ErrorCode]


@dataclass(frozen=True, slots=True)
class GroupsDeleted:
    errors: Mapping[GroupId, ErrorCode]
