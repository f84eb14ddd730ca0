"""Reads from Kafka for an audit: the journal's pages, the upstream logs, and the commits of a group.

The executors share the reading by ranges of offsets; a plain consumer without a group reads each range.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka import admin as kafka_admin
from confluent_kafka.admin import AdminClient

from mesh.journal.pages import NotAPage, ReadPage, decode
from mesh.pipelines.audit.intervals import Run
from mesh.pool.offsets.metadata import unpack
from mesh.pool.offsets.payload import ForeignMetadata
from mesh.records.spans import ClusterName, TopicName, UpstreamPartition

OFFSETS_OF_A_TASK: Final = 500_000
TIMEOUT: Final = 30.0
GIVE_UP_AFTER: Final = 120.0
"""Seconds without an answer, after which reading fails."""
_READING: Final[Mapping[str, Any]] = {
    "group.id": "kafka-mesh-audit",  # librdkafka requires a group id; nothing joins or commits with it
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "auto.offset.reset": "earliest",
    "fetch.wait.max.ms": 50,
    "queued.min.messages": 100_000,
}
Properties = Mapping[str, str]


class UnreadableCluster(RuntimeError):
    """Raised when a cluster refuses, or does not answer."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The offsets [begin, end) of one partition to be read."""

    cluster: str
    topic: str
    partition: int
    begin: int
    end: int

    def cut(self, most: int = OFFSETS_OF_A_TASK) -> Iterator[Stretch]:
        for begin in range(self.begin, self.end, most):
            yield Stretch(self.cluster, self.topic, self.partition, begin, min(begin + most, self.end))


@dataclass(frozen=True, slots=True)
class LogOfTopic:
    """The bounds of a partition's log: its start, and the end of its readable records. is_compacted: whether compaction
    may remove records anywhere in it."""

    start: int
    end: int
    is_compacted: bool = False


def logs(properties: Properties, topics: Iterable[str]) -> dict[tuple[str, int], LogOfTopic]:
    """Returns the log of every partition of these topics. Raises UnreadableCluster."""
    admin = AdminClient(dict(properties))
    try:
        found = {name: admin.list_topics(name, timeout=TIMEOUT).topics[name] for name in topics}
        partitions = [TopicPartition(name, each) for name, topic in found.items() for each in topic.partitions]
        ends: list[dict[tuple[str, int], int]] = []
        specs: Any = kafka_admin
        for spec in (specs.OffsetSpec.earliest(), specs.OffsetSpec.latest()):
            asked = admin.list_offsets(
                dict.fromkeys(partitions, spec), isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=TIMEOUT
            )
            ends.append({(each.topic, each.partition): future.result().offset for each, future in asked.items()})
    except KafkaException as problem:
        raise UnreadableCluster(problem.args[0].str()) from problem
    return {key: LogOfTopic(start, ends[1][key]) for key, start in ends[0].items()}


def compacted(properties: Properties, topics: Iterable[str]) -> set[str]:
    """Returns the topics that are compacted, or may be: a user that may read a topic need not be allowed to see its
    configuration."""
    admin = AdminClient(dict(properties))
    kinds: Any = kafka_admin
    asked = admin.describe_configs(
        [kinds.ConfigResource(kinds.ResourceType.TOPIC, name) for name in topics], request_timeout=TIMEOUT
    )
    found = set()
    for resource, future in asked.items():
        try:
            policy = future.result().get("cleanup.policy")
        except KafkaException:
            policy = None
        if policy is None or "compact" in policy.value:
            found.add(resource.name)
    return found


def offsets_at(properties: Properties, topic: str, time: int) -> dict[str, int]:
    """Returns the first offset of each partition that is not older than this time, in ms since the epoch. Where there
    is none, the offset is beyond the log's end. Raises UnreadableCluster."""
    admin = AdminClient(dict(properties))
    specs: Any = kafka_admin
    try:
        known = admin.list_topics(topic, timeout=TIMEOUT).topics[topic].partitions
        wanted = {TopicPartition(topic, each): specs.OffsetSpec.for_timestamp(max(time, 0)) for each in known}
        asked = admin.list_offsets(wanted, request_timeout=TIMEOUT)
        found = {str(each.partition): future.result().offset for each, future in asked.items()}
    except KafkaException as problem:
        raise UnreadableCluster(problem.args[0].str()) from problem
    return {partition: offset if offset >= 0 else _BEYOND for partition, offset in found.items()}


_BEYOND: Final = 1 << 62


def claims(
    properties: Properties, group: str, cluster: str, partitions: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], list[Run]]:
    """Returns the offsets that a group has settled according to its commits: those below the committed offset, and
    those in the metadata. Raises UnreadableCluster."""
    consumer = Consumer({**properties, **_READING, "group.id": group})
    try:
        committed = consumer.committed([TopicPartition(*each) for each in partitions], timeout=TIMEOUT)
    except KafkaException as problem:
        raise UnreadableCluster(problem.args[0].str()) from problem
    finally:
        consumer.close()
    found: dict[tuple[str, int], list[Run]] = {}
    for each in committed:
        offset: Any = each.offset
        if offset < 0:
            continue
        source = UpstreamPartition(ClusterName(cluster), TopicName(each.topic), each.partition)
        runs = [(0, offset - 1)] if offset else []
        try:
            known = unpack(source, offset, (each.metadata or "").rstrip("\0"))
            runs += [(run.first, run.last) for run in known.runs]
        except ForeignMetadata:
            pass  # another program wrote this metadata; its offset still counts
        found[each.topic, each.partition] = runs
    return found


def read_pages(properties: Properties, stretch: Stretch) -> Iterator[ReadPage]:
    """Yields the journal's pages in a stretch. Raises UnreadableCluster."""
    for message in _messages(properties, stretch):
        try:
            yield decode(message.value() or b"")
        except NotAPage:
            continue  # another program may have written it; a lost page shows as a gap in the sequence


def read_runs(properties: Properties, stretch: Stretch, window: int) -> Iterator[tuple[int, int, int]]:
    """Yields the runs of offsets with a record that can be consumed: first, last, and the window (ms) of their
    timestamps. Raises UnreadableCluster."""
    first = last = -1
    current = 0
    for message in _messages(properties, stretch):
        offset, timestamp = message.offset(), message.timestamp()[1]
        its = timestamp - timestamp % window
        if offset != last + 1 or its != current:
            if first >= 0:
                yield first, last, current
            first, current = offset, its
        last = offset
    if first >= 0:
        yield first, last, current


def _messages(properties: Properties, stretch: Stretch) -> Iterator[Any]:
    consumer = Consumer({**properties, **_READING})
    try:
        consumer.assign([TopicPartition(stretch.topic, stretch.partition, stretch.begin)])
        heard = time.monotonic()
        while True:
            for message in consumer.consume(10_000, 0.05):
                heard = time.monotonic()
                error = message.error()
                if error is None:
                    offset: Any = message.offset()
                    if offset >= stretch.end:
                        return
                    yield message
                    if offset == stretch.end - 1:
                        return
                elif error.code() == KafkaError._PARTITION_EOF:
                    return
                elif not error.retriable() and error.code() not in _PASSING:
                    raise UnreadableCluster(f"{stretch}: {error.str()}")
            if time.monotonic() - heard > GIVE_UP_AFTER:
                raise UnreadableCluster(f"nothing came of {stretch} for {GIVE_UP_AFTER:g} s")
    finally:
        consumer.close()


_PASSING: Final = frozenset({KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT})
