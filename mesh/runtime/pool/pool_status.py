"""The state of all pools as JSON, for `/status` and `kafka-mesh status`. docs/tools.md explains the keys."""

from __future__ import annotations

from typing import Any

from mesh.pool.core import PoolCore
from mesh.pool.inspection import MemberView, PartitionView, view
from mesh.runtime.pool.replay_status import replays_of

Status = dict[str, Any]
MOST_MEMBERS = 1_000
"""The most members of one pool that are listed; `members` counts all."""


def status_of(core: PoolCore, now: float, today: float) -> Status:
    """Returns the state of the pools as JSON. now: seconds on the clock of the pools. today: seconds since the epoch,
    for the age of records."""
    views = [(pool, view(pool, core.topics, now)) for _, pool in sorted(core.pools.items())]
    return {
        "pools": [
            {
                "group": each.group,
                "state": each.state,
                "member_count": len(each.members),
                "lag": sum(partition.lag or 0 for partition in each.partitions),
                "members": [_member(member, now) for member in each.members[:MOST_MEMBERS]],
                "partitions": [_partition(partition, now, today) for partition in each.partitions],
                "replays": replays_of(pool),
            }
            for pool, each in views
        ],
    }


def _member(member: MemberView, now: float) -> Status:
    return {
        "id": member.name,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "instance_id": member.instance_id,
        "connections": member.connections,
        "protocol": member.protocol,
        "acknowledge": member.acknowledge,
        "records": member.records,
        "spans": member.spans,
        "cap": member.cap,
        "delivered": member.delivered,
        "redelivered": member.redelivered,
        "last_commit_seconds": _ago(member.committed_at, now),
        "oldest_held_seconds": _ago(member.held_since, now),
        "last_heard_seconds": _ago(member.heard, now),
        "reason": member.reason,
    }


def _partition(partition: PartitionView, now: float, today: float) -> Status:
    oldest = None
    if partition.oldest is not None:
        stamp = partition.timestamp
        oldest = {
            "offset": partition.oldest,
            "member": partition.holder,
            "held_seconds": _ago(partition.oldest_since, now),
            "record_age_seconds": round(today - stamp / 1000, 3) if stamp is not None and stamp >= 0 else None,
        }
    topic, index = partition.name
    return {
        "topic": topic,
        "partition": index,
        "cluster": partition.source.cluster,
        "upstream_topic": partition.source.topic,
        "upstream_partition": partition.source.partition,
        "standing": partition.ownership,
        "source": "down" if partition.is_down else "up",
        "committed": partition.committed,
        "end": partition.end,
        "lag": partition.lag,
        "backlog": partition.backlog,
        "oldest_unacknowledged": oldest,
    }


def _ago(then: float | None, now: float) -> float | None:
    return None if then is None else round(max(now - then, 0.0), 3)
