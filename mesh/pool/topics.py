"""Virtual topics: which partitions of which upstream clusters stand behind the partitions that clients see.

Partitions of several sources are concatenated in the order of the configuration. While the process runs, a partition
keeps its number: new ones are appended, and a source that comes late comes last.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mesh.records.spans import ClusterName, TopicName, UpstreamPartition

TOPIC_IDS = uuid.UUID("6b61666b-612d-6d65-7368-2d746f706963")
"""The namespace of topic ids: a name always has the same id, in every process and after every restart."""


@dataclass(frozen=True, slots=True)
class Source:
    """A topic of an upstream cluster."""

    cluster: ClusterName
    topic: TopicName


@dataclass(frozen=True, slots=True)
class ExplicitTopic:
    """A topic of the virtual cluster and the topics that feed it."""

    name: TopicName
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class PrefixRule:
    """Topics of an upstream cluster that appear under their own names."""

    prefix: str
    cluster: ClusterName


class VirtualTopics:
    """The topics of one virtual cluster, as far as their sources are known."""

    def __init__(self, virtual_cluster: str, topics: Iterable[ExplicitTopic], rules: Iterable[PrefixRule]) -> None:
        self._virtual_cluster = virtual_cluster
        self._explicit = {topic.name: topic for topic in topics}
        self._rules = tuple(rules)
        self._fed = {source for topic in self._explicit.values() for source in topic.sources}
        self._partitions: dict[TopicName, list[UpstreamPartition]] = {}
        self._numbers: dict[UpstreamPartition, tuple[TopicName, int]] = {}
        self._ids: dict[uuid.UUID, TopicName] = {}
        self._upstream: dict[ClusterName, Mapping[TopicName, int]] = {}

    def __contains__(self, name: TopicName) -> bool:
        return name in self._partitions

    def names(self) -> list[TopicName]:
        return sorted(self._partitions)

    def partitions(self, name: TopicName) -> list[UpstreamPartition]:
        """What stands behind partition 0, 1, … of a topic; empty for a topic that is not known."""
        return self._partitions.get(name, [])

    def counts(self) -> dict[TopicName, int]:
        """How many partitions each topic has."""
        return {name: len(partitions) for name, partitions in self._partitions.items()}

    def partition(self, name: TopicName, index: int) -> UpstreamPartition | None:
        sources = self._partitions.get(name)
        return sources[index] if sources is not None and 0 <= index < len(sources) else None

    def number(self, source: UpstreamPartition) -> tuple[TopicName, int] | None:
        """The topic and partition under which clients see an upstream partition."""
        return self._numbers.get(source)

    def sources(self) -> frozenset[UpstreamPartition]:
        """All upstream partitions that clients see."""
        return frozenset(self._numbers)

    def topic_id(self, name: TopicName) -> uuid.UUID:
        return uuid.uuid5(TOPIC_IDS, f"{self._virtual_cluster}/{name}")

    def name_of(self, topic_id: uuid.UUID) -> TopicName | None:
        return self._ids.get(topic_id)

    def might_exist(self, name: TopicName) -> bool:
        """Whether the configuration has a place for a topic of that name."""
        return name in self._explicit or any(name.startswith(rule.prefix) for rule in self._rules)

    def update(self, cluster: ClusterName, topics: Mapping[TopicName, int]) -> bool:
        """Take note of all topics of one upstream cluster and their partition counts; returns whether a client would
        see a difference. A topic disappears when none of its sources exists any more."""
        self._upstream[cluster] = topics
        before = self.counts()
        for name, explicit in self._explicit.items():
            self._refresh(name, explicit.sources)
        for name, source in self._by_prefix().items():
            self._refresh(name, (source,))
        for name in list(self._partitions):
            if not any(self._count(Source(p.cluster, p.topic)) for p in self._partitions[name]):
                self._forget(name)
        return before != self.counts()

    def _count(self, source: Source) -> int:
        return self._upstream.get(source.cluster, {}).get(source.topic, 0)

    def _by_prefix(self) -> dict[TopicName, Source]:
        found: dict[TopicName, Source] = {}
        for cluster, topics in self._upstream.items():
            for topic in topics:
                source = Source(cluster, topic)
                if self._cluster_by_prefix(topic) == cluster and source not in self._fed:
                    found[topic] = source
        known = {name for name in found if name in self._partitions}
        for name in known:  # a topic stays with the source it began with
            first = self._partitions[name][0]
            found[name] = Source(first.cluster, first.topic)
        return found

    def _cluster_by_prefix(self, name: TopicName) -> ClusterName | None:
        """The first rule that matches decides, whether or not its cluster has the topic."""
        if name in self._explicit:
            return None
        return next((rule.cluster for rule in self._rules if name.startswith(rule.prefix)), None)

    def _refresh(self, name: TopicName, sources: tuple[Source, ...]) -> None:
        for source in sources:
            count = self._count(source)
            if not count:
                continue
            partitions = self._partitions.setdefault(name, [])
            self._ids[self.topic_id(name)] = name
            for index in range(count):
                upstream = UpstreamPartition(source.cluster, source.topic, index)
                if upstream not in self._numbers:
                    self._numbers[upstream] = (name, len(partitions))
                    partitions.append(upstream)

    def _forget(self, name: TopicName) -> None:
        for partition in self._partitions.pop(name):
            del self._numbers[partition]
        del self._ids[self.topic_id(name)]
