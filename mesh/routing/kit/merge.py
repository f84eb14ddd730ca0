"""Joins the answers of several clusters, in the client's names and in the order of the request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from mesh.routing.kit import embedded, topic_pages, translation
from mesh.routing.kit.division import Division, RequestPiece
from mesh.routing.kit.entity_lists import EntityList, entity_lists
from mesh.routing.kit.errors import error_answer, top_level_error
from mesh.routing.kit.leaf_names import ClientNames
from mesh.routing.kit.refusals import code_when_down
from mesh.routing.kit.union_view import UnionView
from mesh.routing.names import LeafNumber
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.entities.kinds import EntityKind
from mesh.wire.entities.layouts import layout
from mesh.wire.trees import ZERO_ID, Tree

__all__ = ["arrays_of", "joined", "merge"]


def merge(division: Division, answers: Mapping[LeafNumber, Tree | int]) -> Tree:
    """Joins the answers of leaves. answers: by leaf, as returned by `read_tree`, or an error code for a leaf that did
    not answer. A missing leaf counts as down.

    Node ids in the result are those that clients see; hosts and ports are still the clusters' own.
    """
    return _Merging(division, answers).merged()


def joined(division: Division, parts: Sequence[Tree]) -> Tree:
    """Joins several answers in the client's names into one, in the order of the request. Fields outside of arrays come
    from the first answer. division: the division of the request, without pieces."""
    return dict(parts[0]) | arrays_of(division.api_key, division.version, division.request, parts)


def arrays_of(api_key: ApiKey, version: int, request: Tree, parts: Sequence[Tree]) -> Tree:
    """Returns the arrays of the joined answer, in the order of the request. Without parts they are empty: no cluster
    was asked, since the request names nothing."""
    paired = {each.answer_field: each for each in entity_lists(api_key, version)}
    arrays = {}
    for field in layout(api_key, version, Direction.RESPONSE):
        name = field.kafka_name
        if not field.is_array or (parts and all(part.get(name) is None for part in parts)):
            continue
        elements = [part.get(name) or [] for part in parts]
        if name in paired:
            arrays[name] = _joined(paired[name], request[paired[name].request_field], elements)
        else:
            arrays[name] = [element for each in elements for element in each]
    return arrays


class _Merging:
    def __init__(self, division: Division, answers: Mapping[LeafNumber, Tree | int]) -> None:
        self._division = division
        self._lists = entity_lists(division.api_key, division.version)
        self._error = top_level_error(division.api_key, division.version)
        self._has_errors = any(each.has_errors for each in self._lists)
        down = code_when_down(division.api_key)
        self._answers = {
            leaf: self._told(leaf, piece, answers.get(leaf, down)) for leaf, piece in division.pieces.items()
        }

    def merged(self) -> Tree:
        division, answered = self._division, self._division.local_answer
        parts = [*self._answers.values(), *([] if answered is None else [answered])]
        if division.api_key is ApiKey.DESCRIBE_TOPIC_PARTITIONS:
            merged = self._page()
        elif self._is_alone:
            (merged,) = parts
        else:
            merged = self._first(parts) | self._failure() | self._arrays(parts)
        throttled = [part["throttle_time_ms"] for part in parts if "throttle_time_ms" in part]
        return merged | {"throttle_time_ms": max(throttled)} if throttled else merged

    def _page(self) -> Tree:
        division = self._division
        answered = division.local_answer or {"topics": []}
        if not division.pieces:
            return answered
        asked = {leaf: piece.client_request for leaf, piece in division.pieces.items()}
        return topic_pages.page(division.request, division.union, asked, self._answers, answered["topics"])

    def _told(self, leaf: LeafNumber, piece: RequestPiece, answer: Tree | int) -> Tree:
        """Translates the answer of a leaf into the client's names."""
        api_key, version, union = self._division.api_key, self._division.version, self._division.union
        if isinstance(answer, int):
            return error_answer(api_key, version, piece.client_request, answer)
        names = ClientNames(union, leaf, piece.topics)
        told = translation.translated(api_key, version, Direction.RESPONSE, answer, names)
        if union.renames(leaf):
            type_of_group = piece.client_request.get("protocol_type")
            told = embedded.with_other_topics(
                api_key, Direction.RESPONSE, told, type_of_group, embedded.to_client_names(names.topic)
            )
        if api_key is ApiKey.CREATE_TOPICS and names.has_parts:
            told = _with_all_partitions(told, union)
        if api_key is ApiKey.DESCRIBE_TOPIC_PARTITIONS and (end := names.end_of_part(answer.get("next_cursor"))):
            told = {**told, "next_cursor": end}
        if (only_at_home := _AT_HOME.get(api_key)) is not None:
            told = only_at_home(told, union, leaf)
        if self._has_errors and self._code_of(told) and not self._is_alone:
            # A top-level error is copied to each element: other clusters may have succeeded with theirs.
            of_each = error_answer(
                api_key, version, piece.client_request, self._code_of(told), told.get("error_message")
            )
            return told | of_each
        return told

    @property
    def _is_alone(self) -> bool:
        return len(self._division.pieces) == 1 and self._division.local_answer is None

    def _code_of(self, answer: Tree) -> int:
        return 0 if self._error is None else int(answer.get(self._error, 0))

    def _first(self, parts: Sequence[Tree]) -> Tree:
        """Returns the answer whose top-level fields the joined one gets: the default leaf's, if it succeeded."""
        by_leaf = self._answers
        default = self._division.union.default
        well = [
            by_leaf[leaf]
            for leaf in sorted(by_leaf, key=lambda leaf: leaf != default)
            if not self._code_of(by_leaf[leaf])
        ]
        first = next(iter([*well, *parts]), None)
        return {} if first is None else dict(first)

    def _failure(self) -> Tree:
        """Returns the top-level error: none if the failed elements can have their own errors."""
        failed = [leaf for leaf, answer in self._answers.items() if self._code_of(answer)]
        if self._error is None or not failed:
            return {}
        if all(self._is_said_below(leaf) for leaf in failed):
            return {}
        first = self._answers[failed[0]]
        return {self._error: self._code_of(first), "error_message": first.get("error_message")}

    def _is_said_below(self, leaf: LeafNumber) -> bool:
        """Returns True if the answer can report a leaf's error without a top-level error."""
        if self._division.api_key is ApiKey.DESCRIBE_CLUSTER:
            return True  # the cluster's nodes are left out, as if its brokers were down
        asked = self._division.pieces[leaf].client_request
        return self._has_errors and all(asked[each.request_field] is not None for each in self._lists)

    def _arrays(self, parts: Sequence[Tree]) -> Tree:
        division = self._division
        return arrays_of(division.api_key, division.version, division.request, parts)


