"""Further nodes of a pool: their addresses, and mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesh.app.targets import addresses_of
from mesh.config.values import Address
from tests.config.files import Tree, load_tree, mistakes, small


def with_nodes(nodes: object, **keys: object) -> Tree:
    tree = small()
    tree["virtual_clusters"][0]["nodes"] = nodes
    return tree | keys


def test_each_has_a_port_and_an_id_of_its_own(tmp_path: Path) -> None:
    (configured,) = load_tree(tmp_path, with_nodes({"ports": "19100-19102"})).virtual_clusters
    found = {each.address: each.node for each in addresses_of(configured, ())}
    assert found == {Address("127.0.0.1", port): id for id, port in enumerate([19092, 19093, *range(19100, 19103)], 1)}


def test_beside_other_processes_their_ids_are_of_this_one_alone(tmp_path: Path) -> None:
    (configured,) = load_tree(tmp_path, with_nodes({"ports": "19100-19102"})).virtual_clusters
    ids = [each.node for each in addresses_of(configured.with_peers(), ()) if each.node is not None]
    assert len(set(ids)) == 5
    assert all(1 << 30 < id < 1 << 31 for id in ids[2:]), "no pair of any process has them"


@pytest.mark.parametrize(
    ("nodes", "mistake"),
    [
        ("one", "virtual_clusters[0].nodes: 'one': {ports: FIRST-LAST} for a pool"),
        ({}, "virtual_clusters[0].nodes: (a mapping): ports for a pool, and neither ids nor hosts"),
        ({"hosts": "b{node}.example.com"}, "virtual_clusters[0].nodes: (a mapping): ports for a pool"),
        ({"ports": "19100-19101", "ids": [7]}, "virtual_clusters[0].nodes: (a mapping): ports for a pool"),
        ({"ports": "19092-19095"}, "virtual_clusters[0].nodes.ports: '127.0.0.1:19092': an address of its own"),
    ],
)
def test_what_they_may_not_be(tmp_path: Path, nodes: object, mistake: str) -> None:
    found = mistakes(tmp_path, with_nodes(nodes))
    assert found and found[0].startswith(mistake), found


def test_workers_have_none(tmp_path: Path) -> None:
    (found,) = mistakes(tmp_path, with_nodes({"ports": "19200-19202"}, workers=2))
    assert found.startswith("workers: 2: 1 where a pool has further nodes (virtual_clusters[0].nodes)")
