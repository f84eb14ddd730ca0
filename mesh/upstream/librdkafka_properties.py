"""The properties of the mesh's librdkafka clients: the user's, and ours, which take precedence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from mesh.security.client_properties import TOKENS
from mesh.upstream.engine import EngineOptions
from mesh.upstream.librdkafka_log import LOG

Properties: TypeAlias = Mapping[str, Any]
"""Properties of librdkafka, with the callbacks and the logger of confluent-kafka. They hold secrets: never log them."""

STATIC_SESSION_MS = 45_000
"""Milliseconds. A static member gets its partitions again at once after a crash, so its session may be long."""
DYNAMIC_SESSION_MS = 10_000
"""Milliseconds. Without a process id, the partitions of a crashed process wait this long."""
EAGER = "range,roundrobin"
COOPERATIVE = "cooperative-sticky"
"""The assignors of the two families. librdkafka joins with assignors of one family only."""

_SMALLEST_QUEUE = 64 << 10
_LARGEST_FETCH = 1 << 20
_SMALLEST_PARTITION_FETCH = 64 << 10

# The user's values take precedence over these. A broker that hangs is noticed after 10 s, not 60; one that comes back
# is found after 1 s, not 10.
_CUSTOMARY: Properties = {
    "socket.timeout.ms": 10_000,
    "reconnect.backoff.max.ms": 1_000,
    "topic.metadata.refresh.interval.ms": 10_000,
}
_ALWAYS: Properties = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "earliest",
    "enable.partition.eof": True,
    "allow.auto.create.topics": False,
    "fetch.queue.backoff.ms": 10,
    # librdkafka requires fetch.max.bytes to be at least as large; it bounds nothing that a consumer receives.
    "message.max.bytes": 1_000_000,
    "statistics.interval.ms": 0,
    "enable.metrics.push": False,
}
_CONNECTION = (
    *("bootstrap.", "broker.", "client.", "https.", "reconnect.", "sasl.", "security.", "socket.", "ssl."),
    *("enable.sasl.", "enable.ssl.", TOKENS),
)


def consumer_properties(options: EngineOptions) -> dict[str, Any]:
    """Returns the properties of a pool's consumer. It prefetches about `buffer_bytes` over all partitions.

    librdkafka counts the bytes of values only, and adds some 300 of its own to each record. So small records are
    bounded by their number, 10,000 a partition: with 4 MiB and 3 partitions 14-60 MB of 10-byte values were kept. Large
    records that are highly compressed are not bounded: the limit of a fetch is for compressed bytes.
    """
    properties, buffer_bytes = options.properties, options.buffer_bytes
    queued = max(buffer_bytes, _SMALLEST_QUEUE)
    default_session = STATIC_SESSION_MS if options.instance_id is not None else DYNAMIC_SESSION_MS
    session = options.session_timeout_ms or int(properties.get("session.timeout.ms", default_session))
    ours: dict[str, Any] = {
        "bootstrap.servers": options.bootstrap_servers,
        "logger": LOG.named(options.cluster, options.group_id),
        "group.id": options.group_id,
        "session.timeout.ms": session,
        "isolation.level": options.isolation,
        "queued.max.messages.kbytes": queued >> 10,
        "queued.min.messages": 10_000,
        "fetch.max.bytes": _LARGEST_FETCH,
        "max.partition.fetch.bytes": min(max(buffer_bytes // 16, _SMALLEST_PARTITION_FETCH), _LARGEST_FETCH),
    }
    if options.instance_id is not None:
        ours["group.instance.id"] = options.instance_id
    # A member notices a rebalance at its next heartbeat.
    customary = {**_CUSTOMARY, "heartbeat.interval.ms": min(3_000, session // 3)}
    return {**customary, **properties, **_ALWAYS, **ours}


def reader_properties(options: EngineOptions) -> dict[str, Any]:
    """Returns the properties of a consumer that rereads spans outside any group. librdkafka requires a group id all the
    same."""
    ours = {
        "bootstrap.servers": options.bootstrap_servers,
        "logger": LOG.named(options.cluster, options.group_id),
        "group.id": options.group_id,
        "isolation.level": options.isolation,
        "queued.max.messages.kbytes": 1_024,
        "queued.min.messages": 10_000,
        "fetch.max.bytes": _LARGEST_FETCH,
    }
    theirs = {name: value for name, value in options.properties.items() if name != "group.instance.id"}
    return {**_CUSTOMARY, **theirs, **_ALWAYS, **ours}


def connection_properties(properties: Properties) -> dict[str, Any]:
    """Returns the properties for connecting and authenticating, for a client that consumes nothing. The logger in
    `properties` stays, if there is one."""
    return {
        **{name: value for name, value in _CUSTOMARY.items() if name.startswith(_CONNECTION)},
        "logger": properties.get("logger", LOG),
        **{name: value for name, value in properties.items() if name.startswith(_CONNECTION)},
    }
