"""The Metadata of a union: the answers of its leaves, put together under the names and node ids that clients know.

A leaf that does not answer does not take its topics along: those that are known of it stay, without leaders. A client
that subscribed by a pattern would otherwise let go of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from mesh.routing.entities import Names
from mesh.routing.names import LeafNumber
from mesh.routing.node_ids import NodeIds, NodeIdTooLarge
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Side
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree, Written, written

_NO_TOPIC_ID: Final = UUID(int=0)
_NO_NODE: Final = -1
_FIRST_WITH_NULL: Final = 1
"""Up to v0, no topics mean all of them."""


@dataclass(frozen=True, slots=True)
class AskedTopics:
    """The topics that a request asks for. topics: upstream names by leaf, those that have an owner; None: all. unowned:
    names that nobody owns. ids: topic ids, which any leaf may know."""

    topics: Mapping[LeafNumber, list[str]] | None
    unowned: tuple[str, ...]
    ids: tuple[UUID, ...]

    def of(self, leaf: LeafNumber) -> Tree | None:
        """The `topics` of the request to this leaf; None: it is not asked for any."""
        if self.topics is None:
            return {"topics": None}
        names: list[Tree] = [{"name": name, "topic_id": _NO_TOPIC_ID} for name in self.topics.get(leaf, ())]
        names += [{"name": None, "topic_id": each} for each in self.ids]
        return {"topics": names} if names else None


def asked_topics(request: Tree, version: int, names: Names) -> AskedTopics:
    """request: as it was read."""
    topics = request["topics"]
    if topics is None or (not topics and version < _FIRST_WITH_NULL):
        return AskedTopics(None, (), ())
    by_leaf: dict[LeafNumber, list[str]] = {}
    unowned: list[str] = []
    ids: list[UUID] = []
    for topic in topics:
        name = topic["name"]
        if name is None or topic.get("topic_id", _NO_TOPIC_ID) != _NO_TOPIC_ID:
            ids.append(topic["topic_id"])  # Java's client puts an empty name beside it
        elif (owner := names.owner(name)) is None:
            unowned.append(name)
        else:
            by_leaf.setdefault(owner.leaf, []).append(owner.topic)
    return AskedTopics(by_leaf, tuple(unowned), tuple(ids))


@dataclass(slots=True)
class KnownLeaf:
    """The last Metadata of a leaf. racks: of its nodes, by the ids that it gave them. topics: by its own names."""

    racks: dict[int, str | None] = field(default_factory=dict)
    controller: int = _NO_NODE
    topics: dict[str, Tree] = field(default_factory=dict)
    _all: Tree | None = None
    """Its last answer about all topics."""
    _written: dict[int, Written] = field(default_factory=dict)
    """What clients are told of that, by version."""
    _each: dict[int, Mapping[str, Written]] = field(default_factory=dict)
    """The same of each topic, as clients call it; for those who do not see all."""

    @property
    def is_heard(self) -> bool:
        """Whether it has said at some time which topics it has."""
        return self._all is not None

    def of_ids(self, ids: Collection[UUID]) -> Iterator[str]:
        """The topics that have these ids."""
        return (name for name, topic in self.topics.items() if ids and topic.get("topic_id") in ids)

    def take(self, answer: Tree, *, is_all: bool) -> None:
        """is_all: it is about all topics that the leaf has."""
        self.racks = {broker["node_id"]: broker.get("rack") for broker in answer["brokers"]}
        self.controller = answer.get("controller_id", _NO_NODE)
        if is_all:
            if answer is not self._all:
                self._all, self._written, self._each = answer, {}, {}
                self.topics = {topic["name"]: topic for topic in answer["topics"]}
            return
        for topic in answer["topics"]:
            if topic["name"] is None:
                continue
            if topic["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self.topics.pop(topic["name"], None)
            elif topic["error_code"] == ErrorCode.NONE:
                self.topics[topic["name"]] = topic

    def written(self, version: int, told: Iterable[Tree]) -> Written:
        """What clients are told of its last answer about all topics, which is written once for each version."""
        known = self._written.get(version)
        if known is None:
            known = self._written[version] = _written(version, told)
        return known

    def written_each(self, version: int, told: Iterable[Tree]) -> Mapping[str, Written]:
        """The same of each topic by itself."""
        known = self._each.get(version)
        if known is None:
            known = self._each[version] = {topic["name"]: _written(version, (topic,)) for topic in told}
        return known


class MergedMetadata:
    """The Metadata of a union, put together of those of its leaves. place_of: where clients reach a broker of a leaf;
    None: nowhere."""

    def __init__(
        self,
        names: Names,
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
        asked: AskedTopics,
        version: int,
        answers: Mapping[LeafNumber, Tree],
        known: Mapping[LeafNumber, KnownLeaf],
        brokers: Mapping[LeafNumber, Sequence[Tree]],
        sees: Callable[[str], bool] | None = None,
        *,
        as_trees: bool = False,
    ) -> Tree:
        """To be written in this version. answers: of the leaves that have answered. known: what has been known of all
        before and with these. brokers: of all, with the ids and addresses that they have in their clusters. sees: which
        of all topics its client does; None: each. They are written already, unless they are to be trees."""
        told_brokers = [broker for leaf, each in brokers.items() for broker in self._brokers(leaf, each)]
        topics: Sequence[Tree] | Written
        if asked.topics is None and as_trees:
            of_each = (self._trees_of(leaf, each, asked, leaf in answers) for leaf, each in known.items())
            topics = [topic for told in of_each for topic in told if sees is None or sees(topic["name"])]
        elif asked.topics is None:
            every = [
                one
                for leaf, each in known.items()
                for one in self._all_of(leaf, each, asked, leaf in answers, version, sees)
            ]
            topics = Written(sum(each.count for each in every), b"".join(each.content for each in every))
        else:
            topics = self._named(asked, answers, known)
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
        asked: AskedTopics,
        has_answered: bool,
        version: int,
        sees: Callable[[str], bool] | None,
    ) -> Iterable[Written]:
        told = self._trees_of(leaf, known, asked, has_answered)
        if not has_answered:
            return (_written(version, (topic for topic in told if sees is None or sees(topic["name"]))),)
        if sees is None:
            return (known.written(version, told),)
        return [written for name, written in known.written_each(version, told).items() if sees(name)]

    def _trees_of(self, leaf: LeafNumber, known: KnownLeaf, asked: AskedTopics, has_answered: bool) -> Iterator[Tree]:
        return self._told(leaf, known.topics.values()) if has_answered else self._lost(leaf, known, asked)

    def _named(
        self, asked: AskedTopics, answers: Mapping[LeafNumber, Tree], known: Mapping[LeafNumber, KnownLeaf]
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
                continue  # it has no address, which the operator is told
            place = self._place_of(leaf, broker)
            if place is not None:
                yield {**broker, "node_id": node, "host": place[0], "port": place[1]}

    def _told(self, leaf: LeafNumber, topics: Iterable[Tree]) -> Iterator[Tree]:
        topics = [topic for topic in topics if topic["name"] is not None]  # else an id that this leaf does not know
        names = self._names.all_shown(leaf, [topic["name"] for topic in topics])
        for topic in topics:
            if (shown := names.get(topic["name"])) is None:
                continue
            partitions = [self._partition(leaf, partition) for partition in topic["partitions"]]
            yield {"topic_id": _NO_TOPIC_ID, **topic, "name": shown, "partitions": partitions}

    def _lost(self, leaf: LeafNumber, known: KnownLeaf, asked: AskedTopics) -> Iterator[Tree]:
        names = known.topics if asked.topics is None else {*asked.topics.get(leaf, ()), *known.of_ids(asked.ids)}
        for name in names:
            shown = self._names.shown(leaf, name)
            if shown is None:
                continue
            topic = known.topics.get(name)
            if topic is None:
                yield _failed(shown, ErrorCode.LEADER_NOT_AVAILABLE)
                continue
            partitions = [self._without_leader(leaf, partition) for partition in topic["partitions"]]
            yield {"topic_id": _NO_TOPIC_ID, **topic, "name": shown, "partitions": partitions}

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


def _failed(name: str | None, error: ErrorCode) -> Tree:
    return {"error_code": int(error), "name": name, "topic_id": _NO_TOPIC_ID, "partitions": []}


def _written(version: int, topics: Iterable[Tree]) -> Written:
    return written(ApiKey.METADATA, version, Side.RESPONSE, "topics", list(topics))
