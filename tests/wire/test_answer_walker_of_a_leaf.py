"""Fetch answers of a leaf whose number goes into the ids of nodes, compared with kio's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_response_schema

from mesh.wire.answer_walker import NODE_BITS, VERSIONS_WITH_NODES, AnswerWalker
from mesh.wire.apis import ApiKey
from tests.wire.entities import encode, entities
from tests.wire.walked_answers import HEADER, walk

LEAVES = (1, 31, 32, 1_023)
_NODES = st.integers(-1, (1 << NODE_BITS) - 1)


def told(leaf: int, node: int) -> int:
    return node if node < 0 else leaf << NODE_BITS | node


@st.composite
def answers(draw: st.DrawFn) -> tuple[int, Any]:
    """A version, and an answer without addresses."""
    version = draw(st.sampled_from(VERSIONS_WITH_NODES[ApiKey.FETCH]))
    entity = draw(entities(load_response_schema(ApiKey.FETCH, version)))
    nothing = {"node_endpoints": ()} if hasattr(entity, "node_endpoints") else {}

    def with_nodes(partition: Any) -> Any:
        leader = replace(partition.current_leader, leader_id=draw(_NODES))
        records = draw(st.none() | st.binary(max_size=300) | st.just(bytes(20_000)))
        return replace(partition, preferred_read_replica=draw(_NODES), current_leader=leader, records=records)

    topics = tuple(replace(each, partitions=tuple(map(with_nodes, each.partitions))) for each in entity.responses)
    return version, replace(entity, responses=topics, **nothing)


def expected(leaf: int, entity: Any) -> bytes:
    def renumbered(partition: Any) -> Any:
        leader = replace(partition.current_leader, leader_id=told(leaf, partition.current_leader.leader_id))
        replica = told(leaf, partition.preferred_read_replica)
        return replace(partition, preferred_read_replica=replica, current_leader=leader)

    topics = tuple(replace(each, partitions=tuple(map(renumbered, each.partitions))) for each in entity.responses)
    return HEADER + encode(replace(entity, responses=topics))


@given(answer=answers(), leaf=st.sampled_from(LEAVES), sizes=st.lists(st.integers(1, 200), max_size=100))
def test_node_ids_get_the_leaf_however_the_answer_is_cut(
    answer: tuple[int, Any], leaf: int, sizes: Sequence[int]
) -> None:
    version, entity = answer
    frame = HEADER + encode(entity)
    for cuts in ((), sizes, repeat(1) if len(frame) < 3_000 else ()):
        assert walk(AnswerWalker(ApiKey.FETCH, version, len(frame), leaf), frame, cuts) == expected(leaf, entity)


@pytest.mark.parametrize("version", [11, 19])
def test_other_versions_are_not_walked(version: int) -> None:
    with pytest.raises(ValueError, match="are not walked"):
        AnswerWalker(ApiKey.FETCH, version, 100, 1)
