"""Pages of DescribeTopicPartitions: topics in the order of the clients' names, which may not be the order of a leaf's
names.

A page ends where a leaf's page ends, or where a leaf's names are not in the order of the clients' names; the next page
continues there. A concatenated topic has an entry for each of its parts, in their order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from mesh.routing.concatenated import Part, leaderless
from mesh.routing.kit.errors import error_answer
from mesh.routing.kit.union_view import UnionView
from mesh.routing.names import LeafNumber
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree

_API: Final = ApiKey.DESCRIBE_TOPIC_PARTITIONS
_VERSION: Final = 0
_NO_ELR: Final[Tree] = {"eligible_leader_replicas": [], "last_known_elr": []}
"""Empty lists, because the Java admin client accepts no null in these fields."""
UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class _Entry(NamedTuple):
    """A topic, or a part of one, at one leaf. name: the clients' name. topic: the leaf's name. part: None if the leaf
    has the whole topic."""

    name: str
    leaf: LeafNumber
    topic: str
    part: Part | None

    @property
    def first(self) -> int:
        return 0 if self.part is None else self.part.first


_Key: TypeAlias = tuple[str, LeafNumber]


def requests_of_leaves(request: Tree, union: UnionView) -> tuple[dict[LeafNumber, Tree], Tree | None]:
    """Returns the request for each leaf, in the clients' names, and the answer about topics that no leaf has."""
    cursor = request["cursor"]
    names = _names(request, union)
    if cursor is not None and (
        cursor["partition_index"] < 0 or (request["topics"] and cursor["topic_name"] not in names)
    ):
        return {}, error_answer(_API, _VERSION, request, ErrorCode.INVALID_REQUEST)
    asked: dict[LeafNumber, Tree] = {}
    last: dict[LeafNumber, str] = {}
    without_owner = [{"name": name} for name in names if not _entries(name, union)]
    for entry in _on_pages(request, union):
        piece = asked.setdefault(entry.leaf, {**request, "topics": [], "cursor": None})
        if entry.topic > last.get(entry.leaf, ""):
            piece["topics"].append({"name": entry.name})
            last[entry.leaf] = entry.topic
            if cursor is not None and cursor["topic_name"] == entry.name and cursor["partition_index"] >= entry.first:
                piece["cursor"] = cursor
    answered = error_answer(_API, _VERSION, {"topics": without_owner}, UNKNOWN) if without_owner else None
    return asked, answered


def page(
    request: Tree,
    union: UnionView,
    asked: Mapping[LeafNumber, Tree],
    answers: Mapping[LeafNumber, Tree],
    others: Sequence[Tree],
) -> Tree:
    """Makes one page, in the clients' names.

    asked: the request of each leaf. answers: the leaves' answers. others: the answer about topics without a
    leaf.
    """
    answered = _LeafAnswers(asked, answers)
    found = {topic["name"]: topic for topic in others}
    topics: list[Tree] = []
    room = max(request["response_partition_limit"], 1)
    for name in _names(request, union):
        entries: Sequence[_Entry | None] = _on_pages(request, union, name) or [None]
        for entry in entries:
            topic = found.get(name) if entry is None else answered.topic(entry, request["cursor"])
            if topic is None and (entry is None or answered.is_complete(entry)):
                continue  # the leaf does not have it, or it was on an earlier page
            if topic is None:
                first = 0 if entry is None else entry.first
                return {"topics": topics, "next_cursor": answered.end(entry) or _cursor(name, first)}
            partitions = topic.get("partitions", [])
            if partitions and not room:
                return {"topics": topics, "next_cursor": _cursor(name, partitions[0]["partition_index"])}
            if not request["topics"] and topic["error_code"] == UNKNOWN:
                continue  # it was deleted after it was listed
            _add(topics, {**topic, "partitions": partitions[:room]})
            if len(partitions) > room:
                return {"topics": topics, "next_cursor": _cursor(name, partitions[room]["partition_index"])}
            if (end := answered.end(entry)) is not None:
                return {"topics": topics, "next_cursor": end}
            room -= len(partitions)
    return {"topics": topics, "next_cursor": None}


