"""A union of three clusters, and brokers that answer any request by its names, as one cluster would.

Topics `eu.` keep their names at leaf 0, `us.` lose their prefix at leaf 1, `ap.` are spelt backwards at leaf 33, so
that they have another order there; `no.` have no owner. Groups and transactional ids have their home by the same
prefixes.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from hypothesis import strategies as st

from mesh.routing.concatenated import Concatenated, Concatenations, PartIds, PartsAtLeaf
from mesh.routing.kit.entity_lists import EntityList, entity_lists
from mesh.routing.names import LeafNumber
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.entities.fields import Field
from mesh.wire.entities.kinds import EntityKind
from mesh.wire.entities.layouts import layout
from mesh.wire.trees import Tree, read_tree, write_tree

EU, US, AP = LeafNumber(0), LeafNumber(1), LeafNumber(33)
HOMES = {"eu": EU, "us": US, "ap": AP}
NAMES = [f"{prefix}.{name}" for prefix in ("eu", "us", "ap") for name in ("abc", "bca", "cab")]
IDS = [UUID(int=number) for number in range(4, 12)]


NONE_CONCATENATED = Concatenations()


class Owner(NamedTuple):
    leaf: LeafNumber
    topic: str


@dataclass(frozen=True)
class World:
    """The union. hidden: names that are not shown. is_renaming: whether names differ at all."""

    hidden: Collection[str] = ()
    known: Sequence[str] = tuple(NAMES)
    leaves: Sequence[LeafNumber] = (EU, US, AP)
    default: LeafNumber = EU
    cluster_id: str = "union"
    concatenated: Concatenations = NONE_CONCATENATED
    part_ids: PartIds = dataclasses.field(default_factory=PartIds)

    def topics(self) -> Collection[str]:
        return self.known

    def parts_at(self, leaf: LeafNumber) -> PartsAtLeaf:
        return PartsAtLeaf(leaf, self.concatenated, self.part_ids)

    def lacks_part(self, topic: Concatenated, leaf: LeafNumber) -> bool:
        part = topic.part_at_leaf(leaf)
        return part is None or self.part_ids.newest(leaf, part.topic) is None

    def owner(self, topic: str) -> Owner | None:
        match topic.partition("."):
            case "eu", ".", _:
                return Owner(EU, topic)
            case "us", ".", name:
                return Owner(US, name)
            case "ap", ".", _:
                return Owner(AP, topic[::-1])
            case _:
                return None

    def client_name(self, leaf: LeafNumber, topic: str) -> str | None:
        name = self.called(leaf, topic)
        return None if name in self.hidden or self.owner(name) != (leaf, topic) else name

    def called(self, leaf: LeafNumber, topic: str) -> str:
        return {EU: topic, US: f"us.{topic}", AP: topic[::-1]}[leaf]

    def renames(self, leaf: LeafNumber) -> bool:
        return leaf != EU

    def leaf_of_topic_id(self, topic_id: UUID) -> LeafNumber | None:
        return (EU, US, AP, None)[topic_id.int % 4]

    def group_home(self, group_id: str) -> LeafNumber:
        return HOMES.get(group_id.partition(".")[0], EU)

    transaction_home = group_home

    def virtual_node(self, leaf: LeafNumber, node: int) -> int:
        return leaf << 20 | node

    def real_node(self, node: int) -> tuple[LeafNumber, int]:
        return LeafNumber(node >> 20), node & (1 << 20) - 1


WORLD = World()


def requests(
    api_key: ApiKey, version: int, names: Sequence[str] = NAMES, ids: Sequence[UUID] = tuple(IDS)
) -> st.SearchStrategy[Tree]:
    """Requests about entities of the world, but not about nodes."""
    return _struct(layout(api_key, version, Direction.REQUEST), names, ids)


def _struct(fields: Sequence[Field], names: Sequence[str], ids: Sequence[UUID]) -> st.SearchStrategy[Tree]:
    tree = st.fixed_dictionaries({field.kafka_name: _field(field, names, ids) for field in fields})
    kinds = [field.kind for field in fields]
    if EntityKind.TOPIC in kinds and EntityKind.TOPIC_ID in kinds:
        return tree.map(_by_one)
    return tree


def _by_one(topic: Tree) -> Tree:
    """A topic is named, or given by its id."""
    return topic | ({"topic_id": UUID(int=0)} if topic["topic_id"].int % 2 else {"name": None})


def _field(field: Field, names: Sequence[str], ids: Sequence[UUID]) -> st.SearchStrategy[Any]:
    value = _value(field, names, ids)
    if field.is_array:
        value = st.lists(value, max_size=3, unique_by=lambda element: repr(_named_by(field, element)))
        return value if not field.is_nullable or field.fields else st.none() | value
    return value


def _named_by(array: Field, element: Any) -> Any:
    """The key of an element of an array: no request names the same entity twice here."""
    if not array.fields:
        return element
    names = [each.kafka_name for each in array.fields if each.kind in _NAMING or each.name in _PARTITION]
    return [element[name] for name in names if not isinstance(element[name], list)] or element


_NAMING = {
    *(
        EntityKind.TOPIC,
        EntityKind.TOPIC_ID,
        EntityKind.GROUP,
        EntityKind.TRANSACTIONAL_ID,
        EntityKind.RESOURCE_NAME,
        EntityKind.RESOURCE_TYPE,
    ),
    EntityKind.PRODUCER,
}


_PARTITION = ("partition", "partition_index", "index")


def _value(field: Field, names: Sequence[str], ids: Sequence[UUID]) -> st.SearchStrategy[Any]:
    match field.kind:
        case _ if field.wire_type == "struct":
            return _struct(field.fields, names, ids)
        case (
            EntityKind.TOPIC
            | EntityKind.GROUP
            | EntityKind.TRANSACTIONAL_ID
            | EntityKind.KEY
            | EntityKind.RESOURCE_NAME
        ):
            return st.sampled_from(names)
        case EntityKind.TOPIC_ID:
            return st.sampled_from(ids)
        case EntityKind.KEY_TYPE:
            return st.sampled_from((0, 1))
        case EntityKind.RESOURCE_TYPE:
            return st.sampled_from((2, 32))
        case EntityKind.NODE:
            return st.just(-1)
    match field.wire_type:
        case "string":
            return st.sampled_from(("one", "other"))
        case "bytes" | "records":
            return st.just(b"bytes")
        case "uuid":
            return st.just(UUID(int=7))
        case "bool":
            return st.booleans()
        case _:
            return st.integers(0, 9)


class Broker:
    """Answers in the names of one leaf what it would answer in those of the world; world: the answers in the world's
    names, of all leaves."""

    def __init__(self, world: World, leaf: LeafNumber | None) -> None:
        self._world, self._leaf = world, leaf

    def answer(self, api_key: ApiKey, version: int, request: Tree) -> Tree:
        request = as_sent(api_key, version, Direction.REQUEST, request)
        fields = layout(api_key, version, Direction.RESPONSE)
        answer = self._about(fields, entity_lists(api_key, version), request, ())
        answer |= {name: 0 for name in ("error_code", "throttle_time_ms") if name in answer}
        return as_sent(api_key, version, Direction.RESPONSE, answer)

    def _about(self, fields: Sequence[Field], lists: Sequence[EntityList], asked: Tree, path: tuple[Any, ...]) -> Tree:
        tree: Tree = {}
        paired = {each.answer_field: each for each in lists}
        for field in fields:
            name = field.kafka_name
            if name in paired:
                each = paired[name]
                tree[name] = [self._element(field, each, one, path) for one in asked[each.request_field] or ()]
            elif not field.is_array:
                tree[name] = _said(field, (*path, name))
        return tree

    def _element(self, field: Field, entities: EntityList, asked: Any, path: tuple[Any, ...]) -> Tree:
        keys = {key.answer_field: key.value_of(asked) for key in entities.keys}
        path = (*path, *(self._in_the_world(key.kind, key.value_of(asked), asked) for key in entities.keys))
        within = asked if isinstance(asked, dict) else {}
        return self._about(field.fields, entities.inner, within, path) | keys

    def _in_the_world(self, kind: EntityKind | None, value: Any, asked: Any) -> Any:
        is_topic = kind is EntityKind.TOPIC or (kind is EntityKind.RESOURCE_NAME and asked["resource_type"] == 2)
        if self._leaf is None or not is_topic or value is None:
            return value
        return self._world.called(self._leaf, value)


def _said(field: Field, about: tuple[Any, ...]) -> Any:
    """The same answer for the same name at every broker."""
    number = zlib.crc32(repr(about).encode())
    if field.fields:
        return {each.kafka_name: _said(each, about) for each in field.fields if not each.is_array}
    if field.kind in (EntityKind.NODE, EntityKind.PRODUCER):
        return -1
    match field.wire_type:
        case "string":
            return f"text {number % 100}"
        case "bytes" | "records":
            return b"%d" % number
        case "uuid":
            return UUID(int=number)
        case "bool":
            return number % 2 == 0
        case "int16" if "error" in field.name:
            return (0, 0, 3, 29, 42)[number % 5]
        case _:
            return number % 100


def as_sent(api_key: ApiKey, version: int, side: Direction, tree: Tree) -> Tree:
    """What arrives of a sent message."""
    return read_tree(api_key, version, side, write_tree(api_key, version, side, tree))


def answers_of(world: World, api_key: ApiKey, version: int, asked: Mapping[LeafNumber, Tree]) -> dict[LeafNumber, Tree]:
    return {leaf: Broker(world, leaf).answer(api_key, version, request) for leaf, request in asked.items()}