@dataclass(frozen=True, slots=True)
class _Positions:
    """The positions in a request of the elements that an answer contains."""

    keys: Mapping[Any, int]
    entities: EntityList

    @classmethod
    def of(cls, entities: EntityList, asked: Sequence[Any]) -> _Positions:
        keys: dict[Any, int] = {}
        for place, element in enumerate(asked):
            for key in _identities(entities, [each.value_of(element) for each in entities.keys]):
                keys.setdefault(key, place)
        return cls(keys, entities)

    def place(self, element: Mapping[str, Any]) -> int | None:
        values = [element.get(each.answer_field) for each in self.entities.keys]
        return next((self.keys[key] for key in _identities(self.entities, values) if key in self.keys), None)


def _identities(entities: EntityList, values: Sequence[Any]) -> Iterable[Any]:
    """Returns the values that identify an element: a topic's name or its id; for other elements all their keys
    together."""
    if entities.keys[0].kind in (EntityKind.TOPIC, EntityKind.TOPIC_ID):
        return [value for value in values if value is not None and value != ZERO_ID]
    return [tuple(values)]


def _joined(entities: EntityList, asked: Sequence[Any] | None, parts: Sequence[Sequence[Tree]]) -> list[Tree]:
    """Joins arrays into one, in the order of the request; merges several answers about one element."""
    places = _Positions.of(entities, asked or ())
    found: list[tuple[int, Tree]] = []
    at: dict[Any, int] = {}
    for part in parts:
        earlier = dict(at)
        for element in part:
            place = places.place(element)
            which = _unasked(entities, element) if place is None else place
            if which is not None and which in earlier:
                at_place, first = found[earlier[which]]
                found[earlier[which]] = at_place, _one_of(entities, first, element)
                continue
            if which is not None:
                at[which] = len(found)
            found.append((len(places.keys) if place is None else place, element))
    if entities.inner and asked:
        within = _asked_within(entities, places, asked)
        found = [(place, element | _inner(entities, within.get(place, ()), [element])) for place, element in found]
    return [element for _, element in sorted(found, key=lambda each: each[0])]


