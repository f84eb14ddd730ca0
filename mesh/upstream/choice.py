"""Which engine reads the records of an upstream cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from mesh.records.spans import ClusterName
from mesh.security.client_properties import reason_against
from mesh.upstream.access import access_of
from mesh.upstream.buffers import ReceiveBuffers
from mesh.upstream.engine import Engine, EngineEvent
from mesh.upstream.librdkafka import LibrdkafkaEngine
from mesh.upstream.raw.engine import RawEngine

EngineName = Literal["raw", "librdkafka"]


@dataclass(frozen=True, slots=True)
class Choice:
    """reason: why it is librdkafka though raw was to be preferred, "" if it was not."""

    engine: EngineName
    reason: str = ""


def choose(wanted: Literal["auto", "raw", "librdkafka"], properties: Mapping[str, str]) -> Choice:
    """`raw` comes back as librdkafka too if it is not possible."""
    if wanted == "librdkafka":
        return Choice("librdkafka")
    if (reason := reason_against(properties)) is not None:
        return Choice("librdkafka", reason)
    try:
        access_of(properties)
    except OSError as problem:  # SSLError is one
        return Choice("librdkafka", f"a file of the ssl properties cannot be used: {problem}")
    return Choice("raw")


@dataclass(frozen=True, slots=True)
class Membership:
    """Of one process in one upstream group. buffer_bytes: what may be fetched ahead."""

    group_id: str
    instance_id: str | None
    start: Literal["earliest", "latest"]
    isolation: Literal["read_committed", "read_uncommitted"]
    buffer_bytes: int
    session_timeout_ms: int | None = None


def make_engine(
    name: EngineName,
    cluster: ClusterName,
    bootstrap_servers: str,
    properties: Mapping[str, str],
    membership: Membership,
    deliver: Callable[[EngineEvent], None],
    buffers: ReceiveBuffers,
) -> Engine:
    """On the event loop that is running."""
    arguments = (
        cluster,
        bootstrap_servers,
        properties,
        membership.group_id,
        membership.instance_id,
        membership.start,
        membership.isolation,
        membership.buffer_bytes,
        membership.session_timeout_ms,
        deliver,
        asyncio.get_running_loop(),
    )
    return RawEngine(*arguments, buffers) if name == "raw" else LibrdkafkaEngine(*arguments)
