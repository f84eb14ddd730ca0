"""Queries and changes of tools for the upstream clusters, and their answers, with upstream names and offsets.

They do not use the pool's own state: a tool sees the state of Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from mesh.pool.common.ids import GroupId
from mesh.records.spans import ClusterName, UpstreamPartition
from mesh.wire.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class FindGroupOffsets:
    """A query for the committed offsets of these groups in these partitions. A cluster without any of the partitions is
    only checked for an answer."""

    groups: tuple[GroupId, ...]
    partitions: frozenset[UpstreamPartition]


@dataclass(frozen=True, slots=True)
class LogOffsets:
    """A query for offsets by time, as in ListOffsets: -1 latest, -2 earliest, -3 the offset of the largest timestamp,
    else ms."""

    times: Mapping[UpstreamPartition, int]
    read_committed: bool


@dataclass(frozen=True, slots=True)
class SetOffsets:
    """Commits these offsets for a group without members."""

    group: GroupId
    offsets: Mapping[UpstreamPartition, int]


@dataclass(frozen=True, slots=True)
class DeleteGroups:
    """Deletes these groups on every cluster."""

    groups: tuple[GroupId, ...]


@dataclass(frozen=True, slots=True)
class DeleteOffsets:
    """Deletes the group's committed offsets of these partitions."""

    group: GroupId
    partitions: frozenset[UpstreamPartition]


Question: TypeAlias = FindGroupOffsets | LogOffsets | SetOffsets | DeleteGroups | DeleteOffsets


@dataclass(frozen=True, slots=True)
class CommittedUpstream:
    """The committed offsets upstream, by group. errors: the errors of clusters that did not answer. Their partitions
    are missing in `offsets`."""

    offsets: Mapping[GroupId, Mapping[UpstreamPartition, int]]
    errors: Mapping[GroupId, Mapping[ClusterName, ErrorCode]]


@dataclass(frozen=True, slots=True)
class LogOffset:
    """An offset of an upstream log for a requested time. offset, timestamp (ms): -1 for none."""

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
class OffsetsDeleted:
    """The result of deleting offsets. The error of a whole cluster appears at each of its partitions."""

    errors: Mapping[UpstreamPartition, ErrorCode]


@dataclass(frozen=True, slots=True)
class GroupsDeleted:
    errors: Mapping[GroupId, ErrorCode]
