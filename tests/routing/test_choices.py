from __future__ import annotations

from collections.abc import Callable

import pytest

from mesh.routing.choices import Choices
from mesh.routing.graph import Decides, GraphRouter, Leaf, PoolEnd, ToPool, compile_graph
from mesh.routing.names import RouteName, RouterName
from mesh.routing.spi import Client, ConnectionRouter, Refused, Undecided
from mesh.security.principals import Principal
from tests.routing.graphs import path, router, to

Choice = Callable[[Client], RouteName | Refused | Undecided]
OUTER = router("outer", Decides.CONNECTIONS, True, inner=to("inner"), union=to("regions"), eu="eu")
INNER = router("inner", Decides.CONNECTIONS, True, us="us", shared=ToPool())
REGIONS = router("regions", eu="eu", us="us")
GRAPH = compile_graph([OUTER, INNER, REGIONS], RouterName("outer"))
NOBODY = Client(None, None, "127.0.0.1", "door")
ALICE = Client(Principal("User:alice"), None, "127.0.0.1", "door")


class Chosen(ConnectionRouter):
    """Chooses as a test says. asked: the clients for which it was asked."""

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        self.asked: list[Client] = []

    def choose(self, client: Client) -> RouteName | Refused | Undecided:
        self.asked.append(client)
        return self.choice(client)


def choices(outer: Choice, inner: Choice) -> tuple[Choices, Chosen, Chosen]:
    made = Chosen(outer), Chosen(inner)
    return Choices(GRAPH, {RouterName("outer"): made[0], RouterName("inner"): made[1]}), *made


def always(route: str) -> Choice:
    return lambda client: RouteName(route)


def test_its_ways_end_where_no_other_chooses() -> None:
    made, *_ = choices(always("inner"), always("us"))
    assert dict(made.paths) == {
        "inner/us": path("inner", "us"),
        "inner/shared": path("inner", "shared"),
        "union": path("union"),
        "eu": path("eu"),
    }
    assert isinstance(made.end(RouteName("inner/us")), Leaf)
    assert isinstance(made.end(RouteName("inner/shared")), PoolEnd)
    assert isinstance(made.end(RouteName("union")), GraphRouter)


def test_the_next_one_is_asked_about_the_same_client() -> None:
    made, outer, inner = choices(always("inner"), always("shared"))
    assert made.choose(ALICE) == "inner/shared"
    assert (outer.asked, inner.asked) == ([ALICE], [ALICE])


@pytest.mark.parametrize("route", ["union", "eu"])
def test_nobody_else_is_asked_where_the_way_ends(route: str) -> None:
    made, _, inner = choices(always(route), always("us"))
    assert made.choose(ALICE) == route
    assert inner.asked == []


@pytest.mark.parametrize("no", [Refused("not here"), Undecided()])
def test_either_may_choose_nothing(no: Refused | Undecided) -> None:
    made, _, inner = choices(lambda client: no, always("us"))
    assert made.choose(ALICE) == no
    assert inner.asked == []
    made, *_ = choices(always("inner"), lambda client: no)
    assert made.choose(ALICE) == no


def test_an_undecided_client_is_led_when_the_principal_is_known() -> None:
    def by_principal(client: Client) -> RouteName | Undecided:
        return RouteName("us") if client.principal is not None else Undecided()

    made, *_ = choices(always("inner"), by_principal)
    assert made.choose(NOBODY) == Undecided()
    assert made.choose(ALICE) == "inner/us"


@pytest.mark.parametrize(("outer", "inner", "named"), [("us", "us", "us"), ("inner", "eu", "inner/eu")])
def test_a_route_that_a_router_has_not_is_no_way(outer: str, inner: str, named: str) -> None:
    made, *_ = choices(always(outer), always(inner))
    assert made.choose(ALICE) == named
    assert named not in made.paths


@pytest.mark.parametrize(
    ("way", "names"),
    [("inner/us", ("outer", "inner")), ("union", ("outer", "regions")), ("eu", ("outer",))],
)
def test_the_routers_on_a_way(way: str, names: tuple[str, ...]) -> None:
    made, *_ = choices(always("eu"), always("us"))
    assert made.routers_on_path(RouteName(way)) == names
