"""All nodes behind a router as one: the allowed routers and keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesh.app.targets import addresses_of
from tests.config.files import Tree, load_tree, mistakes
from tests.config.test_router_checks import regions


def as_one(router: str, **keys: object) -> Tree:
    tree = regions()
    tree["virtual_clusters"][0] |= {"nodes": "one", "target": {"router": router}, **keys}
    if router != "who":
        del tree["routers"][0]  # nothing leads to it
    if "interceptors" in keys:
        tree["interceptors"] = [{"name": "small", "type": "size", "topics": ["*"], "config": {"maximum": "1KiB"}}]
    return tree


def test_a_union_has_one_address(tmp_path: Path) -> None:
    config = load_tree(tmp_path, as_one("regions"))
    found = [(each.node, str(each.address)) for each in addresses_of(config.virtual_clusters[0], config.routers)]
    assert found == [(1, "127.0.0.1:19092")]


@pytest.mark.parametrize(
    ("router", "keys", "expected"),
    [
        ("who", {}, "nodes: 'one': {ports: FIRST-LAST} or {hosts: NAME}: with nodes: one, all routers"),
        ("regions", {"authorization": {}}, "authorization: (a mapping): left out with nodes: one of a router"),
        ("regions", {"interceptors": ["small"]}, "interceptors: (a list): left out, also of routes: behind a router"),
    ],
)
def test_what_does_not_go_with_it(tmp_path: Path, router: str, keys: dict[str, object], expected: str) -> None:
    found = mistakes(tmp_path, as_one(router, **keys))
    assert any(each.startswith(f"virtual_clusters[0].{expected}") for each in found), found
