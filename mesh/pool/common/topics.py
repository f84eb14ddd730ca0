"""Virtual topics: which partitions of which upstream clusters stand behind the partitions that clients see.

Partitions of several sources are concatenated in the order of the configuration. While the process runs, a partition
keeps its number: new ones are appended, and a source that comes late comes last. What the configuration names no longer
stays listed while its topic is there, and brings nothing.
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


@dataclass(frozen=True, slots=True)
class Difference:
    """Between the topics there are and those of another configuration.

    moves: whether some partition would be seen as one of another topic. left: clusters of which something would not be
    consumed any more.
    """

    moves: bool
    left: frozenset[ClusterName]


class VirtualTopics:
    """The topics of one virtual cluster, as far as their sources are known."""

    def __init__(self, virtual_cluster: str, topics: Iterable[ExplicitTopic], rules: Iterable[PrefixRule]) -> None:
        self._virtual_cluster = virtual_cluster
        self._configure(topics, rules)
        self.withheld: set[ClusterName] = set()
        """Clusters of which nothing is consumed just now."""
        self._partitions: dict[TopicName, list[UpstreamPartition]] = {}
        self._numbers: dict[UpstreamPartition, tuple[TopicName, int]] = {}
        self._ids: dict[uuid.UUID, TopicName] = {}
        self._upstream: dict[ClusterName, Mapping[TopicName, int]] = {}
        self.version = 0
        """Another one when clients would see a difference."""

    def _configure(self, topics: Iterable[ExplicitTopic], rules: Iterable[PrefixRule]) -> None:
        self._explicit = {topic.name: topic for topic in topics}
        self._rules = tuple(rules)
        self._fed = {source for topic in self._explicit.values() for source in topic.sources}

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

    def consumed(self, name: TopicName) -> list[UpstreamPartition]:
        """Those partitions of a topic that are to be consumed: the configuration names them, and nothing withholds
        them."""
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
        """Whether the configuration has a place for a topic of that name."""
        return name in self._explicit or any(name.startswith(rule.prefix) for rule in self._rules)

    def update(self, cluster: ClusterName, topics: Mapping[TopicName, int]) -> bool:
        """Take note of all topics of one upstream cluster and their partition counts; returns whether a client would
        see a difference. A topic disappears when none of its sources exists any more."""
        self._upstream[cluster] = topics
        return self._look_again()

    def compare(self, other: VirtualTopics) -> Difference:
        """What `change` to the configuration of another one would mean."""
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
        """Take over the configuration of another one, of which nothing moves (`compare`); returns as `update` does."""
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
        """What feeds a topic, or would."""
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
