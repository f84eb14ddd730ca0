"""Routers that decide by names, behind each other: the names that they give a topic, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.routing.graph import Decides, ToPool, compile_graph
from mesh.routing.names import LeafNumber, RouteName, RouterName
from mesh.routing.spi import EntityRouter, Place
from mesh.routing.union import Owner, Union, UnknownRoute
from tests.routing.graphs import path, router, to
from tests.routing.routers.test_topics import EVERY_NAME, RULES, topics


class Prefixes(EntityRouter):
    """The names of a route begin with its name and a dot, which is removed; the first route gets all other names."""

    def __init__(self, *routes: str, hides: str = "hidden") -> None:
        self._routes = tuple(map(RouteName, routes))
        self._hides = hides

    @property
    def default(self) -> RouteName:
        return self._routes[0]

    def topic(self, name: str) -> Place | None:
        first, dot, rest = name.partition(".")
        if dot and rest and first in self._routes[1:]:
            return Place(RouteName(first), rest)
        return None if name == self._hides else Place(self.default, name)

    def topics_of(self, route: RouteName, names: Sequence[str]) -> Mapping[str, str]:
        return {name: name if route == self.default else f"{route}.{name}" for name in names if name != self._hides}

    def group(self, id: str) -> RouteName:
        first = id.partition(".")[0]
        return RouteName(first) if first in self._routes else self.default

    transactional_id = group

    def renames(self, route: RouteName) -> bool:
        return route != self.default


EU, US, ASIA = LeafNumber(0), LeafNumber(1), LeafNumber(33)
ROUTERS = {RouterName("regions"): Prefixes("eu", "more"), RouterName("more"): Prefixes("us", "asia")}
REGIONS, MORE = router("regions", eu="eu", more=to("more")), router("more", us="us", asia="asia")
UNION = Union(compile_graph([REGIONS, MORE], RouterName("regions")), ROUTERS)
NAMES = st.lists(st.sampled_from(["eu", "more", "us", "asia", "hidden", "orders"]), min_size=1, max_size=4).map(
    ".".join
)


def test_leaves_of_both_levels() -> None:
    assert [(each.number, each.path) for each in UNION.leaves] == [
        (EU, ("eu",)),
        (US, ("more", "us")),
        (ASIA, ("more", "asia")),
    ]
    assert UNION.default == EU
    assert [UNION.renames(each) for each in (EU, US, ASIA)] == [False, True, True]


@pytest.mark.parametrize(
    ("topic", "owner"),
    [
        ("orders", Owner(EU, "orders")),
        ("more.orders", Owner(US, "orders")),
        ("more.asia.orders", Owner(ASIA, "orders")),
        ("more.hidden", None),
        ("hidden", None),
    ],
)
def test_the_owner_of_a_topic(topic: str, owner: Owner | None) -> None:
    assert UNION.owner(topic) == owner
    if owner is not None:
        assert UNION.client_name(owner.leaf, owner.topic) == topic


def test_a_topic_that_another_would_be_called_like_is_hidden() -> None:
    """eu has a topic with the same name under which clients see one of us."""
    assert UNION.client_name(US, "orders") == "more.orders"
    assert UNION.client_name(EU, "more.orders") is None
    assert UNION.client_names(EU, ["more.orders", "orders", "hidden", "x"]) == {"orders": "orders", "x": "x"}


@given(NAMES)
def test_the_owner_shows_the_topic_by_that_name(topic: str) -> None:
    owner = UNION.owner(topic)
    if owner is not None:
        assert UNION.client_name(owner.leaf, owner.topic) == (topic if owner.topic != "hidden" else None)


@given(st.lists(st.tuples(st.sampled_from([EU, US, ASIA]), NAMES), max_size=12, unique=True))
def test_no_two_topics_are_shown_by_one_name(there: list[tuple[LeafNumber, str]]) -> None:
    together = [name for leaf, topic in there if (name := UNION.client_name(leaf, topic)) is not None]
    assert len(together) == len(set(together))
    for leaf in (EU, US, ASIA):
        names = [topic for each, topic in there if each == leaf]
        assert UNION.client_names(leaf, names) == {
            name: shown for name in names if (shown := UNION.client_name(leaf, name)) is not None
        }


@given(RULES, RULES)
def test_through_two_routers_each_topic_has_one_name(
    outer: list[Mapping[str, object]], inner: list[Mapping[str, object]]
) -> None:
    """outer: a router over eu and us; its us leads to the inner one, with its own eu and us."""
    routers = [router("outer", eu="a", us=to("inner")), router("inner", eu="b", us="c")]
    rules = {RouterName("outer"): topics(*outer), RouterName("inner"): topics(*inner)}
    union = Union(compile_graph(routers, RouterName("outer")), rules)
    shown = {
        (leaf.number, topic): name
        for leaf in union.leaves
        for topic, name in union.client_names(leaf.number, EVERY_NAME).items()
    }
    assert len(set(shown.values())) == len(shown)
    for place, name in shown.items():
        assert union.owner(name) == place
        assert union.renames(place[0]) or name == place[1]
    for name in EVERY_NAME:
        if (owner := union.owner(name)) is not None:
            assert union.client_name(*owner) == name


@pytest.mark.parametrize(("id", "home"), [("billing", EU), ("eu.x", EU), ("more.x", US), ("asia.x", EU)])
def test_homes(id: str, home: LeafNumber) -> None:
    assert UNION.group_home(id) == UNION.transaction_home(id) == home


def test_a_union_behind_a_route_has_the_leaves_of_the_graph() -> None:
    who = router("who", Decides.CONNECTIONS, True, more=to("more"), eu="eu", shared=ToPool())
    graph = compile_graph([who, MORE], RouterName("who"))
    union = Union(graph, ROUTERS, path("more"))
    assert [each.cluster for each in union.leaves] == ["us", "asia"]
    assert union.owner("asia.orders") == Owner(LeafNumber(1 << 5), "orders")
    assert union.client_name(LeafNumber(1 << 5), "orders") == "asia.orders"
    for other in (path("eu"), path("shared"), ()):
        with pytest.raises(ValueError, match="router that goes by names"):
            Union(graph, ROUTERS, other)


def test_a_route_that_is_not_there_is_named() -> None:
    graph = compile_graph([router("regions", eu="eu")], RouterName("regions"))
    union = Union(graph, {RouterName("regions"): Prefixes("eu", "us")})
    with pytest.raises(UnknownRoute, match="router regions has chosen route 'us' and not one of eu"):
        union.owner("us.orders")
    with pytest.raises(UnknownRoute):
        union.group_home("us.x")
