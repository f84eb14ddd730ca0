"""Puts the answers of several clusters together, in the names of the client, in the order in which it has asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from mesh.routing.kit import embedded, topic_pages, translation
from mesh.routing.kit.division import Division, Piece
from mesh.routing.kit.entities import Entities
from mesh.routing.kit.entity_lists import EntityList, entity_lists
from mesh.routing.kit.errors import error_answer, top_level_error
from mesh.routing.kit.leaf_names import ClientNames
from mesh.routing.kit.refusals import code_when_down
from mesh.routing.names import LeafNumber
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Side
from mesh.wire.entities.kinds import Kind
from mesh.wire.entities.layouts import layout
from mesh.wire.trees import ZERO_ID, Tree

__all__ = ["joined", "merge"]


def merge(division: Division, answers: Mapping[LeafNumber, Tree | int]) -> Tree:
    """answers: of the leaves, as `read_tree` has them, or an error code for a leaf that has not answered; one that is
    not there counts as down.

    Hosts and ports in it are the clusters' own, beside node ids that clients are told.
    """
    return _Merging(division, answers).merged()


def joined(division: Division, parts: Sequence[Tree]) -> Tree:
    """One answer of several in the names of the client, in the order in which it has asked; what is not in an array is
    the first one's. division: of its request, without pieces."""
    return _Merging(division, {}).joined(parts)


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
        division, answered = self._division, self._division.answered
        parts = [*self._answers.values(), *([] if answered is None else [answered])]
        if division.api_key is ApiKey.DESCRIBE_TOPIC_PARTITIONS:
            merged = self._page()
        elif self._is_alone:
            (merged,) = parts
        else:
            merged = self._first(parts) | self._failure() | self._arrays(parts)
        throttled = [part["throttle_time_ms"] for part in parts if "throttle_time_ms" in part]
        return merged | {"throttle_time_ms": max(throttled)} if throttled else merged

    def joined(self, parts: Sequence[Tree]) -> Tree:
        return dict(parts[0]) | self._arrays(parts)

    def _page(self) -> Tree:
        division = self._division
        answered = division.answered or {"topics": []}
        if not division.pieces:
            return answered
        asked = [piece.asked for piece in division.pieces.values()]
        answers = list(self._answers.values())
        return topic_pages.page(division.request, division.union, asked, answers, answered["topics"])

    def _told(self, leaf: LeafNumber, piece: Piece, answer: Tree | int) -> Tree:
        """The answer of a leaf in the client's names."""
        api_key, version, union = self._division.api_key, self._division.version, self._division.union
        if isinstance(answer, int):
            return error_answer(api_key, version, piece.asked, answer)
        names = ClientNames(union, leaf, piece.topics)
        told = translation.translated(api_key, version, Side.RESPONSE, answer, names)
        if union.renames(leaf):
            type_of_group = piece.asked.get("protocol_type")
            told = embedded.with_other_topics(
                api_key, Side.RESPONSE, told, type_of_group, embedded.from_home(names.topic)
            )
        if (only_at_home := _AT_HOME.get(api_key)) is not None:
            told = only_at_home(told, union, leaf)
        if self._has_errors and self._code_of(told) and not self._is_alone:
            # What stands above all is said of each: others may have gone well.
            of_each = error_answer(api_key, version, piece.asked, self._code_of(told), told.get("error_message"))
            return told | of_each
        return told

    @property
    def _is_alone(self) -> bool:
        return len(self._division.pieces) == 1 and self._division.answered is None

    def _code_of(self, answer: Tree) -> int:
        return 0 if self._error is None else int(answer.get(self._error, 0))

    def _first(self, parts: Sequence[Tree]) -> Tree:
        """The part whose single values are those of the whole: the default leaf's, if it went well."""
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
        """The error above all: none if it can be said of each what has failed and something has not."""
        failed = [leaf for leaf, answer in self._answers.items() if self._code_of(answer)]
        if self._error is None or not failed:
            return {}
        if all(self._is_said_below(leaf) for leaf in failed):
            return {}
        first = self._answers[failed[0]]
        return {self._error: self._code_of(first), "error_message": first.get("error_message")}

    def _is_said_below(self, leaf: LeafNumber) -> bool:
        """Whether clients can see in a list what a leaf has not answered."""
        if self._division.api_key is ApiKey.DESCRIBE_CLUSTER:
            return True  # as the brokers of one cluster that are down, its nodes are not in it
        asked = self._division.pieces[leaf].asked
        return self._has_errors and all(asked[each.asked] is not None for each in self._lists)

    def _arrays(self, parts: Sequence[Tree]) -> Tree:
        request = self._division.request
        paired = {each.answered: each for each in self._lists}
        arrays = {}
        for field in layout(self._division.api_key, self._division.version, Side.RESPONSE):
            name = field.kafka_name
            if not field.is_array or all(part.get(name) is None for part in parts):
                continue
            elements = [part.get(name) or [] for part in parts]
            if name in paired:
                arrays[name] = _joined(paired[name], request[paired[name].asked], elements)
            else:
                arrays[name] = [element for each in elements for element in each]
        return arrays


