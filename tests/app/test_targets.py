"""The addresses of a virtual cluster, and unsupported targets."""

from __future__ import annotations

from pathlib import Path

from mesh.app.targets import addresses_of
from tests.config.files import load_tree
from tests.config.test_router_checks import regions


def test_a_router_listens_for_each_node_of_each_cluster(tmp_path: Path) -> None:
    config = load_tree(tmp_path, regions())
    addresses = addresses_of(config.virtual_clusters[0], config.routers)
    assert [each.node for each in addresses[:2]] == [None, 0]
    assert {each.node >> 20 for each in addresses if each.node is not None} == {0, 1, 32}
    assert len({each.address for each in addresses}) == len(addresses)
