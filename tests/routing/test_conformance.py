"""A correct router, and each way in which a router can break the rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

import pytest

from mesh.routing.conformance import problems_of
from mesh.routing.names import RouteName
from mesh.routing.routers.topics import Topics, TopicsConfig
from mesh.routing.spi import EntityRouter, PartPlace, Place

EU, US = RouteName("eu"), RouteName("us")
TOPICS = {"eu": ["orders", "us.orders"], "us": ["orders", "payments"]}
NAMES = ["us.x", "x", "us.", "us..", "orders"]


class Prefixed(EntityRouter):
    """Topics of us begin with "us."; tests break its rules."""

    @property
    def default(self) -> RouteName:
        return EU

    def topic(self, name: str) -> Place | None:
        rest = name.removeprefix("us.")
        if rest in ("", "."):
            return None
        return Place(EU, name) if rest == name else Place(US, rest)

    def topics_of(self, route: RouteName, names: Sequence[str]) -> Mapping[str, str]:
        if route == US:
            return {name: f"us.{name}" for name in names}
        return {name: name for name in names if not name.startswith("us.")}


class AllOfEu(Prefixed):
    def topics_of(self, route: RouteName, names: Sequence[str]) -> Mapping[str, str]:
        return {name: f"us.{name}" if route == US else name for name in names}


class AddsSome(Prefixed):
    def topics_of(self, route: RouteName, names: Sequence[str]) -> Mapping[str, str]:
        return {**super().topics_of(route, names), "audit": "audit-log"} if route == US else {}


class LooksAtAll(Prefixed):
    def topics_of(self, route: RouteName, names: Sequence[str]) -> Mapping[str, str]:
        return super().topics_of(route, names[-1:])


class Hides(Prefixed):
    def topics_of(self, route: RouteName, names: Sequence[str]) -> Mapping[str, str]:
        return {name: shown for name, shown in super().topics_of(route, names).items() if name != "x"}


class TooLong(Prefixed):
    def topics_of(self, route: RouteName, names: Sequence[str]) -> Mapping[str, str]:
        return {name: "us." + name + "!" for name in names} if route == US else {}


class Elsewhere(Prefixed):
    def topic(self, name: str) -> Place | None:
        return Place(RouteName("asia"), name) if name == "x" else super().topic(name)


class Empties(Prefixed):
    def topic(self, name: str) -> Place | None:
        return Place(US, "") if name == "us." else super().topic(name)


class SaysNothingIsRenamed(Prefixed):
    def renames(self, route: RouteName) -> bool:
        return False


class HomesElsewhere(Prefixed):
    def group(self, id: str) -> RouteName:
        return RouteName("asia")


class HomesInTurn(Prefixed):
    def __init__(self) -> None:
        self._turn = count()

    def transactional_id(self, id: str) -> RouteName:
        return (EU, US)[next(self._turn) % 2]


def test_nothing_is_wrong() -> None:
    assert list(problems_of(Prefixed(), TOPICS, NAMES, ["us.1"])) == []


def test_the_one_that_ships_is_good() -> None:
    rules = [
        {"name": "orders", "route": "us", "topic": "payments"},
        {"prefix": "us.", "route": "us", "strip": True},
        {"prefix": "", "route": "eu"},
    ]
    topics = Topics(TopicsConfig.model_validate({"topics": rules, "default": "eu"}))
    assert list(problems_of(topics, TOPICS, NAMES, ["us.1"])) == []


@pytest.mark.parametrize(
    ("router", "problem"),
    [
        (AllOfEu(), "clients call 'us.orders' of eu 'us.orders', but topic('us.orders') is 'orders' of us"),
        (AllOfEu(), "clients call 'us.orders' of eu and 'orders' of us both 'us.orders'"),
        (AddsSome(), "topics_of('us', ...) has 'audit', which was not asked about"),
        (LooksAtAll(), "topics_of('us', ['orders']) is {'orders': 'us.orders'}, and among others None"),
        (Hides(), "topic('x') is 'x' of eu, but clients are not shown that by this name"),
        (TooLong(), "clients call 'orders' of us 'us.orders!', which is no name of a topic"),
        (Elsewhere(), "topic('x') is behind 'asia', which is none of its routes: eu, us"),
        (Empties(), "topic('us.') is '', which is no name of a topic"),
        (SaysNothingIsRenamed(), "clients call 'orders' of us 'us.orders', but renames('us') is False"),
        (HomesElsewhere(), "group('us.1') is 'asia', which is none of its routes: eu, us"),
        (HomesInTurn(), "transactional_id('us.1') is 'eu' once, and then 'us'"),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, EntityRouter) else "",
)
def test_what_is_wrong_is_said(router: EntityRouter, problem: str) -> None:
    assert problem in list(problems_of(router, TOPICS, NAMES, ["us.1"]))


def test_a_default_that_is_none() -> None:
    assert list(problems_of(Prefixed(), {"us": []})) == ["default is 'eu', which is none of its routes: us"]


def joined(*parts: PartPlace, name: str = "joined") -> Mapping[str, Sequence[PartPlace]]:
    return {name: parts}


@pytest.mark.parametrize(
    ("concatenated", "problem"),
    [
        (joined(PartPlace(EU, "a", 1), PartPlace(US, "a", 2)), None),
        (joined(PartPlace(EU, "a", 1), name="a/b"), "concatenated()['a/b'] is no name of a topic"),
        (joined(), "concatenated()['joined'] has to have parts, each behind a route of its own"),
        (
            joined(PartPlace(EU, "a", 1), PartPlace(EU, "b", 2)),
            "concatenated()['joined'] has to have parts, each behind a route of its own",
        ),
        (
            joined(PartPlace(RouteName("asia"), "a", 1)),
            "concatenated()['joined'] has a part behind 'asia', which is none of its routes: eu, us",
        ),
        (
            joined(PartPlace(EU, "a", 0)),
            "concatenated()['joined'] has a part that cannot be: 'a' with 0 partitions",
        ),
        (
            {**joined(PartPlace(EU, "a", 1)), **joined(PartPlace(EU, "a", 2), name="other")},
            "concatenated()['other'] and 'joined' have the same part: 'a' of eu",
        ),
    ],
)
def test_topics_of_several_routes(concatenated: Mapping[str, Sequence[PartPlace]], problem: str | None) -> None:
    class Concatenates(Prefixed):
        def concatenated(self) -> Mapping[str, Sequence[PartPlace]]:
            return concatenated

    assert list(problems_of(Concatenates(), TOPICS, NAMES)) == ([] if problem is None else [problem])


def test_it_says_the_same_of_them_each_time() -> None:
    widths = count(1)

    class Grows(Prefixed):
        def concatenated(self) -> Mapping[str, Sequence[PartPlace]]:
            return joined(PartPlace(EU, "a", next(widths)))

    assert list(problems_of(Grows(), TOPICS)) == ["concatenated() is something else each time"]