@dataclass(frozen=True, slots=True)
class _Places:
    """The places in a request of the elements of an answer."""

    keys: Mapping[Any, int]
    entities: EntityList

    @classmethod
    def of(cls, entities: EntityList, asked: Sequence[Any]) -> _Places:
        keys: dict[Any, int] = {}
        for place, element in enumerate(asked):
            for key in _identities(entities, [each.value_of(element) for each in entities.keys]):
                keys.setdefault(key, place)
        return cls(keys, entities)

    def place(self, element: Mapping[str, Any]) -> int | None:
        values = [element.get(each.answered) for each in self.entities.keys]
        return next((self.keys[key] for key in _identities(self.entities, values) if key in self.keys), None)


def _identities(entities: EntityList, values: Sequence[Any]) -> Iterable[Any]:
    """What an element can be known by: a topic by its name or by its id, all else by everything that names it."""
    if entities.keys[0].kind in (Kind.TOPIC, Kind.TOPIC_ID):
        return [value for value in values if value is not None and value != ZERO_ID]
    return [tuple(values)]


def _joined(entities: EntityList, asked: Sequence[Any] | None, parts: Sequence[Sequence[Tree]]) -> list[Tree]:
    """One array of several, in the order of what was asked; what several have of one element is one element."""
    places = _Places.of(entities, asked or ())
    found: list[tuple[int, Tree]] = []
    at: dict[int, int] = {}
    for part in parts:
        earlier = dict(at)
        for element in part:
            place = places.place(element)
            if place is not None and entities.inner and place in earlier:
                first = found[earlier[place]][1]
                found[earlier[place]] = place, first | _inner(entities, (), [first, element])
                continue
            if place is not None:
                at[place] = len(found)
            found.append((len(places.keys) if place is None else place, element))
    if entities.inner and asked:
        within = _asked_within(entities, places, asked)
        found = [(place, element | _inner(entities, within.get(place, ()), [element])) for place, element in found]
    return [element for _, element in sorted(found, key=lambda each: each[0])]


def _inner(entities: EntityList, asked: Sequence[Any], elements: Sequence[Tree]) -> Tree:
    return {
        inner.answered: _joined(
            inner,
            [each for one in asked for each in one[inner.asked] or ()],
            [element.get(inner.answered) or [] for element in elements],
        )
        for inner in entities.inner
    }


def _asked_within(entities: EntityList, places: _Places, asked: Sequence[Any]) -> Mapping[int, Sequence[Any]]:
    """By their place, the elements of the request that are about the same."""
    same: dict[int, list[Any]] = {}
    for element in asked:
        for key in _identities(entities, [each.value_of(element) for each in entities.keys]):
            same.setdefault(places.keys[key], []).append(element)
            break
    return same


def _groups_at_home(answer: Tree, union: Entities, leaf: LeafNumber) -> Tree:
    groups = [each for each in answer["groups"] if union.group_home(each["group_id"]) == leaf]
    return answer | {"groups": groups}


def _transactions_at_home(answer: Tree, union: Entities, leaf: LeafNumber) -> Tree:
    states = [each for each in answer["transaction_states"] if union.transaction_home(each["transactional_id"]) == leaf]
    return answer | {"transaction_states": states}


_AT_HOME: Final[Mapping[ApiKey, Callable[[Tree, Entities, LeafNumber], Tree]]] = MappingProxyType(
    {ApiKey.LIST_GROUPS: _groups_at_home, ApiKey.LIST_TRANSACTIONS: _transactions_at_home}
)
"""What a leaf lists although clients are sent to another one for it is left out."""
