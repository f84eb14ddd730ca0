"""Virtual topics: maps the partitions that clients see to partitions of upstream clusters.

Partitions of several sources are concatenated in the order of the configuration. While the process runs, a partition
keeps its number: new partitions are appended, and a source that appears late comes last. A source that is no longer
configured stays listed while its topic exists, and delivers nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mesh.records.spans import ClusterName, TopicName, UpstreamPartition

TOPIC_IDS = uuid.UUID("6b61666b-612d-6d65-7368-2d746f706963")
"""The namespace of topic ids. A name has the same id in every process and after every restart."""


@dataclass(frozen=True, slots=True)
class Source:
    """A topic of an upstream cluster that feeds a virtual topic."""

    cluster: ClusterName
    topic: TopicName


@dataclass(frozen=True, slots=True)
class ExplicitTopic:
    """A topic of the virtual cluster, with the upstream topics that feed it."""

    name: TopicName
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class PrefixRule:
    """A rule for topics of an upstream cluster that appear under their own names."""

    prefix: str
    cluster: ClusterName


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between two configurations of topics.

    moves: whether a partition would move to another topic. left: clusters with a source that would no longer be
    consumed.
    """

    moves: bool
    left: frozenset[ClusterName]


class VirtualTopics:
    """The topics of one virtual cluster whose sources are known to exist."""

    def __init__(self, virtual_cluster: str, topics: Iterable[ExplicitTopic], rules: Iterable[PrefixRule]) -> None:
        self._virtual_cluster = virtual_cluster
        self._configure(topics, rules)
        self.withheld: set[ClusterName] = set()
        """Clusters from which nothing is consumed now."""
        self._partitions: dict[TopicName, list[UpstreamPartition]] = {}
        self._numbers: dict[UpstreamPartition, tuple[TopicName, int]] = {}
        self._ids: dict[uuid.UUID, TopicName] = {}
        self._upstream: dict[ClusterName, Mapping[TopicName, int]] = {}
        self.version = 0
        """Changes whenever clients would see a difference."""

    def _configure(self, topics: Iterable[ExplicitTopic], rules: Iterable[PrefixRule]) -> None:
        self._explicit = {topic.name: topic for topic in topics}
        self._rules = tuple(rules)
        self._fed = {source for topic in self._explicit.values() for source in topic.sources}

    def __contains__(self, name: TopicName) -> bool:
        return name in self._partitions

    def names(self) -> list[TopicName]:
        return sorted(self._partitions)

    def partitions(self, name: TopicName) -> list[UpstreamPartition]:
        """Returns the upstream partitions behind partition 0, 1, … of a topic; empty for an unknown topic."""
        return self._partitions.get(name, [])

    def counts(self) -> dict[TopicName, int]:
        """Returns the number of partitions of each topic."""
        return {name: len(partitions) for name, partitions in self._partitions.items()}

    def partition(self, name: TopicName, index: int) -> UpstreamPartition | None:
        sources = self._partitions.get(name)
        return sources[index] if sources is not None and 0 <= index < len(sources) else None

    def number(self, source: UpstreamPartition) -> tuple[TopicName, int] | None:
        """Returns the topic and partition number under which clients see an upstream partition."""
        return self._numbers.get(source)

    def sources(self) -> frozenset[UpstreamPartition]:
        """Returns all upstream partitions that clients see."""
        return frozenset(self._numbers)

    def consumed(self, name: TopicName) -> list[UpstreamPartition]:
        """Returns the partitions of a topic that are to be consumed: those that are configured, in clusters that are
        not withheld."""
        sources = self._sources(name)
        return [
            partition
            for partition in self.partitions(name)
            if Source(partition.cluster, partition.topic) in sources and partition.cluster not in self.withheld
        ]

    def is_consumed(self, source: UpstreamPartition) -> bool:
        number = self._numbers.get(source)
        is_fed = number is not None and Source(source.cluster, source.topic) in self._sources(number[0])
        return is_fed and source.cluster not in self.withheld

    def topic_id(self, name: TopicName) -> uuid.UUID:
        return uuid.uuid5(TOPIC_IDS, f"{self._virtual_cluster}/{name}")

    def name_of(self, topic_id: uuid.UUID) -> TopicName | None:
        return self._ids.get(topic_id)

    def might_exist(self, name: TopicName) -> bool:
        """Returns whether the configuration allows a topic of that name."""
        return name in self._explicit or any(name.startswith(rule.prefix) for rule in self._rules)

    def update(self, cluster: ClusterName, topics: Mapping[TopicName, int]) -> bool:
        """Takes over all topics of one upstream cluster, with their numbers of partitions. Returns whether clients
        would see a difference. A topic disappears when none of its sources exists any more."""
        self._upstream[cluster] = topics
        return self._look_again()

    def compare(self, other: VirtualTopics) -> Difference:
        """Returns the effect that `change` to another configuration would have."""
        candidate = VirtualTopics(self._virtual_cluster, other._explicit.values(), other._rules)
        for cluster, topics in self._upstream.items():
            candidate.update(cluster, topics)
        moves = any(
            source in self._numbers and self._numbers[source][0] != name
            for source, (name, _) in candidate._numbers.items()
        )
        gone = (source for source in self._numbers if self.is_consumed(source) and source not in candidate._numbers)
        return Difference(moves, frozenset(source.cluster for source in gone))

    def change(self, other: VirtualTopics) -> bool:
        """Takes over the configuration of another one in which nothing moves (`compare`). Returns the same as
        `update`."""
        self._configure(other._explicit.values(), other._rules)
        return self._look_again()

    def _look_again(self) -> bool:
        before = self.counts()
        for name, explicit in self._explicit.items():
            self._refresh(name, explicit.sources)
        for name, source in self._by_prefix().items():
            self._refresh(name, (source,))
        for name in list(self._partitions):
            if not any(map(self._count, self._sources(name))):
                self._forget(name)
        is_different = before != self.counts()
        self.version += is_different
        return is_different

    def _sources(self, name: TopicName) -> tuple[Source, ...]:
        """Returns the configured sources of a topic, whether they exist or not."""
        if name in self._explicit:
            return self._explicit[name].sources
        cluster = self._cluster_by_prefix(name)
        source = Source(cluster, name) if cluster is not None else None
        return (source,) if source is not None and source not in self._fed else ()

    def _count(self, source: Source) -> int:
        return self._upstream.get(source.cluster, {}).get(source.topic, 0)

    def _by_prefix(self) -> dict[TopicName, Source]:
        found: dict[TopicName, Source] = {}
        for cluster, topics in self._upstream.items():
            for topic in topics:
                source = Source(cluster, topic)
                if self._cluster_by_prefix(topic) == cluster and source not in self._fed:
                    found[topic] = source
        return found

    def _cluster_by_prefix(self, name: TopicName) -> ClusterName | None:
        """Returns the cluster of the first matching rule, even if it does not have the topic."""
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
