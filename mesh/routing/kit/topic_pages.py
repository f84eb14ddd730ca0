"""DescribeTopicPartitions: pages of topics in the order of their names, which are others in a leaf.

A page ends where a leaf's ends, or where the names of a leaf do not rise with those of clients: the next one goes on
there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from mesh.routing.kit.entities import Entities
from mesh.routing.kit.errors import error_answer
from mesh.routing.names import LeafNumber
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree

_API: Final = ApiKey.DESCRIBE_TOPIC_PARTITIONS
_VERSION: Final = 0
UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def asked_of_leaves(request: Tree, union: Entities) -> tuple[dict[LeafNumber, Tree], Tree | None]:
    """What each leaf is asked, in the names of clients, and the answer of topics that none has."""
    cursor = request["cursor"]
    names = _names(request, union)
    if cursor is not None and (
        cursor["partition_index"] < 0 or (request["topics"] and cursor["topic_name"] not in names)
    ):
        return {}, error_answer(_API, _VERSION, request, ErrorCode.INVALID_REQUEST)
    asked: dict[LeafNumber, Tree] = {}
    last: dict[LeafNumber, str] = {}
    without_owner = []
    for name in names:
        owner = union.owner(name)
        if owner is None:
            without_owner.append({"name": name})
            continue
        piece = asked.setdefault(owner.leaf, {**request, "topics": [], "cursor": None})
        if owner.topic > last.get(owner.leaf, ""):
            piece["topics"].append({"name": name})
            last[owner.leaf] = owner.topic
            if cursor is not None and cursor["topic_name"] == name:
                piece["cursor"] = cursor
    answered = error_answer(_API, _VERSION, {"topics": without_owner}, UNKNOWN) if without_owner else None
    return asked, answered


def page(
    request: Tree, union: Entities, asked: Sequence[Tree], answers: Sequence[Tree], others: Sequence[Tree]
) -> Tree:
    """One page, in the names of clients.

    asked: of each leaf; answers: theirs, in the same order. others: topics that are answered without a leaf.
    """
    found = {topic["name"]: topic for answer in answers for topic in answer["topics"]}
    found |= {topic["name"]: topic for topic in others}
    ends = {each["topic_name"]: each for answer in answers if (each := answer.get("next_cursor")) is not None}
    complete = _complete(asked, answers)
    topics: list[Tree] = []
    room = max(request["response_partition_limit"], 1)
    for name in _names(request, union):
        topic = found.get(name)
        if topic is None and name in complete:
            continue  # the leaf does not show it
        if topic is None:
            return {"topics": topics, "next_cursor": ends.get(name, _cursor(name, 0))}
        partitions = topic.get("partitions", [])
        if partitions and not room:
            return {"topics": topics, "next_cursor": _cursor(name, partitions[0]["partition_index"])}
        if not request["topics"] and topic["error_code"] == UNKNOWN:
            continue  # it has gone since it was listed
        topics.append({**topic, "partitions": partitions[:room]})
        if len(partitions) > room:
            return {"topics": topics, "next_cursor": _cursor(name, partitions[room]["partition_index"])}
        if name in ends:
            return {"topics": topics, "next_cursor": ends[name]}
        room -= len(partitions)
    return {"topics": topics, "next_cursor": None}


def _cursor(topic: str, partition: int) -> Tree:
    return {"topic_name": topic, "partition_index": partition}


def _names(request: Tree, union: Entities) -> list[str]:
    """All that are on this page or a later one, in order."""
    names = {topic["name"] for topic in request["topics"]} or set(union.topics())
    first = "" if request["cursor"] is None else request["cursor"]["topic_name"]
    return sorted(name for name in names if name >= first)


def _complete(asked: Sequence[Tree], answers: Sequence[Mapping[str, object]]) -> set[str]:
    """The topics that leaves were asked for which have no more to say."""
    ended = [each for each, answer in zip(asked, answers, strict=True) if answer.get("next_cursor") is None]
    return {topic["name"] for each in ended for topic in each["topics"]}
