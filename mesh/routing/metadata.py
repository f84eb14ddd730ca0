"""The Metadata of a union: the joined answers of its leaves, with the names and node ids that clients see.

If a leaf does not answer, its known topics stay in the answer, without leaders. Otherwise a client that subscribed by a
pattern would drop them from its subscription.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from mesh.routing.concatenated import Concatenated, Part, leaderless
from mesh.routing.entities import UnionNames
from mesh.routing.names import LeafNumber
from mesh.routing.node_ids import NodeIds, NodeIdTooLarge
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import EncodedElements, Tree, encode_elements

_NO_TOPIC_ID: Final = UUID(int=0)
_NO_NODE: Final = -1
_FIRST_WITH_NULL: Final = 1
"""In v0, an empty list means all topics."""


@dataclass(frozen=True, slots=True)
class RequestedTopics:
    """The topics in a Metadata request. topics: the leaves' names by leaf, for topics with an owner and for parts; None
    for all topics. unowned: names without an owner. ids: topic ids, which every leaf is asked for. concatenated: the
    concatenated topics."""

    topics: Mapping[LeafNumber, list[str]] | None
    unowned: tuple[str, ...]
    ids: tuple[UUID, ...]
    concatenated: tuple[Concatenated, ...] = ()

    def topics_for(self, leaf: LeafNumber) -> Tree | None:
        """Returns the `topics` of the request to a leaf; None if that leaf is not asked."""
        if self.topics is None:
            return {"topics": None}
        names: list[Tree] = [{"name": name, "topic_id": _NO_TOPIC_ID} for name in self.topics.get(leaf, ())]
        names += [{"name": None, "topic_id": each} for each in self.ids]
        return {"topics": names} if names else None


def requested_topics(request: Tree, version: int, names: UnionNames) -> RequestedTopics:
    """Returns the topics that a Metadata request asks for, by leaf. request: as read in this version."""
    topics = request["topics"]
    if topics is None or (not topics and version < _FIRST_WITH_NULL):
        return RequestedTopics(None, (), ())
    by_leaf: dict[LeafNumber, list[str]] = {}
    unowned: list[str] = []
    ids: list[UUID] = []
    concatenated: dict[str, Concatenated] = {}
    for topic in topics:
        name = topic["name"]
        if names.concatenated and (found := _concatenated(topic, names)) is not None:
            concatenated[found.name] = found
        elif name is None or topic.get("topic_id", _NO_TOPIC_ID) != _NO_TOPIC_ID:
            ids.append(topic["topic_id"])  # the Java client sends an empty name with an id
        elif (owner := names.owner(name)) is None:
            unowned.append(name)
        else:
            by_leaf.setdefault(owner.leaf, []).append(owner.topic)
    for part in (part for found in concatenated.values() for part in found.parts):
        by_leaf.setdefault(part.leaf, []).append(part.topic)
    return RequestedTopics(by_leaf, tuple(unowned), tuple(ids), tuple(concatenated.values()))


def _concatenated(topic: Tree, names: UnionNames) -> Concatenated | None:
    id = topic.get("topic_id", _NO_TOPIC_ID)
    if id != _NO_TOPIC_ID:
        return names.concatenated.with_id(id)
    return None if topic["name"] is None else names.concatenated.named(topic["name"])


@dataclass(slots=True)
class KnownLeaf:
    """The last Metadata of a leaf. racks: by the leaf's node ids. topics: by the leaf's names."""

    racks: dict[int, str | None] = field(default_factory=dict)
    controller: int = _NO_NODE
    topics: dict[str, Tree] = field(default_factory=dict)
    _all: Tree | None = None
    """The leaf's last answer about all topics."""
    _differs: bool = False
    """True if an answer about some topics has changed `topics` since then."""
    _encoded: dict[int, EncodedElements] = field(default_factory=dict)
    """That answer for clients, encoded once for each version."""
    _each: dict[int, Mapping[str, EncodedElements]] = field(default_factory=dict)
    """The same, topic by topic under the clients' names, for clients that may not see all topics."""

    @property
    def has_reported(self) -> bool:
        """True if the leaf has ever reported all its topics."""
        return self._all is not None

    def names_of_ids(self, ids: Collection[UUID]) -> Iterator[str]:
        """Returns the topics that have these ids."""
        return (name for name, topic in self.topics.items() if ids and topic.get("topic_id") in ids)

    def take(self, answer: Tree, *, is_all: bool) -> None:
        """Takes an answer of the leaf. is_all: whether the answer is about all topics of the leaf. If that answer is
        the same tree as the last one, and `topics` still agrees with it, nothing is made again."""
        self.racks = {broker["node_id"]: broker.get("rack") for broker in answer["brokers"]}
        self.controller = answer.get("controller_id", _NO_NODE)
        if is_all:
            if answer is not self._all or self._differs:
                self._all, self._differs, self._encoded, self._each = answer, False, {}, {}
                self.topics = {topic["name"]: topic for topic in answer["topics"]}
            return
        for topic in answer["topics"]:
            if topic["name"] is not None:
                self._take_topic(topic["name"], topic)

    def _take_topic(self, name: str, topic: Tree) -> None:
        """Takes what a broker says about one topic. A broker that lags may not know the topic yet."""
        if topic["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            if self.topics.pop(name, None) is not None:
                self._differs = True
        elif topic["error_code"] == ErrorCode.NONE and topic != self.topics.get(name):
            self.topics[name] = topic
            self._differs = True

    def encoded_topics(self, version: int, told: Iterable[Tree]) -> EncodedElements:
        """Returns the encoded topics of the leaf's last answer about all topics. They are encoded once for each
        version."""
        known = self._encoded.get(version)
        if known is None:
            known = self._encoded[version] = _encoded(version, told)
        return known

    def encoded_each(self, version: int, told: Iterable[Tree]) -> Mapping[str, EncodedElements]:
        """Returns the same as `encoded_topics`, topic by topic."""
        known = self._each.get(version)
        if known is None:
            known = self._each[version] = {topic["name"]: _encoded(version, (topic,)) for topic in told}
        return known


class MergedMetadata:
    """Makes the Metadata of a union from the answers of its leaves. place_of: where clients reach a broker of a leaf;
    None if they cannot."""

    def __init__(
        self,
        names: UnionNames,
        ids: NodeIds,
        place_of: Callable[[LeafNumber, Tree], tuple[str, int] | None],
        cluster_id: str,
        default: LeafNumber,
    ) -> None:
        self._names: Final = names
        self._ids: Final = ids
        self._place_of: Final = place_of
        self._cluster_id: Final = cluster_id
        self._default: Final = default

    def answer(
        self,
        asked: RequestedTopics,
        version: int,
        answers: Mapping[LeafNumber, Tree],
        known: Mapping[LeafNumber, KnownLeaf],
        brokers: Mapping[LeafNumber, Sequence[Tree]],
        sees: Callable[[str], bool] | None = None,
        *,
        as_trees: bool = False,
    ) -> Tree:
        """Makes the answer to a request. answers: those of the leaves that answered. known: the last Metadata of all
        leaves. brokers: with the node ids and addresses of their clusters. sees: whether the client may see a topic;
        None if it may see all. as_trees: whether topics are wanted as trees; if not, an answer about all topics has
        them encoded."""
        told_brokers = [broker for leaf, each in brokers.items() for broker in self._brokers(leaf, each)]
        of_several = asked.concatenated if asked.topics is not None else tuple(self._names.concatenated)
        joined = [self._joined(each, answers, known) for each in of_several]
        topics: Sequence[Tree] | EncodedElements
        if asked.topics is None:
            joined = [topic for topic in joined if not topic["error_code"] and (sees is None or sees(topic["name"]))]
        if asked.topics is None and as_trees:
            of_each = (self._trees_of(leaf, each, asked, leaf in answers) for leaf, each in known.items())
            topics = [topic for told in of_each for topic in told if sees is None or sees(topic["name"])] + joined
        elif asked.topics is None:
            every = [
                one
                for leaf, each in known.items()
                for one in self._all_of(leaf, each, asked, leaf in answers, version, sees)
            ]
            if joined:
                every.append(_encoded(version, joined))
            topics = EncodedElements(sum(each.count for each in every), b"".join(each.content for each in every))
        else:
            topics = self._named(asked, answers, known) + joined
        controller = self._virtual(self._default, known[self._default].controller)
        shown = {broker["node_id"] for broker in told_brokers}
        return {
            "brokers": told_brokers,
            "cluster_id": self._cluster_id,
            "controller_id": controller if controller in shown else min(shown, default=_NO_NODE),
            "topics": topics,
            "throttle_time_ms": max((answer.get("throttle_time_ms", 0) for answer in answers.values()), default=0),
        }

    def _all_of(
        self,
        leaf: LeafNumber,
        known: KnownLeaf,
        asked: RequestedTopics,
        has_answered: bool,
        version: int,
        sees: Callable[[str], bool] | None,
    ) -> Iterable[EncodedElements]:
        told = self._trees_of(leaf, known, asked, has_answered)
        if not has_answered:
            return (_encoded(version, (topic for topic in told if sees is None or sees(topic["name"]))),)
        if sees is None:
            return (known.encoded_topics(version, told),)
        return [encoded for name, encoded in known.encoded_each(version, told).items() if sees(name)]

    def _trees_of(
        self, leaf: LeafNumber, known: KnownLeaf, asked: RequestedTopics, has_answered: bool
    ) -> Iterator[Tree]:
        return self._told(leaf, known.topics.values()) if has_answered else self._lost(leaf, known, asked)

    def _named(
        self, asked: RequestedTopics, answers: Mapping[LeafNumber, Tree], known: Mapping[LeafNumber, KnownLeaf]
    ) -> list[Tree]:
        topics: list[Tree] = []
        ids, found = frozenset(asked.ids), dict[UUID, Tree]()
        for leaf, each in known.items():
            told = self._told(leaf, answers[leaf]["topics"]) if leaf in answers else self._lost(leaf, each, asked)
            for topic in told:
                if topic["topic_id"] in ids:
                    found[topic["topic_id"]] = topic
                else:
                    topics.append(topic)
        topics += [_failed(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name in asked.unowned]
        unknown = ErrorCode.UNKNOWN_TOPIC_ID
        topics += [found.get(each) or {**_failed(None, unknown), "topic_id": each} for each in asked.ids]
        return topics

    def _brokers(self, leaf: LeafNumber, brokers: Iterable[Tree]) -> Iterator[Tree]:
        for broker in brokers:
            try:
                node = self._ids.virtual(leaf, broker["node_id"])
            except NodeIdTooLarge:
                continue  # clients get no address of such a broker; the operator is told
            place = self._place_of(leaf, broker)
            if place is not None:
                yield {**broker, "node_id": node, "host": place[0], "port": place[1]}

    def _told(self, leaf: LeafNumber, topics: Iterable[Tree]) -> Iterator[Tree]:
        topics = [topic for topic in topics if topic["name"] is not None]  # null: the leaf does not know the id
        names = self._names.client_names(leaf, [topic["name"] for topic in topics])
        has_parts = self._names.concatenated.has_parts_at(leaf)
        for topic in topics:
            if (shown := names.get(topic["name"])) is None or (has_parts and self._is_part(leaf, topic["name"])):
                continue
            partitions = [self._partition(leaf, partition) for partition in topic["partitions"]]
            yield {"topic_id": _NO_TOPIC_ID, **topic, "name": shown, "partitions": partitions}

    def _lost(self, leaf: LeafNumber, known: KnownLeaf, asked: RequestedTopics) -> Iterator[Tree]:
        names = known.topics if asked.topics is None else {*asked.topics.get(leaf, ()), *known.names_of_ids(asked.ids)}
        for name in names:
            shown = self._names.client_name(leaf, name)
            if shown is None or self._is_part(leaf, name):
                continue
            topic = known.topics.get(name)
            if topic is None:
                yield _failed(shown, ErrorCode.LEADER_NOT_AVAILABLE)
                continue
            partitions = [self._without_leader(leaf, partition) for partition in topic["partitions"]]
            yield {"topic_id": _NO_TOPIC_ID, **topic, "name": shown, "partitions": partitions}

    def _is_part(self, leaf: LeafNumber, topic: str) -> bool:
        return self._names.concatenated.part(leaf, topic) is not None

    def _joined(
        self, asked: Concatenated, answers: Mapping[LeafNumber, Tree], known: Mapping[LeafNumber, KnownLeaf]
    ) -> Tree:
        """Returns a concatenated topic with the partitions of all its parts. If no part exists, the topic does not
        exist."""
        told = [self._told_of_part(part, known.get(part.leaf), part.leaf in answers) for part in asked.parts]
        topics = [topic for topic in told if topic is not None]
        is_missing = not topics and all(_has_none(part, answers, known) for part in asked.parts)
        if is_missing:
            return _failed(asked.name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partitions: list[Tree] = []
        for part, topic in zip(asked.parts, told, strict=True):
            there = {} if topic is None else {each["partition_index"]: each for each in topic["partitions"]}
            numbers = range(part.first, part.end)
            partitions += [there.get(number) or leaderless(number) for number in numbers]
        first = topics[0] if topics else {"is_internal": False}
        return {**first, "error_code": 0, "name": asked.name, "topic_id": asked.id, "partitions": partitions}

    def _told_of_part(self, part: Part, known: KnownLeaf | None, has_answered: bool) -> Tree | None:
        """Returns a part with the clients' partition numbers, without partitions beyond its width. None: the leaf is
        not known to have it."""
        topic = None if known is None else known.topics.get(part.topic)
        if topic is None:
            return None
        tell = self._partition if has_answered else self._without_leader
        partitions = []
        for partition in topic["partitions"]:
            if (number := part.to_client_partition(partition["partition_index"])) is not None:
                told = {**tell(part.leaf, partition), "partition_index": number}
                if part.epoch_offset and "leader_epoch" in told:
                    told["leader_epoch"] = part.to_client_epoch(told["leader_epoch"])
                partitions.append(told)
        return {**topic, "partitions": partitions}

    def _partition(self, leaf: LeafNumber, partition: Tree) -> Tree:
        if leaf == 0:
            return partition
        told = dict(partition)
        told["leader_id"] = self._virtual(leaf, partition["leader_id"])
        for key in ("replica_nodes", "isr_nodes", "offline_replicas"):
            if key in partition:
                told[key] = [self._virtual(leaf, node) for node in partition[key]]
        return told

    def _without_leader(self, leaf: LeafNumber, partition: Tree) -> Tree:
        told = self._partition(leaf, partition)
        return {**told, "error_code": int(ErrorCode.LEADER_NOT_AVAILABLE), "leader_id": _NO_NODE}

    def _virtual(self, leaf: LeafNumber, node: int) -> int:
        try:
            return self._ids.virtual(leaf, node)
        except NodeIdTooLarge:
            return _NO_NODE


def _has_none(part: Part, answers: Mapping[LeafNumber, Tree], known: Mapping[LeafNumber, KnownLeaf]) -> bool:
    """Returns True if the leaf of a part has answered that it has no such topic."""
    return part.leaf in answers and part.topic not in known[part.leaf].topics


def _failed(name: str | None, error: ErrorCode) -> Tree:
    return {"error_code": int(error), "name": name, "topic_id": _NO_TOPIC_ID, "partitions": []}


def _encoded(version: int, topics: Iterable[Tree]) -> EncodedElements:
    return encode_elements(ApiKey.METADATA, version, Direction.RESPONSE, "topics", list(topics))
