"""Divides a request to a union into one for each cluster, in that cluster's names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from mesh.routing.kit import embedded, parts, refusals, topic_pages, translation
from mesh.routing.kit.division import Division, RequestPiece
from mesh.routing.kit.entity_lists import EntityList, entity_lists
from mesh.routing.kit.errors import ErrorOfApi, error_answer
from mesh.routing.kit.leaf_names import LeafNames
from mesh.routing.kit.refusals import ElementRefusal
from mesh.routing.kit.union_apis import UNION_APIS, LeafDestination
from mesh.routing.kit.union_view import UnionView
from mesh.routing.names import LeafNumber
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.entities.fields import Field
from mesh.wire.entities.kinds import EntityKind
from mesh.wire.entities.layouts import layout
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import ZERO_ID, Tree

GROUP, TRANSACTION = 0, 1
"""Key types of FindCoordinator."""
CONTROLLERS: Final = 2
"""The endpoint type of DescribeCluster."""

_WITH_SESSION: Final = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE})
"""Requests that are sent even without elements: they keep a session at the node alive."""
_HEARTBEATS: Final = frozenset(
    {ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT}
)

_Kept: TypeAlias = dict[LeafNumber, list[Any]]


def split(api_key: ApiKey, version: int, request: Tree, union: UnionView, own: LeafNumber | None) -> Division:
    """Divides a request. request: as returned by `read_tree`. own: the leaf of the node to which the client connected;
    None for the bootstrap address.

    Raises ValueError for an API whose answer is not made from answers of clusters: APIs that the mesh answers or does
    not serve, and Metadata.
    """
    destination = UNION_APIS[api_key].destination
    if destination in (LeafDestination.TERMINATED, LeafDestination.NOT_SERVED) or api_key is ApiKey.METADATA:
        raise ValueError(f"{api_key.name} is not taken apart")
    return _Splitting(api_key, version, request, union, union.default if own is None else own).division()


class _Splitting:
    def __init__(self, api_key: ApiKey, version: int, request: Tree, union: UnionView, own: LeafNumber) -> None:
        self._api_key, self._version = api_key, version
        self._request = request
        self._union = union
        self._own = own
        self._otherwise: LeafNumber | None = None
        """The leaf that gets topic ids that the union does not know."""

    def division(self) -> Division:
        if UNION_APIS[self._api_key].destination is LeafDestination.DEFAULT:
            return self._as_it_is()
        home = self._home()
        refusal = self._refusal_of_all(home)
        if refusal is not None:
            answer = error_answer(self._api_key, self._version, self._request, refusal.code, refusal.message)
            return self._divided({}, answer)
        if self._api_key is ApiKey.DESCRIBE_TOPIC_PARTITIONS:
            return self._divided(*topic_pages.requests_of_leaves(self._request, self._union))
        if self._api_key is ApiKey.ALTER_REPLICA_LOG_DIRS:
            return self._replicas_moved()
        lists = entity_lists(self._api_key, self._version)
        if UNION_APIS[self._api_key].destination is LeafDestination.OFFSETS:
            return self._offsets(lists[0])
        if lists and self._request[lists[0].request_field] is not None:
            return self._by_element(lists[0], home)
        leaves = self._union.leaves if home is None else [home]
        return self._divided(dict.fromkeys(leaves, self._request), None)

    def _home(self) -> LeafNumber | None:
        """Returns the one leaf that gets the whole request. None: each element has its own leaf, or all leaves get
        it."""
        union, request = self._union, self._request
        match UNION_APIS[self._api_key].destination:
            case LeafDestination.OWN_NODE:
                return self._own
            case LeafDestination.ALL if request.get("endpoint_type") == CONTROLLERS:
                return union.default
            case LeafDestination.COORDINATOR:
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

    def _refusal_of_all(self, home: LeafNumber | None) -> ElementRefusal | None:
        request, union = self._request, self._union
        if self._api_key is ApiKey.FIND_COORDINATOR and request.get("key_type", GROUP) not in (GROUP, TRANSACTION):
            return ElementRefusal(ErrorCode.INVALID_REQUEST, "coordinators of share groups' state are the brokers' own")
        has_both = self._api_key in (ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.TXN_OFFSET_COMMIT)
        if has_both and union.group_home(request["group_id"]) != home:
            return refusals.group_elsewhere(self._api_key, self._version, request["group_id"])
        if self._api_key in _HEARTBEATS and home is not None:
            return self._refusal_of_heartbeat(home)
        return None

    def _refusal_of_heartbeat(self, home: LeafNumber) -> ElementRefusal | None:
        fields = layout(self._api_key, self._version, Direction.REQUEST)
        for topic in _values(fields, self._request, EntityKind.TOPIC):
            owner, concatenated = self._union.owner(topic), self._union.concatenated.named(topic)
            if concatenated is not None and concatenated.is_moved_to(home):
                continue
            if (owner is not None and owner.leaf != home) or concatenated is not None:
                return refusals.topic_elsewhere(self._api_key, self._version, topic)
            if owner is None and self._api_key is ApiKey.STREAMS_GROUP_HEARTBEAT:  # all of its topics must exist
                return refusals.no_such_topic(self._api_key, topic)
        if self._union.renames(home) and any(_values(fields, self._request, EntityKind.TOPIC_PATTERN)):
            return refusals.pattern_of_other_names(self._api_key)
        return None

    def _offsets(self, entities: EntityList) -> Division:
        """Divides a request about offsets by its topics. If it asks for all topics of a group, every leaf gets it."""
        if entities.keys[0].kind is EntityKind.GROUP:
            return self._offsets_of_groups(entities)
        topics = self._request[entities.request_field]
        kept, answered = self._offsets_by_owner(entities, topics, self._union.group_home(self._request["group_id"]))
        asked = {leaf: {**self._request, entities.request_field: each} for leaf, each in kept.items()}
        return self._divided(asked, {entities.answer_field: answered} if answered else None)

    def _offsets_of_groups(self, entities: EntityList) -> Division:
        (inner,) = entities.inner
        asked: _Kept = {}
        answered: list[Tree] = []
        for group in self._request[entities.request_field]:
            home = self._union.group_home(group["group_id"])
            kept, refused = self._offsets_by_owner(inner, group[inner.request_field], home)
            for leaf, each in kept.items():
                asked.setdefault(leaf, []).append({**group, inner.request_field: each})
            if refused:
                answered.append({"group_id": group["group_id"], inner.answer_field: refused})
        requests = {leaf: {**self._request, entities.request_field: each} for leaf, each in asked.items()}
        return self._divided(requests, {entities.answer_field: answered} if answered else None)

    def _offsets_by_owner(
        self, entities: EntityList, topics: Sequence[Any] | None, home: LeafNumber
    ) -> tuple[Mapping[LeafNumber, list[Any] | None], list[Tree]]:
        """Returns the topics for each leaf, None for all topics, and the answer's elements for topics without a
        leaf."""
        if topics is None:
            return dict.fromkeys(self._union.leaves), []
        self._otherwise = home
        kept, answered = self._sorted(entities, topics, None)
        return (kept or {home: []}), answered  # the home answers the top-level fields

    def _by_element(self, entities: EntityList, home: LeafNumber | None) -> Division:
        elements = self._request[entities.request_field]
        kept, answered = self._sorted(entities, elements, home)
        if self._api_key is ApiKey.ADD_PARTITIONS_TO_TXN and answered:  # all partitions or none, like a broker
            failure = ErrorOfApi(self._api_key, ErrorCode.OPERATION_NOT_ATTEMPTED, None)
            answered += [failure.element(entities, each) for leaf in kept for each in kept[leaf]]
            kept = {}
        if home is not None and (not elements or self._api_key in _WITH_SESSION):
            kept.setdefault(home, [])
        asked = {leaf: {**self._request, entities.request_field: each} for leaf, each in kept.items()}
        return self._divided(asked, {entities.answer_field: answered} if answered else None)

    def _sorted(
        self, entities: EntityList, elements: Sequence[Any], home: LeafNumber | None
    ) -> tuple[_Kept, list[Tree]]:
        """Returns the elements of an array for each leaf, and the answer's elements for the rest."""
        kept: _Kept = {}
        answered: list[Tree] = []
        for place, element in self._placed(entities, elements, home):
            if isinstance(place, ElementRefusal):
                if entities.has_errors:
                    answered.append(ErrorOfApi(self._api_key, place.code, place.message).element(entities, element))
                continue
            rest, refused = self._within(entities, element, place)
            if refused:
                answered.append({key.answer_field: key.value_of(element) for key in entities.keys} | refused)
            if rest is not None:
                kept.setdefault(place, []).append(rest)
        return kept, answered

    def _placed(
        self, entities: EntityList, elements: Sequence[Any], home: LeafNumber | None
    ) -> Iterator[tuple[LeafNumber | ElementRefusal, Any]]:
        """Yields each element after its leaf. An element about a concatenated topic is divided among its parts."""
        union = self._union
        are_any = bool(union.concatenated)
        for element in elements:
            topic = parts.concatenated_in(entities, element, union) if are_any else None
            if topic is None:
                yield self._place(entities, element, home), element
                continue
            for place, piece in parts.placed(self._api_key, self._version, entities, element, topic, home):
                if isinstance(place, ElementRefusal):
                    yield place, piece
                elif parts.is_by_id(entities, piece) and union.lacks_part(topic, place):
                    yield refusals.no_such_topic_id(), piece
                else:
                    yield self._place_of_nodes(entities, piece, place), piece

    def _within(self, entities: EntityList, element: Any, leaf: LeafNumber) -> tuple[Any, Tree]:
        """Divides the arrays in an element. Returns the remaining element, and the answer's arrays for the removed
        parts.

        Returns None for an element with nothing left. An element with an error code of its own, like a group, is kept
        without contents.
        """
        rest, refused = element, Tree()
        for inner in entities.inner:
            if not element[inner.request_field] or not (inner.has_names or inner.inner):
                continue
            kept, answered = self._sorted(inner, element[inner.request_field], leaf)
            if answered:
                refused[inner.answer_field] = answered
                if not kept and entities.error is None:
                    return None, refused
                rest = {**rest, inner.request_field: kept.get(leaf, [])}
        return rest, refused

    def _place(self, entities: EntityList, element: Any, home: LeafNumber | None) -> LeafNumber | ElementRefusal:
        for key in entities.keys:
            place = self._place_of(key.kind, key.value_of(element), element, home)
            if isinstance(place, ElementRefusal):
                return place
            if place is not None:
                home = place
                break
        if home is None:
            return ElementRefusal(ErrorCode.INVALID_REQUEST, "it names nothing")
        return self._place_of_nodes(entities, element, home)

    def _place_of_nodes(self, entities: EntityList, element: Any, home: LeafNumber) -> LeafNumber | ElementRefusal:
        """Returns the home of an element, or a refusal if it names a node of another leaf."""
        apart = {inner.request_field for inner in entities.inner}
        fields = [field for field in entities.field.fields if field.kafka_name not in apart]
        for node in _values(fields, element, EntityKind.NODE):
            if node >= 0 and self._union.real_node(node)[0] != home:
                return refusals.node_elsewhere(node)
        return home

    def _place_of(
        self, kind: EntityKind | None, value: Any, element: Any, home: LeafNumber | None
    ) -> LeafNumber | ElementRefusal | None:
        """Returns the leaf of an entity that an element names; None if this kind of name has no leaf."""
        match kind:
            case EntityKind.TOPIC if value is not None:
                return self._place_of_topic(value, home)
            case EntityKind.TOPIC_ID if value != ZERO_ID:
                leaf = self._union.leaf_of_topic_id(value)
                if leaf is None:  # the topic may be so new that only its cluster knows it
                    leaf = home if home is not None else self._otherwise
                    return leaf if leaf is not None else refusals.no_such_topic_id()
                if home is not None and leaf != home:
                    return refusals.topic_elsewhere(self._api_key, self._version, str(value))
                return leaf
            case EntityKind.GROUP:
                return self._union.group_home(value)
            case EntityKind.TRANSACTIONAL_ID:
                return self._union.transaction_home(value)
            case EntityKind.KEY:
                return self._home_of_key(value)
            case EntityKind.RESOURCE_NAME:
                return self._place_of_resource(element["resource_type"], value)
            case _:
                return None

    def _place_of_topic(self, topic: str, home: LeafNumber | None) -> LeafNumber | ElementRefusal:
        owner = self._union.owner(topic)
        if owner is None:
            return refusals.no_such_topic(self._api_key, topic)
        if home is not None and owner.leaf != home:
            return refusals.topic_elsewhere(self._api_key, self._version, topic)
        return owner.leaf

    def _place_of_resource(self, resource_type: int, name: str) -> LeafNumber | ElementRefusal:
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
        """Passes DescribeQuorum on unchanged: it is about a topic that is the same to clients."""
        topics = {topic["topic_name"]: topic["topic_name"] for topic in self._request["topics"]}
        piece = RequestPiece(self._request, self._request, topics)
        return Division(self._api_key, self._version, self._request, self._union, {self._union.default: piece}, None)

    def _replicas_moved(self) -> Division:
        """Divides AlterReplicaLogDirs. Its request lists topics by directory, its answer lists each topic once."""
        kept, elsewhere = [], []
        for directory in self._request["dirs"]:
            topics = [(each, self._own_replicas(each)) for each in directory["topics"]]
            own = [{**each, "partitions": here} for each, here in topics if here]
            others = [
                {**each, "partitions": [one for one in each["partitions"] if one not in here]} for each, here in topics
            ]
            kept.append({**directory, "topics": own})
            elsewhere.append({**directory, "topics": [each for each in others if each["partitions"]]})
        answered = error_answer(self._api_key, self._version, {"dirs": elsewhere}, ErrorCode.REPLICA_NOT_AVAILABLE)
        return self._divided({self._own: {**self._request, "dirs": kept}}, answered)

    def _own_replicas(self, topic: Tree) -> list[int]:
        """Returns the partitions that belong to the leaf of the node to which the client connected."""
        partitions: list[int] = topic["partitions"]
        if (concatenated := self._union.concatenated.named(topic["name"])) is not None:
            part = concatenated.part_at_leaf(self._own)
            return [each for each in partitions if part is not None and part.to_leaf_partition(each) is not None]
        owner = self._union.owner(topic["name"])
        return partitions if owner is not None and owner.leaf == self._own else []

    def _divided(self, asked: dict[LeafNumber, Tree], answered: Tree | None) -> Division:
        pieces = {leaf: self._piece(leaf, asked[leaf]) for leaf in self._union.leaves if leaf in asked}
        return Division(self._api_key, self._version, self._request, self._union, pieces, answered)

    def _piece(self, leaf: LeafNumber, asked: Tree) -> RequestPiece:
        names = LeafNames(self._union, leaf)
        request = translation.translated(self._api_key, self._version, Direction.REQUEST, asked, names)
        if self._union.renames(leaf):
            type_of_group = asked.get("protocol_type")
            request = embedded.with_other_topics(
                self._api_key, Direction.REQUEST, request, type_of_group, embedded.to_home_names(names.topic)
            )
        return RequestPiece(request, asked, names.topics)


def _values(fields: Sequence[Field], tree: Any, kind: EntityKind) -> Iterator[Any]:
    """Yields the values of all fields of a kind, at any depth."""
    for field in fields:
        value = tree.get(field.kafka_name)
        for each in value if field.is_array and value is not None else [value]:
            if field.fields and each is not None:
                yield from _values(field.fields, each, kind)
            elif field.kind is kind and each is not None:
                yield each
