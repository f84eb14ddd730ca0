"""What the mesh of the demo says of itself at its admin address, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

_IN = "kafka_mesh_records_in_total"
_OUT = "kafka_mesh_records_out_total"
_BACKLOG = "kafka_mesh_backlog_records"


@dataclass(frozen=True, slots=True)
class SeenMember:
    """A member of a group. held: records it was given and has not settled. delivered: what it was ever given;
    redelivered: what of that had been given to somebody before. committed: seconds since its last commit.
    reason: why it gets nothing, if it gets nothing."""

    id: str
    group: str
    client_id: str
    held: int
    delivered: int
    redelivered: int
    committed: float | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class SeenTopic:
    """Records of a topic since the start. received: by cluster, once for each group. delivered, backlog: over all
    groups."""

    name: str
    received: Mapping[str, int]
    delivered: int
    backlog: int


@dataclass(frozen=True, slots=True)
class Seen:
    """What /status and /metrics say at one moment. at: seconds, of any clock."""

    at: float
    members: tuple[SeenMember, ...]
    topics: tuple[SeenTopic, ...]


def seen(at: float, status: Mapping[str, Any], metrics: str) -> Seen:
    """status: what /status answers; metrics: what /metrics does."""
    members = (
        SeenMember(
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
    return Seen(at, tuple(members), _topics(metrics))


def _topics(metrics: str) -> tuple[SeenTopic, ...]:
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
        SeenTopic(name, dict(sorted(by_cluster.items())), totals.get((_OUT, name), 0), totals.get((_BACKLOG, name), 0))
        for name, by_cluster in sorted(received.items())
    )
