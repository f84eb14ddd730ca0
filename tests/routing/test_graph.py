"""From routers to leaves."""

from __future__ import annotations

import pytest

from mesh.routing.graph import Decides, PoolEnd, ToPool, compile_graph
from mesh.routing.names import LeafNumber, RouterName
from mesh.routing.node_ids import NodeIds
from tests.routing.graphs import path, router, to

WHO = router("who", Decides.CONNECTIONS, True, all=to("regions"), us="us", shared=ToPool())
REGIONS = router("regions", eu="eu", us="us")
GRAPH = compile_graph([REGIONS, router("other", x="x"), WHO], RouterName("who"))


def test_leaves_stand_in_the_order_of_their_numbers() -> None:
    assert [(each.number, str(each), each.cluster) for each in GRAPH.leaves] == [
        (0, "all/eu", "eu"),
        (1, "us", "us"),
        (32, "all/us", "us"),
    ]
    assert GRAPH.pools == (PoolEnd(path("shared")),)
    assert set(GRAPH.routers) == {"who", "regions"}


def test_a_leaf_is_found_by_its_number() -> None:
    assert [GRAPH.leaf(each.number) for each in GRAPH.leaves] == list(GRAPH.leaves)
    assert GRAPH.leaf(LeafNumber(7)) is None


def test_what_a_path_leads_to() -> None:
    assert GRAPH.at(()) is WHO
    assert GRAPH.at(path("all")) is REGIONS
    assert [GRAPH.at(each.path) for each in GRAPH.leaves] == list(GRAPH.leaves)
    assert GRAPH.at(path("shared")) == PoolEnd(path("shared"))


@pytest.mark.parametrize("names", [["nobody"], ["us", "eu"], ["shared", "eu"], ["all", "eu", "us"], ["all", "asia"]])
def test_a_path_that_leads_nowhere(names: list[str]) -> None:
    with pytest.raises(KeyError, match="route"):
        GRAPH.at(path(*names))


def test_a_cluster_that_two_paths_lead_to_has_nodes_of_its_own_in_each() -> None:
    """outer{inner{A, B}, A, B} of two brokers each: 4 leaves, 8 ids, none shared."""
    inner = router("inner", a="A", b="B")
    outer = router("outer", Decides.REQUESTS, True, inner=to("inner"), a="A", b="B")
    graph = compile_graph([outer, inner], RouterName("outer"))
    ids = NodeIds(each.number for each in graph.leaves)
    shown = {ids.virtual(each.number, node): (each.number, node) for each in graph.leaves for node in (0, 1)}
    assert len(graph.leaves) == 4
    assert len(shown) == 8
    assert {each: ids.real(each) for each in shown} == shown
