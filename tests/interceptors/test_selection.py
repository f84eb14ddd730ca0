"""The interceptors that see the records of a topic, their order, and the name that they see."""

from __future__ import annotations

from mesh.interceptors.chain import InterceptorName, OnFailure, Placed
from mesh.interceptors.selection import Chosen, ConfiguredInterceptor, InterceptionPoint, Isolation, Selection
from mesh.interceptors.spi import On
from mesh.security.principals import ANONYMOUS, Principal


def of(name: str, topics: str = "*", on: frozenset[On] = frozenset(On), principals: str = "*") -> ConfiguredInterceptor:
    return ConfiguredInterceptor(
        InterceptorName(name), "it", (topics,), on, (principals,), 5.0, 1, OnFailure.FAIL, Isolation.INLINE
    )


FIRST, SECOND = of("first"), of("second", on=frozenset({On.FETCH}))
OF_ROUTE = of("of-route", topics="orders")


def points_of(topic: str) -> list[InterceptionPoint]:
    """Topics that begin with `us.` are behind a route that strips the prefix."""
    stops = [InterceptionPoint((FIRST, SECOND), topic)]
    return [*stops, InterceptionPoint((OF_ROUTE,), topic[3:], "us")] if topic.startswith("us.") else stops


def steps(chosen: Chosen | None) -> list[Placed]:
    assert chosen is not None
    assert [each.name for each in chosen.interceptors] == [each.name for each in chosen.steps]
    return list(chosen.steps)


def selection() -> Selection:
    return Selection([FIRST, SECOND, OF_ROUTE], points_of)


def test_those_of_a_route_come_behind_and_have_the_name_that_is_behind_it() -> None:
    produced = selection().chosen("us.orders", On.PRODUCE, ANONYMOUS)
    assert steps(produced) == [Placed(FIRST.name, "us.orders"), Placed(OF_ROUTE.name, "orders", "us")]


def test_what_is_fetched_takes_the_reverse_order() -> None:
    fetched = selection().chosen("us.orders", On.FETCH, ANONYMOUS)
    assert steps(fetched) == [
        Placed(OF_ROUTE.name, "orders", "us"),
        Placed(SECOND.name, "us.orders"),
        Placed(FIRST.name, "us.orders"),
    ]


def test_topics_of_other_routes_do_not_meet_it() -> None:
    assert steps(selection().chosen("orders", On.PRODUCE, ANONYMOUS)) == [Placed(FIRST.name, "orders")]


def test_nobody() -> None:
    only = Selection([OF_ROUTE], lambda topic: [InterceptionPoint((OF_ROUTE,), topic)])
    assert only.chosen("others", On.FETCH, ANONYMOUS) is None


def test_principals() -> None:
    limited = of("limited", principals="User:a*")
    one = Selection([limited], lambda topic: [InterceptionPoint((limited,), topic)])
    assert one.chosen("orders", On.FETCH, Principal("User:alice")) is not None
    assert one.chosen("orders", On.FETCH, Principal("User:bob")) is None


def test_other_stops_count_at_once() -> None:
    here = selection()
    assert len(steps(here.chosen("us.orders", On.PRODUCE, ANONYMOUS))) == 2
    here.change(lambda topic: [InterceptionPoint((FIRST,), topic)])
    assert steps(here.chosen("us.orders", On.PRODUCE, ANONYMOUS)) == [Placed(FIRST.name, "us.orders")]