def _unasked(entities: EntityList, element: Tree) -> Any:
    """Returns the identity of a topic that the request did not name; None for other elements."""
    if not entities.inner or entities.keys[0].kind not in (EntityKind.TOPIC, EntityKind.TOPIC_ID):
        return None
    identities = _identities(entities, [element.get(key.answer_field) for key in entities.keys])
    return next((("unasked", each) for each in identities), None)


def _one_of(entities: EntityList, first: Tree, second: Tree) -> Tree:
    """Merges one element from the answers of two leaves: the contents of both; if both have an error, the first
    error."""
    if entities.inner:
        return first | _inner(entities, (), [first, second])
    error = entities.error
    return second if error is not None and not first[error] and second[error] else first


def _inner(entities: EntityList, asked: Sequence[Any], elements: Sequence[Tree]) -> Tree:
    return {
        inner.answer_field: _joined(
            inner,
            [each for one in asked for each in one[inner.request_field] or ()],
            [element.get(inner.answer_field) or [] for element in elements],
        )
        for inner in entities.inner
    }


def _asked_within(entities: EntityList, places: _Positions, asked: Sequence[Any]) -> Mapping[int, Sequence[Any]]:
    """Returns the elements of the request about each topic or other entity, by its position."""
    same: dict[int, list[Any]] = {}
    for element in asked:
        for key in _identities(entities, [each.value_of(element) for each in entities.keys]):
            same.setdefault(places.keys[key], []).append(element)
            break
    return same


def _with_all_partitions(answer: Tree, union: UnionView) -> Tree:
    """Sets the number of partitions in a CreateTopics answer of a leaf that created parts: clients get that of the
    whole topic."""
    topics = []
    for topic in answer["topics"]:
        whole = union.concatenated.named(topic["name"])
        is_told = whole is not None and topic.get("num_partitions", -1) >= 0
        topics.append({**topic, "num_partitions": whole.width} if whole is not None and is_told else topic)
    return answer | {"topics": topics}


def _groups_at_home(answer: Tree, union: UnionView, leaf: LeafNumber) -> Tree:
    groups = [each for each in answer["groups"] if union.group_home(each["group_id"]) == leaf]
    return answer | {"groups": groups}


def _transactions_at_home(answer: Tree, union: UnionView, leaf: LeafNumber) -> Tree:
    states = [each for each in answer["transaction_states"] if union.transaction_home(each["transactional_id"]) == leaf]
    return answer | {"transaction_states": states}


_AT_HOME: Final[Mapping[ApiKey, Callable[[Tree, UnionView, LeafNumber], Tree]]] = MappingProxyType(
    {ApiKey.LIST_GROUPS: _groups_at_home, ApiKey.LIST_TRANSACTIONS: _transactions_at_home}
)
"""Filters that remove groups and transactions from a leaf's answer if clients find them at another leaf."""
