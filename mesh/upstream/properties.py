"""What the mesh's librdkafka clients are made with: the user's properties, and ours, which win."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

STATIC_SESSION_MS = 45_000
"""A static member is assigned again at once after a crash; so its session may be long."""
DYNAMIC_SESSION_MS = 10_000
"""Without a process id a crashed process's partitions wait for this long."""


def consumer_properties(
    bootstrap_servers: str,
    properties: Mapping[str, str],
    group_id: str,
    instance_id: str | None,
    isolation: Literal["read_committed", "read_uncommitted"],
    buffer_bytes: int,
    session_timeout_ms: int | None,
) -> dict[str, str | int | bool]:
    """For the consumer of a pool. buffer_bytes bounds what librdkafka keeps of one partition before we take it."""
    kilobytes = max(buffer_bytes // 1024, 64)
    default_session = STATIC_SESSION_MS if instance_id is not None else DYNAMIC_SESSION_MS
    session = session_timeout_ms or int(properties.get("session.timeout.ms", default_session))
    ours: dict[str, str | int | bool] = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group_id,
        "session.timeout.ms": session,
        "heartbeat.interval.ms": min(3_000, session // 3),
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "earliest",
        "partition.assignment.strategy": "range,roundrobin",
        "isolation.level": isolation,
        "enable.partition.eof": True,
        "allow.auto.create.topics": False,
        "queued.max.messages.kbytes": kilobytes,
        "queued.min.messages": 100_000,
        "fetch.queue.backoff.ms": 10,
        "max.partition.fetch.bytes": min(1 << 20, kilobytes * 1024),
        "topic.metadata.refresh.interval.ms": 10_000,
    }
    if instance_id is not None:
        ours["group.instance.id"] = instance_id
    return {**properties, **ours}


def reader_properties(
    bootstrap_servers: str,
    properties: Mapping[str, str],
    group_id: str,
    isolation: Literal["read_committed", "read_uncommitted"],
) -> dict[str, str | int | bool]:
    """For a consumer that reads spans again, outside any group. librdkafka wants a group id all the same."""
    ours: dict[str, str | int | bool] = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group_id,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "earliest",
        "isolation.level": isolation,
        "enable.partition.eof": True,
        "allow.auto.create.topics": False,
        "queued.max.messages.kbytes": 1_024,
        "fetch.queue.backoff.ms": 10,
    }
    return {**properties, **ours}
