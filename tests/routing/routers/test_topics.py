"""The router `topics`: the owner of a name, and the name that clients use for a topic."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from mesh.routing.graph import compile_graph
from mesh.routing.names import RouteName, RouterName
from mesh.routing.routers.topics import Topics, TopicsConfig, TopicsFactory
from mesh.routing.spi import FactoryContext, PartPlace, Place
from mesh.routing.union import Union
from tests.routing.graphs import router

EU, US = RouteName("eu"), RouteName("us")
ROUTES = (EU, US)
NAMED = {"name": "orders", "route": "us", "topic": "orders-v2"}
STRIPPED = {"prefix": "us.", "route": "us", "strip": True}
PATTERN = {"pattern": "audit-*", "route": "us"}
REST = {"prefix": "", "route": "eu"}


def part(route: str, width: object = 4, **keys: object) -> dict[str, object]:
    return {"route": route, "width": width, **keys}


def joined(*parts: Mapping[str, object], name: str = "joined") -> dict[str, object]:
    return {"name": name, "parts": parts}


def configured(*rules: Mapping[str, object], **keys: object) -> TopicsConfig:
    return TopicsConfig.model_validate({"topics": rules, "default": "eu", **keys})


def topics(*rules: Mapping[str, object], **keys: object) -> Topics:
    return Topics(configured(*rules, **keys))


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("orders", Place(US, "orders-v2")),
        ("us.payments", Place(US, "payments")),
        ("audit-1", Place(US, "audit-1")),
        ("audit", Place(EU, "audit")),
        ("us.", Place(EU, "us.")),
        ("us..", Place(EU, "us..")),
        ("us.orders-v2", None),
        ("us.audit-1", None),
    ],
)
def test_the_first_rule_decides_and_a_topic_has_one_name(name: str, place: Place | None) -> None:
    router = topics(NAMED, PATTERN, STRIPPED, REST)
    assert router.topic(name) == place
    if place is not None:
        assert router.topics_of(place.route, [place.topic]) == {place.topic: name}


def test_what_no_rule_leads_to_is_hidden() -> None:
    router = topics(NAMED, STRIPPED, REST)
    assert router.topics_of(US, ["orders-v2", "orders", "us.x"]) == {
        "orders-v2": "orders",
        "orders": "us.orders",
        "us.x": "us.us.x",
    }
    assert router.topics_of(EU, ["orders", "us.x", "payments"]) == {"payments": "payments"}
    assert topics(NAMED).topic("payments") is None


def test_a_name_that_would_be_too_long_is_hidden() -> None:
    router = topics({"prefix": "us.", "route": "us", "strip": True}, REST)
    assert list(router.topics_of(US, ["a" * 246, "a" * 247])) == ["a" * 246]
    assert router.topics_of(EU, ["a" * 250]) == {}
    assert router.topic("a" * 249) == Place(EU, "a" * 249)
    assert router.topic("a" * 250) is None


def test_which_routes_have_topics_by_other_names() -> None:
    assert [topics(STRIPPED, REST).renames(each) for each in ROUTES] == [False, True]
    assert [topics(NAMED, REST).renames(each) for each in ROUTES] == [False, True]
    plain = topics({"name": "a", "route": "us"}, {"name": "b", "route": "us", "topic": "b"}, PATTERN, REST)
    assert not any(map(plain.renames, ROUTES))


def test_homes() -> None:
    router = topics(
        REST,
        groups=[{"pattern": "us-*", "route": "us"}, {"pattern": "*", "route": "eu"}],
        transactional_ids=[{"pattern": "tx-[12]", "route": "us"}],
    )
    assert [router.group(each) for each in ("us-1", "US-1", "billing")] == [US, EU, EU]
    assert [router.transactional_id(each) for each in ("tx-1", "tx-3")] == [US, EU]
    assert router.default == EU


LETTERS = st.sampled_from(["a", "b", ".", "a.", "b."])
NAMES = st.lists(LETTERS, min_size=1, max_size=3).map("".join).filter(lambda name: name not in (".", ".."))
RULES: st.SearchStrategy[list[Mapping[str, object]]] = st.lists(
    st.one_of(
        st.builds(dict, name=NAMES, route=st.sampled_from(ROUTES), topic=st.none() | NAMES),
        st.builds(dict, prefix=st.just("") | NAMES, route=st.sampled_from(ROUTES), strip=st.booleans()),
        st.builds(dict, pattern=NAMES.map("{}*".format) | NAMES, route=st.sampled_from(ROUTES)),
    ),
    max_size=5,
)
EVERY_NAME = ["".join(each) for size in (1, 2, 3, 4) for each in itertools.product("ab.", repeat=size)]


@given(RULES)
def test_names_and_topics_are_each_others(rules: list[Mapping[str, object]]) -> None:
    """Even for rules that the checks would refuse."""
    router = topics(*rules)
    shown = {(route, topic): name for route in ROUTES for topic, name in router.topics_of(route, EVERY_NAME).items()}
    assert len(set(shown.values())) == len(shown)
    for place, name in shown.items():
        assert router.topic(name) == place
        assert router.renames(place[0]) or name == place[1]
    for name in EVERY_NAME:
        if (found := router.topic(name)) is not None:
            assert router.topics_of(found.route, [found.topic]) == {found.topic: name}


def test_the_factory_makes_one_of_a_union() -> None:
    factory = TopicsFactory()
    context = FactoryContext(RouterName("regions"), "all", ROUTES)
    made = factory.create_router(context, factory.initialize(context, configured(STRIPPED, REST)))
    union = Union(compile_graph([router("regions", eu="EU", us="US")], context.name), {context.name: made})
    assert union.client_names(union.leaves[1].number, ["orders"]) == {"orders": "us.orders"}


@pytest.mark.parametrize(
    ("config", "path", "value", "allowed"),
    [
        (configured(REST, default="asia"), ("default",), "asia", "one of the routes of this router: eu, us"),
        (
            configured({"name": "a", "route": "x"}),
            ("topics", 0, "route"),
            "x",
            "one of the routes of this router: eu, us",
        ),
        (
            configured(REST, groups=[{"pattern": "*", "route": "x"}]),
            ("groups", 0, "route"),
            "x",
            "one of the routes of this router: eu, us",
        ),
        (
            configured(REST, transactional_ids=[{"pattern": "*", "route": "x"}]),
            ("transactional_ids", 0, "route"),
            "x",
            "one of the routes of this router: eu, us",
        ),
        (configured(), ("topics",), (), "at least one, or a concatenated topic"),
        (
            configured(REST, concatenated=[joined(part("x"))]),
            ("concatenated", 0, "parts", 0, "route"),
            "x",
            "one of the routes of this router: eu, us",
        ),
        (configured(REST, concatenated=[joined()]), ("concatenated", 0, "parts"), (), "at least one"),
        (
            configured(REST, concatenated=[joined(part("eu")), joined(part("us"))]),
            ("concatenated", 1, "name"),
            "joined",
            "named once; concatenated[0] is the same",
        ),
        (
            configured({"name": "joined", "route": "eu"}, concatenated=[joined(part("us"))]),
            ("concatenated", 0, "name"),
            "joined",
            "named once; topics[0] is the same",
        ),
        (
            configured(REST, concatenated=[joined(part("eu"), part("eu", topic="other"))]),
            ("concatenated", 0, "parts", 1, "route"),
            "eu",
            "a route of its own; parts[0] has the same",
        ),
        (
            configured({"name": "a", "route": "us", "topic": "joined"}, concatenated=[joined(part("eu"), part("us"))]),
            ("concatenated", 0, "parts", 1, "topic"),
            "joined",
            "a topic of its own; topics[0] is joined of us too",
        ),
        (
            configured({"name": "a", "route": "eu"}, {"name": "a", "route": "us"}),
            ("topics", 1, "name"),
            "a",
            "named once; topics[0] is the same",
        ),
        (
            configured({"name": "a", "route": "eu"}, {"name": "b", "route": "eu", "topic": "a"}),
            ("topics", 1, "topic"),
            "a",
            "a topic of its own; topics[0] is a of eu too",
        ),
        (
            configured(REST, NAMED),
            ("topics", 1, "name"),
            "orders",
            "a name that can match; topics[0] comes first and matches all of its topics",
        ),
        (
            configured(STRIPPED, {"prefix": "us.a", "route": "eu"}),
            ("topics", 1, "prefix"),
            "us.a",
            "a prefix that can match; topics[0] comes first and matches all of its topics",
        ),
        (
            configured({"prefix": "audit", "route": "eu"}, PATTERN),
            ("topics", 1, "pattern"),
            "audit-*",
            "a pattern that can match; topics[0] comes first and matches all of its topics",
        ),
    ],
)
def test_a_mistake(config: TopicsConfig, path: tuple[str | int, ...], value: object, allowed: str) -> None:
    (found,) = TopicsFactory().mistakes(config, ROUTES)
    assert (found.path, found.value, found.allowed) == (path, value, allowed)


def test_nothing_is_wrong() -> None:
    assert list(TopicsFactory().mistakes(configured(NAMED, PATTERN, STRIPPED, REST), ROUTES)) == []


@pytest.mark.parametrize(
    ("rule", "allowed"),
    [
        ({"name": "a b", "route": "eu"}, "a topic name"),
        ({"prefix": "a b", "route": "eu"}, "how a topic name begins"),
        ({"pattern": "[a", "route": "eu"}, "a pattern"),
        ({"name": "a", "prefix": "b", "route": "eu"}, "{name, route, topic}"),
        ({"route": "eu"}, "{name, route, topic}"),
        ("orders", "{name, route, topic}"),
    ],
)
def test_a_rule_that_is_none(rule: Any, allowed: str) -> None:
    with pytest.raises(ValidationError) as caught:
        configured(rule)
    assert caught.value.errors()[0]["msg"].startswith(allowed)


def test_routes_share_a_cluster_only_if_prefixes_tell_their_topics_apart() -> None:
    shares = TopicsFactory().shares_clusters
    assert shares(configured(STRIPPED, {"prefix": "eu.", "route": "eu", "strip": True}))
    for other in (REST, NAMED, PATTERN, {"prefix": "", "route": "eu", "strip": True}):
        assert not shares(configured(STRIPPED, other))


@pytest.mark.parametrize("width", [0, -1, 10_001])
def test_widths_are_bounded(width: int) -> None:
    with pytest.raises(ValidationError, match="partitions: 1 to 10000"):
        configured(REST, concatenated=[joined(part("eu", width))])


def test_parts_are_called_as_the_topic_unless_it_is_said() -> None:
    router = topics(REST, concatenated=[joined(part("eu"), part("us", 8, topic="other"))])
    assert router.concatenated() == {"joined": (PartPlace(EU, "joined", 4), PartPlace(US, "other", 8))}
    assert topics(REST).concatenated() == {}


TWO = joined(part("eu", 4), part("us", 8))


@pytest.mark.parametrize(
    ("before", "after", "is_moved"),
    [
        ([TWO], [TWO], False),
        ([TWO], [joined(part("eu", 4), part("us", 9))], False),
        ([TWO], [joined(part("eu", 4), part("us", 9), part("ap", 1))], False),
        ([TWO], [joined(part("eu", 5), part("us", 8))], True),
        ([TWO], [joined(part("eu", 4), part("us", 7))], True),
        ([TWO], [joined(part("us", 8), part("eu", 4))], True),
        ([TWO], [joined(part("eu", 4))], True),
        ([TWO], [joined(part("eu", 4), part("us", 8, topic="other"))], True),
        ([TWO], [], False),
        ([], [TWO], False),
    ],
)
def test_which_partitions_move(before: list[Any], after: list[Any], is_moved: bool) -> None:
    """A name that becomes a concatenated topic, or stops being one, stands for another topic, with another id."""
    was, is_to_be = configured(REST, concatenated=before), configured(REST, concatenated=after)
    assert list(is_to_be.moved_from(was)) == ([("joined", 0)] if is_moved else [])
