"""What is wrong with topology descriptions, in the words of the user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.config.files import load_tree
from tests.config.test_interceptor_checks import mistakes

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
        f"{PATH}: (a mapping): with store, {{cluster: NAME, topic: NAME}}: what is known of descriptions is kept there"
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


def test_only_relays_without_rules_serve_them(tmp_path: Path) -> None:
    pool = {"pool": {"topics": [{"name": "t", "from": [{"cluster": "eu", "topic": "t"}]}], "groups": ["*"]}}
    assert any("pools have no streams groups" in each for each in mistakes(tmp_path, tree(target=pool, nodes=None)))
    (mistake,) = mistakes(tmp_path, tree(authorization={"super_users": ["User:operator"]}))
    assert mistake.startswith(f"{PATH}: (a mapping): left out with authorization")


def test_an_api_that_they_need_may_not_be_refused(tmp_path: Path) -> None:
    target = {"relay": {"cluster": "eu", "refuse": ["DELETE_GROUPS", "STREAMS_GROUP_DESCRIBE"]}}
    assert mistakes(tmp_path, tree(target=target)) == [
        "virtual_clusters[0].target.relay.refuse[1]: 'STREAMS_GROUP_DESCRIBE': "
        "an API that topology_descriptions does not need"
    ]
