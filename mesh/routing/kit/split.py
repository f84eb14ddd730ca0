"""Takes a request to a union apart: what each of its clusters is asked, in that cluster's names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from mesh.routing.kit import embedded, refusals, topic_pages, translation
from mesh.routing.kit.division import Division, Piece
from mesh.routing.kit.entities import Entities
from mesh.routing.kit.entity_lists import EntityList, entity_lists
from mesh.routing.kit.errors import Failure, error_answer
from mesh.routing.kit.leaf_names import LeafNames
from mesh.routing.kit.refusals import Refusal
from mesh.routing.kit.union_apis import UNION_APIS, Way
from mesh.routing.names import LeafNumber
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Side
from mesh.wire.entities.fields import Field
from mesh.wire.entities.kinds import Kind
from mesh.wire.entities.layouts import layout
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import ZERO_ID, Tree

GROUP, TRANSACTION = 0, 1
"""Types of keys of FindCoordinator."""
CONTROLLERS: Final = 2
"""The endpoint type of DescribeCluster."""

_WITH_SESSION: Final = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE})
"""Requests that go on also if nothing is left in them: the session at the node goes on by them."""
_HEARTBEATS: Final = frozenset(
    {ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT}
)

_Kept: TypeAlias = dict[LeafNumber, list[Any]]


def split(api_key: ApiKey, version: int, request: Tree, union: Entities, own: LeafNumber | None) -> Division:
    """request: as `read_tree` has it. own: the leaf of the node that the client has connected to; None: it came to the
    address that stands for all.

    Raises ValueError for an API whose answer is not made of those of the clusters: what is terminated or not served,
    and Metadata, which is made of the topology.
    """
    way = UNION_APIS[api_key].way
    if way in (Way.TERMINATED, Way.NOT_SERVED) or api_key is ApiKey.METADATA:
        raise ValueError(f"{api_key.name} is not taken apart")
    return _Splitting(api_key, version, request, union, union.default if own is None else own).division()


class _Splitting:
    def __init__(self, api_key: ApiKey, version: int, request: Tree, union: Entities, own: LeafNumber) -> None:
        self._api_key, self._version = api_key, version
        self._request = request
        self._union = union
        self._own = own
        self._otherwise: LeafNumber | None = None
        """Where ids of topics are asked about that nobody knows."""

    def division(self) -> Division:
        if UNION_APIS[self._api_key].way is Way.DEFAULT:
            return self._as_it_is()
        home = self._home()
        refusal = self._refusal_of_all(home)
        if refusal is not None:
            answer = error_answer(self._api_key, self._version, self._request, refusal.code, refusal.message)
            return self._divided({}, answer)
        if self._api_key is ApiKey.DESCRIBE_TOPIC_PARTITIONS:
            return self._divided(*topic_pages.asked_of_leaves(self._request, self._union))
        if self._api_key is ApiKey.ALTER_REPLICA_LOG_DIRS:
            return self._replicas_moved()
        lists = entity_lists(self._api_key, self._version)
        if UNION_APIS[self._api_key].way is Way.OFFSETS:
            return self._offsets(lists[0])
        if lists and self._request[lists[0].asked] is not None:
            return self._by_element(lists[0], home)
        leaves = self._union.leaves if home is None else [home]
        return self._divided(dict.fromkeys(leaves, self._request), None)

    def _home(self) -> LeafNumber | None:
        """The one leaf that all of the request is for; None: it depends on each of its elements, or is for all."""
        union, request = self._union, self._request
        match UNION_APIS[self._api_key].way:
            case Way.OWN_NODE:
                return self._own
            case Way.ALL if request.get("endpoint_type") == CONTROLLERS:
                return union.default
            case Way.COORDINATOR:
                return self._home_by_name()
            case _:
                return None

    def _home_by_name(self) -> LeafNumber | None:
        match self._request:
            case {"transactional_id": str(name)} | {"v3_and_below_transactional_id": str(name)}:
                return self._union.transaction_home(name)
            case {"transactional_id": None}:
                return self._union.default
            case {"group_id": str(name)}:
                return self._union.group_home(name)
            case {"key": str(name)}:
                return self._home_of_key(name)
            case _:
                return None

    def _home_of_key(self, key: str) -> LeafNumber:
        is_transaction = self._request.get("key_type", GROUP) == TRANSACTION
        return self._union.transaction_home(key) if is_transaction else self._union.group_home(key)

    def _refusal_of_all(self, home: LeafNumber | None) -> Refusal | None:
        request, union = self._request, self._union
        if self._api_key is ApiKey.FIND_COORDINATOR and request.get("key_type", GROUP) not in (GROUP, TRANSACTION):
            return Refusal(ErrorCode.INVALID_REQUEST, "coordinators of share groups' state are the brokers' own")
        has_both = self._api_key in (ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.TXN_OFFSET_COMMIT)
        if has_both and union.group_home(request["group_id"]) != home:
            return refusals.group_elsewhere(self._api_key, self._version, request["group_id"])
        if self._api_key in _HEARTBEATS and home is not None:
            return self._refusal_of_heartbeat(home)
        return None

    def _refusal_of_heartbeat(self, home: LeafNumber) -> Refusal | None:
        fields = layout(self._api_key, self._version, Side.REQUEST)
        for topic in _values(fields, self._request, Kind.TOPIC):
            owner = self._union.owner(topic)
            if owner is not None and owner.leaf != home:
                return refusals.topic_elsewhere(self._api_key, self._version, topic)
            if owner is None and self._api_key is ApiKey.STREAMS_GROUP_HEARTBEAT:  # whose topics must all be made
                return refusals.no_such_topic(self._api_key, topic)
        if self._union.renames(home) and any(_values(fields, self._request, Kind.TOPIC_PATTERN)):
            return refusals.pattern_of_other_names(self._api_key)
        return None

    def _offsets(self, entities: EntityList) -> Division:
        """Each leaf is asked about its topics; all of them about all topics of a group."""
        if entities.keys[0].kind is Kind.GROUP:
            return self._offsets_of_groups(entities)
        topics = self._request[entities.asked]
        kept, answered = self._offsets_by_owner(entities, topics, self._union.group_home(self._request["group_id"]))
        asked = {leaf: {**self._request, entities.asked: each} for leaf, each in kept.items()}
        return self._divided(asked, {entities.answered: answered} if answered else None)

    def _offsets_of_groups(self, entities: EntityList) -> Division:
        (inner,) = entities.inner
        asked: _Kept = {}
        answered: list[Tree] = []
        for group in self._request[entities.asked]:
            home = self._union.group_home(group["group_id"])
            kept, refused = self._offsets_by_owner(inner, group[inner.asked], home)
            for leaf, each in kept.items():
                asked.setdefault(leaf, []).append({**group, inner.asked: each})
            if refused:
                answered.append({"group_id": group["group_id"], inner.answered: refused})
        requests = {leaf: {**self._request, entities.asked: each} for leaf, each in asked.items()}
        return self._divided(requests, {entities.answered: answered} if answered else None)

    def _offsets_by_owner(
        self, entities: EntityList, topics: Sequence[Any] | None, home: LeafNumber
    ) -> tuple[Mapping[LeafNumber, list[Any] | None], list[Tree]]:
        """What of the topics each leaf is asked, None for all; and what is answered of the others."""
        if topics is None:
            return dict.fromkeys(self._union.leaves), []
        self._otherwise = home
        kept, answered = self._sorted(entities, topics, None)
        return (kept or {home: []}), answered  # what stands above all topics is said by the home

    def _by_element(self, entities: EntityList, home: LeafNumber | None) -> Division:
        elements = self._request[entities.asked]
        kept, answered = self._sorted(entities, elements, home)
        if self._api_key is ApiKey.ADD_PARTITIONS_TO_TXN and answered:  # all of them or none, as brokers do it
            failure = Failure(self._api_key, ErrorCode.OPERATION_NOT_ATTEMPTED, None)
            answered += [failure.element(entities, each) for leaf in kept for each in kept[leaf]]
            kept = {}
        if home is not None and (not elements or self._api_key in _WITH_SESSION):
            kept.setdefault(home, [])
        asked = {leaf: {**self._request, entities.asked: each} for leaf, each in kept.items()}
        return self._divided(asked, {entities.answered: answered} if answered else None)

    def _sorted(
        self, entities: EntityList, elements: Sequence[Any], home: LeafNumber | None
    ) -> tuple[_Kept, list[Tree]]:
        """What of an array each leaf is asked, and the elements of an answer to the rest."""
        kept: _Kept = {}
        answered: list[Tree] = []
        for element in elements:
            place = self._place(entities, element, home)
            if isinstance(place, Refusal):
                if entities.has_errors:
                    answered.append(Failure(self._api_key, place.code, place.message).element(entities, element))
                continue
            rest, refused = self._within(entities, element, place)
            if refused:
                answered.append({key.answered: key.value_of(element) for key in entities.keys} | refused)
            if rest is not None:
                kept.setdefault(place, []).append(rest)
        return kept, answered

    def _within(self, entities: EntityList, element: Any, leaf: LeafNumber) -> tuple[Any, Tree]:
        """What is left of an element whose own arrays are sorted, and their part of an answer.

        None: nothing is left. Of what has an error of its own, as a group, that is asked all the same.
        """
        rest, refused = element, Tree()
        for inner in entities.inner:
            if not element[inner.asked] or not (inner.has_names or inner.inner):
                continue
            kept, answered = self._sorted(inner, element[inner.asked], leaf)
            if answered:
                refused[inner.answered] = answered
                if not kept and entities.error is None:
                    return None, refused
                rest = {**rest, inner.asked: kept.get(leaf, [])}
        return rest, refused

    def _place(self, entities: EntityList, element: Any, home: LeafNumber | None) -> LeafNumber | Refusal:
        for key in entities.keys:
            place = self._place_of(key.kind, key.value_of(element), element, home)
            if isinstance(place, Refusal):
                return place
            if place is not None:
                home = place
                break
        if home is None:
            return Refusal(ErrorCode.INVALID_REQUEST, "it names nothing")
        apart = {inner.asked for inner in entities.inner}
        fields = [field for field in entities.field.fields if field.kafka_name not in apart]
        for node in _values(fields, element, Kind.NODE):
            if node >= 0 and self._union.real_node(node)[0] != home:
                return refusals.node_elsewhere(node)
        return home

    def _place_of(
        self, kind: Kind | None, value: Any, element: Any, home: LeafNumber | None
    ) -> LeafNumber | Refusal | None:
        """Where something is that an element names; None: the name does not say it."""
        match kind:
            case Kind.TOPIC if value is not None:
                return self._place_of_topic(value, home)
            case Kind.TOPIC_ID if value != ZERO_ID:
                leaf = self._union.leaf_of_topic_id(value)
                if leaf is None:  # may be as new as that its cluster alone knows it
                    leaf = home if home is not None else self._otherwise
                    return leaf if leaf is not None else refusals.no_such_topic_id()
                if home is not None and leaf != home:
                    return refusals.topic_elsewhere(self._api_key, self._version, str(value))
                return leaf
            case Kind.GROUP:
                return self._union.group_home(value)
            case Kind.TRANSACTIONAL_ID:
                return self._union.transaction_home(value)
            case Kind.KEY:
                return self._home_of_key(value)
            case Kind.RESOURCE_NAME:
                return self._place_of_resource(element["resource_type"], value)
            case _:
                return None

    def _place_of_topic(self, topic: str, home: LeafNumber | None) -> LeafNumber | Refusal:
        owner = self._union.owner(topic)
        if owner is None:
            return refusals.no_such_topic(self._api_key, topic)
        if home is not None and owner.leaf != home:
            return refusals.topic_elsewhere(self._api_key, self._version, topic)
        return owner.leaf

    def _place_of_resource(self, resource_type: int, name: str) -> LeafNumber | Refusal:
        match resource_type:
            case translation.TOPIC:
                return self._place_of_topic(name, None)
            case translation.GROUP:
                return self._union.group_home(name)
            case translation.BROKER | translation.BROKER_LOGGER if (node := translation.node_in(name)) is not None:
                leaf, _ = self._union.real_node(node)
                return leaf if leaf in self._union.leaves else refusals.no_such_node(name)
            case _:
                return self._union.default

    def _as_it_is(self) -> Division:
        """DescribeQuorum, whose topic is none of those that clients are shown."""
        topics = {topic["topic_name"]: topic["topic_name"] for topic in self._request["topics"]}
        piece = Piece(self._request, self._request, topics)
        return Division(self._api_key, self._version, self._request, self._union, {self._union.default: piece}, None)

    def _replicas_moved(self) -> Division:
        """Its topics stand in each directory; the answer has each topic once."""
        kept, elsewhere = [], []
        for directory in self._request["dirs"]:
            topics = directory["topics"]
            kept.append({**directory, "topics": [each for each in topics if self._is_own(each["name"])]})
            elsewhere.append({**directory, "topics": [each for each in topics if not self._is_own(each["name"])]})
        answered = error_answer(self._api_key, self._version, {"dirs": elsewhere}, ErrorCode.REPLICA_NOT_AVAILABLE)
        return self._divided({self._own: {**self._request, "dirs": kept}}, answered)

    def _is_own(self, topic: str) -> bool:
        owner = self._union.owner(topic)
        return owner is not None and owner.leaf == self._own

    def _divided(self, asked: dict[LeafNumber, Tree], answered: Tree | None) -> Division:
        pieces = {leaf: self._piece(leaf, asked[leaf]) for leaf in self._union.leaves if leaf in asked}
        return Division(self._api_key, self._version, self._request, self._union, pieces, answered)

    def _piece(self, leaf: LeafNumber, asked: Tree) -> Piece:
        names = LeafNames(self._union, leaf)
        request = translation.translated(self._api_key, self._version, Side.REQUEST, asked, names)
        if self._union.renames(leaf):
            type_of_group = asked.get("protocol_type")
            request = embedded.with_other_topics(
                self._api_key, Side.REQUEST, request, type_of_group, embedded.at_home(names.topic)
            )
        return Piece(request, asked, names.topics)


def _values(fields: Sequence[Field], tree: Any, kind: Kind) -> Iterator[Any]:
    """What stands in the fields of a kind, at any depth."""
    for field in fields:
        value = tree.get(field.kafka_name)
        for each in value if field.is_array and value is not None else [value]:
            if field.fields and each is not None:
                yield from _values(field.fields, each, kind)
            elif field.kind is kind and each is not None:
                yield each
