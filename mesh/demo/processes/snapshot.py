"""A snapshot of the demo's mesh from its admin address, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

_IN = "kafka_mesh_records_in_total"
_OUT = "kafka_mesh_records_out_total"
_BACKLOG = "kafka_mesh_backlog_records"


@dataclass(frozen=True, slots=True)
class MemberSnapshot:
    """A member of a group. held: records that it got and has not settled. delivered: all records that it ever got.
    redelivered: those that another member had before. committed: seconds since its last commit. reason: why it gets
    nothing, None if it does."""

    id: str
    group: str
    client_id: str
    held: int
    delivered: int
    redelivered: int
    committed: float | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class TopicSnapshot:
    """Records of a topic since the start. received: by cluster, once for each group. delivered, backlog: over all
    groups."""

    name: str
    received: Mapping[str, int]
    delivered: int
    backlog: int


@dataclass(frozen=True, slots=True)
class MeshSnapshot:
    """A snapshot of /status and /metrics. at: seconds, by any clock."""

    at: float
    members: tuple[MemberSnapshot, ...]
    topics: tuple[TopicSnapshot, ...]


def snapshot_of(at: float, status: Mapping[str, Any], metrics: str) -> MeshSnapshot:
    """Returns a snapshot. at: seconds, by any clock. status: the answer of /status. metrics: the answer of /metrics."""
    members = (
        MemberSnapshot(
            id=member["id"],
            group=pool["group"],
            client_id=member["client_id"],
            held=member["records"],
            delivered=member["delivered"],
            redelivered=member["redelivered"],
            committed=member["last_commit_seconds"],
            reason=member["reason"],
        )
        for cluster in status["virtual_clusters"]
        for pool in cluster["pools"]
        for member in pool["members"]
    )
    return MeshSnapshot(at, tuple(members), _topics(metrics))


def _topics(metrics: str) -> tuple[TopicSnapshot, ...]:
    received: dict[str, dict[str, int]] = {}
    totals: dict[tuple[str, str], int] = {}
    for family in text_string_to_metric_families(metrics):
        for sample in family.samples:
            if sample.name == _IN:
                received.setdefault(sample.labels["topic"], {})[sample.labels["cluster"]] = int(sample.value)
            elif sample.name in (_OUT, _BACKLOG):
                key = (sample.name, sample.labels["topic"])
                totals[key] = totals.get(key, 0) + int(sample.value)
    return tuple(
        TopicSnapshot(
            name, dict(sorted(by_cluster.items())), totals.get((_OUT, name), 0), totals.get((_BACKLOG, name), 0)
        )
        for name, by_cluster in sorted(received.items())
    )
