"""Mistakes with `moves`, in the words of the user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.config.files import load_tree
from tests.config.test_interceptor_checks import mistakes

PATH = "virtual_clusters[0].moves"


def tree(front: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    routes = [{"name": each, "id": id, "target": {"cluster": each}} for id, each in enumerate(("eu", "us"))]
    config = {"topics": [{"prefix": "", "route": "eu"}], "default": "eu"}
    return {
        "store": {"cluster": "eu", "topic": "kafka-mesh.store"},
        "clusters": [{"name": each, "bootstrap_servers": "127.0.0.1:9092"} for each in ("eu", "us")],
        "routers": [{"name": "regions", "type": "topics", "config": config, "routes": routes}],
        "virtual_clusters": [
            {
                "name": "front",
                "listen": "127.0.0.1:19092",
                "nodes": {"ports": "19100-19119", "ids": {"eu": ["0-9"], "us": ["0-9"]}},
                "moves": {},
                "target": {"router": "regions"},
                **(front or {}),
            }
        ],
        **more,
    }


def test_a_router_may_have_moves(tmp_path: Path) -> None:
    config = load_tree(tmp_path, tree({"moves": {"hold": "3s"}}))
    configured = config.virtual_clusters[0].moves
    assert configured is not None
    assert configured.hold == 3.0


@pytest.mark.parametrize("front", [{"authorization": {"rules": []}}, {"nodes": "one"}])
def test_what_goes_with_them(tmp_path: Path, front: dict[str, Any]) -> None:
    config = load_tree(tmp_path, tree(front))
    assert config.virtual_clusters[0].moves is not None


def test_they_need_the_store(tmp_path: Path) -> None:
    without = tree()
    del without["store"]
    (mistake,) = mistakes(tmp_path, without)
    assert mistake.startswith(f"{PATH}: (a mapping): with store")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"front": {"target": {"relay": {"cluster": "eu"}}, "nodes": {"ports": "19100-19119"}}}, "only a router has"),
        ({"workers": 2}, "left out with workers"),
    ],
)
def test_what_does_not_go_with_them(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    assert any(each.startswith(PATH) and said in each for each in mistakes(tmp_path, tree(**changed)))


def test_a_router_that_chooses_by_connection_has_none(tmp_path: Path) -> None:
    routers = tree()["routers"]
    who = {
        "name": "who",
        "type": "clients",
        "config": {"default": "all"},
        "routes": [{"name": "all", "id": 0, "target": {"router": "regions"}}],
    }
    wanted = tree({"target": {"router": "who"}, "nodes": None}, routers=[*routers, who])
    assert any("decides by names" in each for each in mistakes(tmp_path, wanted))
