"""Mistakes with topology descriptions, in the words of the user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.config.files import load_tree
from tests.config.test_interceptor_checks import mistakes
from tests.config.test_router_checks import regions
from tests.config.test_router_types import installed

__all__ = ["installed"]

PATH = "virtual_clusters[0].topology_descriptions"


def tree(described: dict[str, Any] | None = None, **front: Any) -> dict[str, Any]:
    return {
        "store": {"cluster": "eu", "topic": "kafka-mesh.store"},
        "clusters": [{"name": "eu", "bootstrap_servers": "127.0.0.1:9092"}],
        "virtual_clusters": [
            {
                "name": "front",
                "listen": "127.0.0.1:19092",
                "nodes": {"ports": "19100-19119"},
                "topology_descriptions": {} if described is None else described,
                "target": {"relay": {"cluster": "eu"}},
                **front,
            }
        ],
    }


def test_a_relay_may_serve_them(tmp_path: Path) -> None:
    config = load_tree(tmp_path, tree())
    configured = config.virtual_clusters[0].topology_descriptions
    assert configured is not None
    assert (configured.plugin, configured.options) == ("store", {})


def test_they_need_the_store(tmp_path: Path) -> None:
    without = tree()
    del without["store"]
    assert mistakes(tmp_path, without) == [
        f"{PATH}: (a mapping): with store, {{cluster: NAME, topic: NAME}}: the mesh keeps descriptions there"
    ]


@pytest.mark.parametrize(
    ("described", "said"),
    [
        (
            {"plugin": "git"},
            ".plugin: 'git': http, memory, store, or an entry point of kafka_mesh.topology_plugins: none are installed",
        ),
        ({"plugin": "http"}, ".options.url: (missing): required"),
        ({"plugin": "memory", "options": {"size": 3}}, ".options.size: "),
        ({"plugin": "http", "options": {"url": "host"}}, ".options.url: 'host': "),
    ],
)
def test_a_plugin_and_its_options_are_named(tmp_path: Path, described: dict[str, Any], said: str) -> None:
    (mistake,) = mistakes(tmp_path, tree(described))
    assert mistake.startswith(PATH + said)


def behind_a_router(name: str = "who", **front: Any) -> dict[str, Any]:
    """Behind `who`, which chooses by client, or behind the union `regions`."""
    made = {**regions(), "store": {"cluster": "eu", "topic": "kafka-mesh.store"}}
    (before,) = made["virtual_clusters"]
    routers = [each for each in made["routers"] if name in ("who", each["name"])]
    after = {**before, "target": {"router": name}, "topology_descriptions": {}, **front}
    return {**made, "routers": routers, "virtual_clusters": [after]}


@pytest.mark.parametrize("router", ["who", "regions"])
def test_routers_and_rules_may_stand_in_front_of_them(tmp_path: Path, router: str) -> None:
    rules = {"super_users": ["User:operator"]}
    assert mistakes(tmp_path, tree(authorization=rules)) == []
    assert mistakes(tmp_path, behind_a_router(router, authorization=rules)) == []


def test_where_they_are_not_served(tmp_path: Path) -> None:
    pool = {"pool": {"topics": [{"name": "t", "from": [{"cluster": "eu", "topic": "t"}]}], "groups": ["*"]}}
    assert any("pools have no streams groups" in each for each in mistakes(tmp_path, tree(target=pool, nodes=None)))
    for one in (tree(nodes="one"), behind_a_router("regions", nodes="one")):
        (mistake,) = mistakes(tmp_path, one)
        assert mistake.startswith(f"{PATH}: (a mapping): left out with nodes: one")


@pytest.mark.usefixtures("installed")
def test_a_router_that_answers_each_request_does_not_serve_them(tmp_path: Path) -> None:
    tree = behind_a_router("asking")
    routes = [{"name": "eu", "id": 0, "target": {"cluster": "eu"}}]
    tree["routers"] = [{"name": "asking", "type": "asked", "config": {"tenants": {}}, "routes": routes}]
    (mistake,) = mistakes(tmp_path, tree)
    assert mistake.startswith(f"{PATH}: (a mapping): left out: a router that answers each request")


def test_an_api_that_they_need_may_not_be_refused(tmp_path: Path) -> None:
    target = {"relay": {"cluster": "eu", "refuse": ["DELETE_GROUPS", "STREAMS_GROUP_DESCRIBE"]}}
    assert mistakes(tmp_path, tree(target=target)) == [
        "virtual_clusters[0].target.relay.refuse[1]: 'STREAMS_GROUP_DESCRIBE': "
        "an API that topology_descriptions does not need"
    ]
