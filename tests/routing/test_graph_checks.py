"""Each mistake with its key, its value and the allowed values; and random graphs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.records.spans import ClusterName
from mesh.routing.graph import Decides, GraphRouter, Route, ToCluster, ToPool, ToRouter, compile_graph
from mesh.routing.graph_checks import KeyPath, mistakes_in
from mesh.routing.names import RouteName, RouterName
from tests.routing.graphs import router, to

ROOT: KeyPath = ("virtual_clusters", 0, "target", "router")
CLUSTERS = frozenset({"eu", "us", "asia"})


def found(*routers: GraphRouter, roots: Sequence[str] = ("a",)) -> list[tuple[str, object, str]]:
    mistakes = mistakes_in(routers, [(ROOT, RouterName(each)) for each in roots], CLUSTERS)
    return [(".".join(map(str, each.path)), each.value, each.allowed) for each in mistakes]


def two_routes(second: Route) -> GraphRouter:
    return GraphRouter(RouterName("a"), (Route(RouteName("eu"), 0, ToCluster(ClusterName("eu"))), second))


US = ToCluster(ClusterName("us"))


def test_nothing_is_wrong() -> None:
    clients = router("a", Decides.CONNECTIONS, True, all=to("b"), eu="eu", pool=ToPool())
    assert found(clients, router("b", eu="eu", us="us")) == []
    assert found(router("a", Decides.REQUESTS, all=to("b")), router("b", eu="eu", us="us")) == []
    assert found(router("a", Decides.REQUESTS, all=to("b")), router("b", Decides.REQUESTS, eu="eu", us="us")) == []


@pytest.mark.parametrize(
    ("routers", "path", "value", "allowed"),
    [
        (
            [router("a", eu="eu", back=to("b")), router("b", us="us", back=to("a"))],
            "routers.0.routes.1.target.router",
            "b",
            "a router that does not lead back here: a -> b -> a",
        ),
        (
            [router("a", back=to("a"))],
            "routers.0.routes.0.target.router",
            "a",
            "a router that does not lead back here: a -> a",
        ),
        (
            [router("a", to_b=to("b")), router("b", to_c=to("c")), router("c", to_b=to("b"))],
            "routers.1.routes.0.target.router",
            "c",
            "a router that does not lead back here: b -> c -> b",
        ),
        ([router("a", x=to("x"))], "routers.0.routes.0.target.router", "x", "one of the routers defined: a"),
        ([], ".".join(map(str, ROOT)), "a", "a router; none are defined"),
        (
            [router("a", x="x")],
            "routers.0.routes.0.target.cluster",
            "x",
            "one of the clusters defined: asia, eu, us",
        ),
        (
            [router("a", eu="eu"), router("a", us="us")],
            "routers.1.name",
            "a",
            "a name of its own; routers[0].name is the same",
        ),
        (
            [two_routes(Route(RouteName("eu"), 1, US))],
            "routers.0.routes.1.name",
            "eu",
            "a name of its own; routers[0].routes[0].name is the same",
        ),
        (
            [two_routes(Route(RouteName("us"), 0, US))],
            "routers.0.routes.1.id",
            0,
            "an id of its own; routers[0].routes[0].id is the same",
        ),
        ([two_routes(Route(RouteName("us"), 32, US))], "routers.0.routes.1.id", 32, "0 to 31"),
        ([two_routes(Route(RouteName("us"), -1, US))], "routers.0.routes.1.id", -1, "0 to 31"),
        ([router("a")], "routers.0.routes", (), "at least one"),
        (
            [router("a", eu="eu"), router("b", us="us")],
            "routers.1.name",
            "b",
            "a router that a virtual cluster leads to, by its target or by the routes of others",
        ),
        (
            [router("a", one="eu", two="eu")],
            "routers.0.routes.1.target",
            "two",
            "clusters of its own; route one leads to eu too, which router a does not allow",
        ),
        (
            [router("a", one=to("b"), two="us"), router("b", eu="eu", us="us")],
            "routers.0.routes.1.target",
            "two",
            "clusters of its own; route one leads to us too, which router a does not allow",
        ),
        (
            [router("a", b=to("b")), router("b", c=to("c")), router("c", eu="eu")],
            "routers.1.routes.0.target.router",
            "c",
            "a cluster: 2 routers behind each other are as many as there can be",
        ),
        (
            [router("a", shared=ToPool())],
            "routers.0.routes.0.target.pool",
            {},
            "a cluster or a router: router a decides for each request; only one that chooses once for each connection,"
            " such as clients, can lead to a pool",
        ),
        (
            [router("a", Decides.CONNECTIONS, b=to("b")), router("b", Decides.REQUESTS, shared=ToPool())],
            "routers.1.routes.0.target.pool",
            {},
            "a cluster or a router: router b decides for each request; only one that chooses once for each connection,"
            " such as clients, can lead to a pool",
        ),
        (
            [router("a", b=to("b")), router("b", Decides.CONNECTIONS, shared=ToPool())],
            "routers.0.routes.0.target.router",
            "b",
            "a cluster, or a router that decides on names: router a decides for each request; only one that chooses"
            " once for each connection, such as clients, can lead to any router",
        ),
        (
            [router("a", Decides.REQUESTS, b=to("b")), router("b", Decides.CONNECTIONS, eu="eu")],
            "routers.0.routes.0.target.router",
            "b",
            "a cluster, or a router that decides on names or for each request: router a decides for each request; only"
            " one that chooses once for each connection, such as clients, can lead to any router",
        ),
        (
            [router("a", b=to("b")), router("b", Decides.REQUESTS, eu="eu")],
            "routers.0.routes.0.target.router",
            "b",
            "a cluster, or a router that decides on names: router a decides for each request; only one that chooses"
            " once for each connection, such as clients, can lead to any router",
        ),
    ],
)
def test_a_mistake(routers: list[GraphRouter], path: str, value: object, allowed: str) -> None:
    assert found(*routers) == [(path, value, allowed)]


def test_a_root_may_be_behind_another() -> None:
    """The same router is at the first level of one virtual cluster, and at the second of the other."""
    inner = router("b", eu="eu", us="us")
    assert found(router("a", b=to("b")), inner, roots=["a", "b"]) == []


def test_clusters_that_are_not_all_known() -> None:
    assert list(mistakes_in([router("a", x="x")], [(ROOT, RouterName("a"))], None)) == []


def test_a_router_that_leads_back_is_told_once_for_each_way() -> None:
    a, b, c = router("a", b=to("b"), c=to("c")), router("b", a=to("a")), router("c", a=to("a"))
    assert [(path, allowed[-11:]) for path, _, allowed in found(a, b, c)] == [
        ("routers.0.routes.0.target.router", "a -> b -> a"),
        ("routers.0.routes.1.target.router", "a -> c -> a"),
    ]


@st.composite
def graphs(draw: st.DrawFn) -> list[GraphRouter]:
    """Graphs whose routers are all reachable from the first, each with its own clusters; with any cycles and of any
    depth."""
    count = draw(st.integers(1, 6))
    edges = draw(st.sets(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=8))
    edges |= {(draw(st.integers(0, index - 1)), index) for index in range(1, count)}
    return [
        router(
            str(index), Decides.NAMES, True, own="eu", **{f"to{b}": to(str(b)) for a, b in sorted(edges) if a == index}
        )
        for index in range(count)
    ]


def heights(routers: list[GraphRouter]) -> dict[str, int] | None:
    """The length of the longest chain of routers from each on, including itself; None for an endless one."""
    known: dict[str, int] = {}
    for _ in routers:
        for each in routers:
            behind = [route.target.router for route in each.routes if isinstance(route.target, ToRouter)]
            if all(name in known for name in behind):
                known[each.name] = 1 + max((known[name] for name in behind), default=0)
    return known if len(known) == len(routers) else None


@given(graphs())
def test_a_graph_is_accepted_if_it_ends_after_two_routers(routers: list[GraphRouter]) -> None:
    expected, mistakes = heights(routers), found(*routers, roots=["0"])
    leads_back = [allowed for _, _, allowed in mistakes if "does not lead back" in allowed]
    assert bool(leads_back) is (expected is None)
    assert bool(mistakes) is (expected is None or expected["0"] > 2)
    for allowed in leads_back:
        names = allowed.partition(": ")[2].split(" -> ")
        assert names[0] == names[-1] and len(set(names)) == len(names) - 1
        by_name = {each.name: each for each in routers}
        for here, behind in itertools.pairwise(names):
            assert to(behind) in [route.target for route in by_name[RouterName(here)].routes]
    if not mistakes:
        graph = compile_graph(routers, RouterName("0"))
        numbers = [each.number for each in graph.leaves]
        assert len(set(numbers)) == len(numbers)
