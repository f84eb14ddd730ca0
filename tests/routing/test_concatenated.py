"""The numbers of partitions of concatenated topics: the part of each, and that no number ever changes."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.routing.concatenated import (
    Concatenated,
    Part,
    PartIds,
    PartsAtLeaf,
    concatenate,
    epoch_offset_after,
    leaderless,
    problem_with,
)
from mesh.routing.graph import compile_graph
from mesh.routing.names import LeafNumber, RouterName
from mesh.routing.routers.topics import Topics, TopicsConfig
from mesh.routing.union import Owner, Union
from mesh.wire.part_walker import Shift
from tests.routing.graphs import router, to
from tests.routing.unions import SAME, union_of

EU, US = LeafNumber(0), LeafNumber(1)
JOINED = {
    **SAME,
    "concatenated": [
        {"name": "orders", "parts": [{"route": "eu", "width": 4}, {"route": "us", "topic": "orders-west", "width": 8}]}
    ],
}
widths = st.lists(st.integers(1, 50), min_size=1, max_size=6)


def made_of(widths: list[int]) -> Concatenated:
    return concatenate("orders", "eu", [(LeafNumber(leaf), "orders", width) for leaf, width in enumerate(widths)])


@given(widths=widths)
def test_every_number_is_one_partition_of_one_part(widths: list[int]) -> None:
    topic = made_of(widths)
    assert topic.width == sum(widths)
    seen = []
    for number in range(topic.width):
        part = topic.part_with_partition(number)
        assert part is not None
        assert [each for each in topic.parts if each.to_leaf_partition(number) is not None] == [part]
        at_leaf = part.to_leaf_partition(number)
        assert at_leaf is not None
        assert part.to_client_partition(at_leaf) == number
        seen.append((part.leaf, at_leaf))
    assert seen == [(LeafNumber(leaf), each) for leaf, width in enumerate(widths) for each in range(width)]


@given(widths=widths, beyond=st.integers(0, 5))
def test_what_is_beyond_a_width_is_not_seen(widths: list[int], beyond: int) -> None:
    topic = made_of(widths)
    assert topic.part_with_partition(topic.width + beyond) is None
    assert topic.part_with_partition(-1 - beyond) is None
    for part in topic.parts:
        assert part.to_client_partition(part.width + beyond) is None
        assert part.to_leaf_partition(part.first - 1 - beyond) is None


@given(widths=widths, wider=st.integers(0, 5), more=widths)
def test_what_is_appended_moves_nothing(widths: list[int], wider: int, more: list[int]) -> None:
    before, after = made_of(widths), made_of([*widths[:-1], widths[-1] + wider, *more])
    assert after.id == before.id
    for number in range(before.width):
        was, now = before.part_with_partition(number), after.part_with_partition(number)
        assert was is not None and now is not None
        assert (was.leaf, was.to_leaf_partition(number)) == (now.leaf, now.to_leaf_partition(number))


def test_the_id_is_that_of_the_name_and_the_first_part() -> None:
    parts = [(EU, "orders", 1), (US, "orders", 1)]
    id = concatenate("orders", "eu", parts).id
    assert id == UUID("b5e83c64-5f47-5f09-b2f1-d8fa83e659f7"), "clients remember it"
    assert concatenate("orders", "eu", parts).id == id
    assert concatenate("other", "eu", parts).id != id
    assert concatenate("orders", "eu", [(EU, "other", 1)]).id != id
    assert concatenate("orders", "us", [(US, "orders", 1)]).id != id


@pytest.mark.parametrize(
    ("partitions", "reason"),
    [
        (8, None),
        (0, "topic orders-west is not there, 8 are declared: partitions 4 to 11 of orders have no leader"),
        (5, "topic orders-west has 5 partitions, 8 are declared: partitions 9 to 11 of orders have no leader"),
        (9, "topic orders-west has 9 partitions, 8 are declared: clients see no others"),
    ],
)
def test_other_widths_are_told(partitions: int, reason: str | None) -> None:
    part = union_of(JOINED).concatenated.part(US, "orders-west")
    assert part is not None
    assert problem_with(part, partitions) == reason


def test_ids_of_a_part_that_is_created_again_are_known_for_a_while() -> None:
    ids = PartIds(most=2)
    for number in (1, 2, 2, 3):
        ids.learn(EU, "orders", UUID(int=number))
    assert ids.newest(EU, "orders") == UUID(int=3)
    assert [ids.topic(EU, UUID(int=number)) for number in (1, 2, 3)] == [None, "orders", "orders"]
    assert ids.topic(US, UUID(int=3)) is None


def test_a_leaf_knows_its_part_by_names_and_ids() -> None:
    topics, ids = union_of(JOINED).concatenated, PartIds()
    orders = topics.named("orders")
    assert orders is not None
    at_us = PartsAtLeaf(US, topics, ids)
    assert at_us
    part = at_us.by_client_name("orders")
    assert part is not None
    assert (part.topic, part.first, part.end) == ("orders-west", 4, 12)
    assert at_us.by_leaf_name("orders-west") == at_us.by_client_id(orders.id) == part
    assert at_us.id_of(part) is None and at_us.shifts() == {}
    ids.learn(US, "orders-west", UUID(int=9))
    assert at_us.by_leaf_id(UUID(int=9)) == part
    told = Shift(orders.id.bytes, 4)
    assert at_us.shifts() == {UUID(int=9).bytes: told}
    assert at_us.shifts() is at_us.shifts(), "it is made for each Fetch answer"
    ids.learn(US, "orders-west", UUID(int=10))
    assert at_us.shifts() == {UUID(int=9).bytes: told, UUID(int=10).bytes: told}, "an answer may have the earlier one"
    assert at_us.by_leaf_name("orders") is at_us.by_client_name("other") is at_us.by_leaf_id(UUID(int=8)) is None
    assert at_us.is_concatenated("orders") and at_us.is_concatenated(orders.id)
    assert not at_us.is_concatenated("orders-west")


def test_a_partition_that_is_missing_has_no_leader() -> None:
    assert leaderless(7)["partition_index"] == 7
    assert leaderless(7)["leader_id"] == -1
    assert leaderless(7)["error_code"] == 5


# In a union


def test_a_part_has_no_name_of_its_own() -> None:
    union = union_of(JOINED)
    assert union.owner("orders") is None, "it is of several"
    assert union.owner("orders-west") == Owner(EU, "orders-west"), "which is another one, of eu"
    assert union.owner("us.orders-west") == Owner(US, "us.orders-west")
    assert union.client_name(EU, "orders") == union.client_name(US, "orders-west") == "orders"
    assert union.client_names(US, ["orders-west", "us.a", "b"]) == {"orders-west": "orders", "us.a": "us.a"}
    assert union.renames(US) and not union.renames(EU)


def test_a_rule_that_leads_to_a_part_leads_nowhere() -> None:
    config = {**JOINED, "topics": [{"name": "alias", "route": "us", "topic": "orders-west"}, *SAME["topics"]]}
    union = Union(
        compile_graph([router("regions", eu="eu", us="us")], RouterName("regions")),
        {RouterName("regions"): Topics(TopicsConfig.model_validate(config))},
    )
    assert union.owner("alias") is None
    assert union.client_name(US, "orders-west") == "orders"


def test_a_union_without_them_has_none() -> None:
    union = union_of(SAME)
    assert not union.concatenated
    assert not PartsAtLeaf(US, union.concatenated, PartIds())


def test_the_way_to_it_ends_where_it_is_concatenated() -> None:
    assert union_of(JOINED).path_to("orders") == []
    assert [path for path, _ in union_of(JOINED).path_to("other")] == [("eu",)]


def nested() -> Union:
    """The inner router has the topic; the outer one shows its topics behind `in.`."""
    graph = compile_graph([router("outer", inner=to("inner"), ap="ap"), router("inner", eu="eu", us="us")], OUTER)
    outer = {"topics": [{"prefix": "in.", "route": "inner", "strip": True}], "default": "inner"}
    routers = {OUTER: Topics(TopicsConfig.model_validate(outer)), INNER: Topics(TopicsConfig.model_validate(JOINED))}
    return Union(graph, routers)


OUTER, INNER = RouterName("outer"), RouterName("inner")


def test_a_router_behind_another_one_may_have_it() -> None:
    union = nested()
    (topic,) = union.concatenated
    assert (topic.name, topic.width) == ("in.orders", 12)
    assert [str(leaf) for leaf in union.leaves] == ["inner/eu", "ap", "inner/us"]
    leaf = topic.parts[1].leaf
    assert union.client_name(leaf, "orders-west") == "in.orders"
    assert union.owner("in.orders") is None
    assert union.owner("orders") is None
    assert [path for path, _ in union.path_to("in.orders")] == [("inner",)]


def test_a_route_that_leads_to_no_cluster_has_no_part() -> None:
    graph = compile_graph([router("outer", eu=to("inner"), us="us"), router("inner", eu="eu")], OUTER)
    inner = {"topics": [{"prefix": "", "route": "eu"}], "default": "eu"}
    routers = {OUTER: Topics(TopicsConfig.model_validate(JOINED)), INNER: Topics(TopicsConfig.model_validate(inner))}
    with pytest.raises(ValueError, match="a part of orders is behind route eu, which leads to no cluster"):
        Union(graph, routers)


MOVED = Part("orders", UUID(int=7), US, "orders", 0, 3, epoch_offset_after(2))


def test_epochs_of_a_topic_that_was_moved_rise_with_each_cut() -> None:
    shown = [replace(MOVED, epoch_offset=epoch_offset_after(cuts)).to_client_epoch(7 - cuts) for cuts in range(8)]
    assert shown == sorted(shown) and len({*shown}) == len(shown)
    assert MOVED.to_client_epoch(-1) == -1, "it has no leader"
    assert MOVED.to_client_epoch(MOVED.to_leaf_epoch(MOVED.epoch_offset + 5)) == MOVED.epoch_offset + 5
    assert MOVED.to_leaf_epoch(5) == -1, "from before it was moved: the cluster checks no epoch"


@given(cuts=st.integers(1, 10_000), epoch=st.integers(0, (1 << 31) - 1))
def test_an_epoch_fits_however_often_a_topic_was_moved(cuts: int, epoch: int) -> None:
    part = replace(MOVED, epoch_offset=epoch_offset_after(cuts))
    assert part.epoch_offset < part.to_client_epoch(epoch) + 1 <= 1 << 31


def test_the_log_of_a_topic_that_was_moved_is_not_truncated() -> None:
    assert MOVED.to_leaf_record_epoch(5) == -1
    assert (MOVED.to_client_end_epoch(-1), MOVED.to_client_end_epoch(3)) == (0, 3)
    assert MOVED.to_client_end_offset(-1) == (1 << 63) - 1
    never = replace(MOVED, epoch_offset=0)
    assert (never.to_leaf_record_epoch(5), never.to_client_end_epoch(-1), never.to_client_end_offset(-1)) == (5, -1, -1)
    assert (never.to_client_epoch(5), never.to_leaf_epoch(5)) == (5, 5)
