"""A request that is divided, answered by each cluster in its own names and merged has the same answer as from one
cluster. Parts that have no place in a union are refused, and no part of the request is missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mesh.routing.kit.entity_lists import EntityList, Key, entity_lists
from mesh.routing.kit.errors import ErrorOfApi
from mesh.routing.kit.merge import merge
from mesh.routing.kit.split import split
from mesh.routing.kit.union_apis import SERVED_BY_UNIONS, UNION_APIS, LeafDestination
from mesh.routing.names import LeafNumber
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.entities.kinds import EntityKind
from mesh.wire.trees import Tree, read_tree
from tests.routing.kit.world import IDS, NAMES, US, WORLD, Broker, answers_of, as_sent, requests
from tests.wire.entities import encode
from tests.wire.entities import entities as random_entities
from tests.wire.entities.messages import schema_of

LISTED = [
    (api_key, version)
    for api_key, versions in SERVED_BY_UNIONS.items()
    if api_key not in (ApiKey.METADATA, ApiKey.DESCRIBE_TOPIC_PARTITIONS)
    for version in versions.all()
    if entity_lists(api_key, version) and UNION_APIS[api_key].destination is not LeafDestination.DEFAULT
    if version in (versions.lowest, versions.highest) or (api_key, version) in ((ApiKey.OFFSET_FETCH, 8),)
]
"""Requests about a list of entities, in the most different versions."""
ANY = [
    (api_key, version)
    for api_key, versions in SERVED_BY_UNIONS.items()
    if UNION_APIS[api_key].destination is not LeafDestination.TERMINATED and api_key is not ApiKey.METADATA
    for version in (versions.lowest, versions.highest)
    if schema_of(api_key, version, Direction.REQUEST) is not None
]
SOMETIMES = settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow], deadline=None)
OWN = US


def named(each: tuple[ApiKey, int]) -> str:
    return f"{each[0].name}-{each[1]}"


def through_union(api_key: ApiKey, version: int, request: Tree) -> tuple[Tree, bool]:
    """The merged answer, and whether any cluster was asked."""
    division = split(api_key, version, request, WORLD, OWN)
    asked = {leaf: piece.request for leaf, piece in division.pieces.items()}
    merged = merge(division, answers_of(WORLD, api_key, version, asked))
    return as_sent(api_key, version, Direction.RESPONSE, merged), bool(asked)


def home_of(api_key: ApiKey, request: Tree) -> LeafNumber | None:
    if UNION_APIS[api_key].destination is LeafDestination.OWN_NODE:
        return OWN
    if UNION_APIS[api_key].destination is not LeafDestination.COORDINATOR:
        return None
    names = [request.get(name) for name in ("transactional_id", "v3_and_below_transactional_id", "group_id")]
    return next((WORLD.group_home(name) for name in names if name is not None), None)


def code_of(api_key: ApiKey, version: int, kind: EntityKind | None, value: Any, home: LeafNumber | None) -> int | None:
    """The error for a refused name; None: it is not refused."""
    if kind is EntityKind.TOPIC_ID and value.int:
        leaf, unknown = WORLD.leaf_of_topic_id(value), 100
        if leaf is None:
            return unknown if home is None and UNION_APIS[api_key].destination is not LeafDestination.OFFSETS else None
    elif kind is EntityKind.TOPIC and value is not None:
        owner, unknown = WORLD.owner(value), {ApiKey.CREATE_TOPICS: 44, ApiKey.OFFSET_FETCH: 0}.get(api_key, 3)
        if owner is None:
            return unknown
        leaf = owner.leaf
    else:
        return None
    if home in (None, leaf):
        return None
    if UNION_APIS[api_key].destination is LeafDestination.OWN_NODE:
        return 6
    return 120 if api_key is ApiKey.TXN_OFFSET_COMMIT and version >= 4 else 29


def kind_of(key: Key, element: Any) -> EntityKind | None:
    is_topic = key.kind is EntityKind.RESOURCE_NAME and element["resource_type"] == 2
    return EntityKind.TOPIC if is_topic else key.kind


def with_refusals(
    each: tuple[ApiKey, int], lists: Sequence[EntityList], asked: Tree, answer: Tree, home: LeafNumber | None
) -> bool:
    """Puts the refused parts into the answer of one cluster; returns true if there are any."""
    is_any = False
    for entities in lists:
        elements = []
        for one, said in zip(asked[entities.request_field] or (), answer[entities.answer_field], strict=True):
            codes = [code_of(*each, kind_of(key, one), key.value_of(one), home) for key in entities.keys]
            code = next((code for code in codes if code is not None), None)
            if code is None:
                inner_home = home
                if (
                    entities.keys[0].kind is EntityKind.GROUP
                    and UNION_APIS[each[0]].destination is not LeafDestination.OFFSETS
                ):
                    inner_home = WORLD.group_home(entities.keys[0].value_of(one))
                is_any |= with_refusals(each, entities.inner, one, said, inner_home) if entities.inner else False
                elements.append(said)
            else:
                is_any = True
                if entities.has_errors:
                    elements.append(ErrorOfApi(each[0], code, None).element(entities, one))
        answer[entities.answer_field] = elements
    return is_any


def expected(each: tuple[ApiKey, int], request: Tree) -> Tree:
    lists = entity_lists(*each)
    answer = Broker(WORLD, None).answer(*each, request)
    is_refused = with_refusals(each, lists, request, answer, home_of(each[0], request))
    if is_refused and each[0] is ApiKey.ADD_PARTITIONS_TO_TXN:
        (entities,) = lists
        for one, topic in zip(request[entities.request_field], answer[entities.answer_field], strict=True):
            if code_of(*each, EntityKind.TOPIC, one["name"], home_of(each[0], request)) is None:
                topic.update(ErrorOfApi(each[0], 55, None).element(entities, one))
    return as_sent(*each, Direction.RESPONSE, answer)


def without_text(value: Any) -> Any:
    match value:
        case dict():
            return {name: without_text(each) for name, each in value.items() if name != "error_message"}
        case list():
            return [without_text(each) for each in value]
        case _:
            return value


def check(each: tuple[ApiKey, int], request: Tree) -> None:
    request = as_sent(*each, Direction.REQUEST, request)
    if each[0] is ApiKey.TXN_OFFSET_COMMIT:
        request["group_id"] = request["transactional_id"]
    merged, is_asked = through_union(*each, request)
    answer = expected(each, request)
    if not is_asked:  # a cluster answers for no single entity
        names = {entities.answer_field for entities in entity_lists(*each)}
        merged, answer = ({name: tree[name] for name in names} for tree in (merged, answer))
    assert without_text(merged) == without_text(answer)


@pytest.mark.parametrize("each", LISTED, ids=named)
@given(data=st.data())
@SOMETIMES
def test_it_is_the_answer_of_one_cluster(each: tuple[ApiKey, int], data: st.DataObject) -> None:
    """Of the existing topics; and of those at one home, if all topics of a request must be there."""
    is_at_one = home_of(each[0], {"group_id": "us.", "transactional_id": "us."}) is not None
    names = [name for name in NAMES if name.startswith("us.")] if is_at_one else NAMES
    ids = [each for each in IDS if each.int % 4 == 1] if is_at_one else IDS[:3]
    request = as_sent(*each, Direction.REQUEST, data.draw(requests(*each, names, ids)))
    request |= {name: "us.abc" for name in ("transactional_id", "v3_and_below_transactional_id") if name in request}
    check(each, request)


@pytest.mark.parametrize("each", LISTED, ids=named)
@given(data=st.data())
@SOMETIMES
def test_what_has_no_place_is_refused_and_nothing_is_missing(each: tuple[ApiKey, int], data: st.DataObject) -> None:
    check(each, data.draw(requests(*each, [*NAMES, "no.one"])))


@pytest.mark.parametrize("each", ANY, ids=named)
@given(data=st.data())
@SOMETIMES
def test_whatever_is_asked_and_answered_there_is_an_answer(each: tuple[ApiKey, int], data: st.DataObject) -> None:
    schemas: Any = [schema_of(*each, side) for side in (Direction.REQUEST, Direction.RESPONSE)]
    request = read_tree(*each, Direction.REQUEST, encode(data.draw(random_entities(schemas[0]))))
    division = split(*each, request, WORLD, OWN)
    for piece in division.pieces.values():
        as_sent(*each, Direction.REQUEST, piece.request)
    answer = read_tree(*each, Direction.RESPONSE, encode(data.draw(random_entities(schemas[1]))))
    for answers in (dict.fromkeys(division.pieces, answer), {}):
        as_sent(*each, Direction.RESPONSE, merge(division, answers))
