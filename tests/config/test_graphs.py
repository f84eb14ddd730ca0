"""From the routers of a configuration to a graph and its ports."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesh.config.graphs import graph_of, ports_of_nodes
from mesh.config.relay import NodesConfig
from mesh.routing.graph import Decides, GraphRouter, PoolEnd
from mesh.routing.names import RouterName
from tests.config.files import load_tree
from tests.config.test_router_checks import changed, pool, regions
from tests.routing.graphs import path

EU, US, ALL_US = 0, 1 << 20, 32 << 20


def test_a_graph(tmp_path: Path) -> None:
    config = load_tree(tmp_path, changed("routers.0.routes.2", {"name": "shared", "id": 2, "target": pool()}))
    graph = graph_of(config, RouterName("who"))
    assert [(each.number, str(each), each.cluster) for each in graph.leaves] == [
        (0, "all/eu", "eu"),
        (1, "us", "us"),
        (32, "all/us", "us"),
    ]
    assert graph.pools == (PoolEnd(path("shared")),)
    regions = graph.at(path("all"))
    assert isinstance(regions, GraphRouter)
    assert regions.decides is Decides.NAMES


@pytest.mark.parametrize(
    ("nodes", "ports"),
    [
        ({"ports": "9100-9107"}, {EU: 9100, EU + 1: 9101, US: 9102, US + 1: 9103, ALL_US: 9104, ALL_US + 1: 9105}),
        (
            {"ports": "9100-9199", "ids": {"all/us": [0], "us": [], "all/eu": ["3-4", 7]}},
            {ALL_US: 9100, EU + 3: 9101, EU + 4: 9102, EU + 7: 9103},
        ),
        ({"hosts": "b{node}.example.com"}, {}),
    ],
)
def test_ports(tmp_path: Path, nodes: dict[str, object], ports: dict[int, int]) -> None:
    graph = graph_of(load_tree(tmp_path, regions()), RouterName("who"))
    assert ports_of_nodes(NodesConfig.model_validate(nodes), graph) == ports
