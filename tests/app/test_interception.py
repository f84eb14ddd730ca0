"""Interceptors that cannot begin are reported before anything begins or changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mesh.app.interception import interceptors_of, intercepts_fetch
from mesh.config.mistakes import ConfigurationError
from tests.config.files import load_tree
from tests.config.test_router_checks import regions

MASK = {"name": "cards", "type": "mask", "topics": ["*"], "on": ["fetch"], "config": {"paths": ["card"]}}


def tried(folder: Path, interceptor: dict[str, Any], **route: Any) -> list[str]:
    """The mistakes if it is behind the second of two routers."""
    tree = regions()
    tree["interceptors"] = [MASK, interceptor]
    tree["routers"][1]["routes"][0].update(route)
    config = load_tree(folder, tree)
    (front,) = config.virtual_clusters
    try:
        interceptors_of(front, config.interceptors, config.routers)
    except ConfigurationError as refused:
        return [str(each) for each in refused.mistakes]
    return []


@pytest.mark.parametrize(("type", "key"), [("encrypt", "keys"), ("mask", "hash_key")])
def test_a_file_that_is_not_there(tmp_path: Path, type: str, key: str) -> None:
    missing = str(tmp_path / "none")
    config = {key: missing} | ({"paths": ["a"]} if type == "mask" else {})
    interceptor = {"name": "it", "type": type, "topics": ["*"], "on": ["fetch"], "config": config}
    assert tried(tmp_path, interceptor) == [], "nobody names it"
    (told,) = tried(tmp_path, interceptor, interceptors=["it"])
    assert told == f"interceptors[1].config.{key}: '{missing}': a file that can be read (No such file or directory)"


def test_an_interceptor_of_any_route_intercepts(tmp_path: Path) -> None:
    for named in ([], ["cards"]):
        tree = regions()
        tree["interceptors"] = [MASK]
        tree["routers"][1]["routes"][0]["interceptors"] = named
        config = load_tree(tmp_path, tree)
        assert intercepts_fetch(config.virtual_clusters[0], config.interceptors, config.routers) is bool(named)
