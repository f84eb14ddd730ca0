"""Checks librdkafka's properties: those that the mesh sets itself are reserved, all others are tried on librdkafka."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from mesh.config.secrets import HIDDEN, is_secret_name

RESERVED: Final[Mapping[str, str]] = {
    "bootstrap.servers": "bootstrap_servers",
    "metadata.broker.list": "bootstrap_servers",
    "group.id": "upstream_group_prefix",
    "group.instance.id": "process_id",
    "group.protocol": "",
    "group.remote.assignor": "",
    "partition.assignment.strategy": "",
    "enable.auto.commit": "acknowledge",
    "auto.commit.enable": "acknowledge",
    "auto.commit.interval.ms": "acknowledge",
    "enable.auto.offset.store": "",
    "auto.offset.reset": "start",
    "isolation.level": "isolation",
    "enable.partition.eof": "",
    "max.poll.interval.ms": "",
    "queued.min.messages": "budgets",
    "queued.max.messages.kbytes": "budgets",
    "allow.auto.create.topics": "",
    "heartbeat.interval.ms": "",
    "fetch.queue.backoff.ms": "",
    "fetch.max.bytes": "budgets",
    "fetch.message.max.bytes": "budgets",
    "max.partition.fetch.bytes": "budgets",
    "message.max.bytes": "",
    "statistics.interval.ms": "",
    "enable.metrics.push": "",
    "logger": "",
    "oauth_cb": "login",
    "topic.metadata.refresh.interval.ms": "metadata_refresh",
}
"""Properties that the mesh sets itself, each with the key of the configuration that decides its value, or ""."""


def refused_properties(properties: Mapping[str, str]) -> Iterator[tuple[str | None, str]]:
    """Yields the name of each property that cannot be used, and the allowed values. The name is None if the combination
    is wrong."""
    for name in [name for name in properties if name in RESERVED]:
        key = RESERVED[name]
        yield name, "kafka-mesh sets this itself" + (f"; see the key {key}" if key else "")
    remaining = {name: value for name, value in properties.items() if name not in RESERVED}
    while reason := _refusal(remaining):
        # librdkafka reports one property at a time, and names it only in its text.
        named = [name for name in sorted(remaining, key=len, reverse=True) if name in reason]
        if not named:
            yield None, f"librdkafka: {reason}"
            return
        yield named[0], f"librdkafka: {reason}"
        del remaining[named[0]]


def _refusal(properties: Mapping[str, str]) -> str:
    from confluent_kafka import Consumer, KafkaException

    from mesh.upstream.property_files import check_files

    try:
        check_files(properties)
        # Without bootstrap servers it connects to nothing. With its own log the problem would be reported twice.
        consumer = Consumer({"group.id": "kafka-mesh-check", "log_level": "0", **properties})
    except KafkaException as error:
        text = str(error.args[0].str())
    except (TypeError, ValueError) as error:
        text = str(error)
    else:
        consumer.close()
        return ""
    for name, value in properties.items():
        if value and is_secret_name(name):
            text = text.replace(value, HIDDEN)
    return text