class _LeafAnswers:
    """The answers of leaves about the requested topics."""

    def __init__(self, asked: Mapping[LeafNumber, Tree], answers: Mapping[LeafNumber, Tree]) -> None:
        self._topics = {(topic["name"], leaf): topic for leaf, each in answers.items() for topic in each["topics"]}
        ends = ((leaf, each.get("next_cursor")) for leaf, each in answers.items())
        self._ends = {(end["topic_name"], leaf): end for leaf, end in ends if end is not None}
        ended = (leaf for leaf, each in answers.items() if each.get("next_cursor") is None)
        self._complete = {(topic["name"], leaf) for leaf in ended for topic in asked[leaf]["topics"]}
        self._known = {name for (name, _), topic in self._topics.items() if topic["error_code"] != UNKNOWN}
        """The topics that at least one leaf has."""

    def topic(self, entry: _Entry, cursor: Tree | None) -> Tree | None:
        """Returns an entry's topic for this page; None if its leaf did not mention the topic."""
        key = entry.name, entry.leaf
        topic = self._topics.get(key)
        went_on = cursor["partition_index"] if cursor is not None and cursor["topic_name"] == entry.name else 0
        if topic is None or entry.part is None or (entry.name not in self._known and not went_on):
            return topic
        there = {each["partition_index"]: each for each in topic.get("partitions", ())}
        end = self._ends.get(key)
        numbers = range(max(entry.part.first, went_on), entry.part.end if end is None else end["partition_index"])
        partitions = [there.get(number) or leaderless(number) | _NO_ELR for number in numbers]
        return {**topic, "error_code": int(ErrorCode.NONE), "topic_id": entry.part.id, "partitions": partitions}

    def end(self, entry: _Entry | None) -> Tree | None:
        """Returns the cursor of a leaf's page that ends within this entry, if it does."""
        return None if entry is None else self._ends.get((entry.name, entry.leaf))

    def is_complete(self, entry: _Entry) -> bool:
        """Returns True if the leaf of an entry was asked for its topic, and has no further page."""
        return (entry.name, entry.leaf) in self._complete


def _add(topics: list[Tree], topic: Tree) -> None:
    """Adds a topic to a page, or the next part of a topic to the part before."""
    if topics and topics[-1]["name"] == topic["name"]:
        topics[-1] = {**topics[-1], "partitions": topics[-1]["partitions"] + topic["partitions"]}
    else:
        topics.append(topic)


def _entries(name: str, union: UnionView) -> list[_Entry]:
    if (concatenated := union.concatenated.named(name)) is not None:
        return [_Entry(name, part.leaf, part.topic, part) for part in concatenated.parts]
    owner = union.owner(name)
    return [] if owner is None else [_Entry(name, owner.leaf, owner.topic, None)]


def _on_pages(request: Tree, union: UnionView, name: str | None = None) -> list[_Entry]:
    """Returns the entries of all topics, or of one, without parts that were on earlier pages."""
    cursor = request["cursor"]
    names = _names(request, union) if name is None else [name]
    return [
        entry
        for each in names
        for entry in _entries(each, union)
        if cursor is None or cursor["topic_name"] != each or not _is_behind(entry, cursor["partition_index"])
    ]


def _is_behind(entry: _Entry, partition: int) -> bool:
    return entry.part is not None and entry.part.end <= partition


def _cursor(topic: str, partition: int) -> Tree:
    return {"topic_name": topic, "partition_index": partition}


def _names(request: Tree, union: UnionView) -> list[str]:
    """Returns the names on this page and later ones, in order."""
    names = {topic["name"] for topic in request["topics"]} or set(union.topics())
    first = "" if request["cursor"] is None else request["cursor"]["topic_name"]
    return sorted(name for name in names if name >= first)
