"""Reloads that change nothing but a cluster, for every kind of target that leads to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from tests.app.running import RunningMesh
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import free_port, free_ports
from tests.router.pass_through import install_pass_through
from tests.router.test_reload import Writer

pytestmark = pytest.mark.timeout(600)

TOPIC = "reconnected-orders"
RULES = {"authorization": {"super_users": ["User:ANONYMOUS"], "rules": []}}
POOL, POOL_OF_SOME = (
    {"pool": {"topics": [{"prefix": "", "cluster": "eu"}], "groups": ["*"], "upstream_group_prefix": prefix}}
    for prefix in ("all.", "some.")
)
TO_EU = {"name": "eu", "id": 0, "target": {"cluster": "eu"}}
ROUTERS: list[dict[str, Any]] = [
    {
        "name": "regions",
        "type": "topics",
        "config": {"topics": [{"prefix": "", "route": "eu"}], "default": "eu"},
        "routes": [TO_EU],
    },
    {
        "name": "who",
        "type": "clients",
        "config": {"rules": [{"client_ids": ["batch-*"], "route": "shared"}], "default": "eu"},
        "routes": [TO_EU, {"name": "shared", "id": 1, "target": POOL_OF_SOME}],
    },
    {"name": "each", "type": "pass-through", "config": {"route": "eu"}, "routes": [TO_EU]},
]
TARGETS: dict[str, dict[str, Any]] = {
    "pool": {"coordinator": None, "target": POOL},
    "relay": {"target": {"relay": {"cluster": "eu"}}},
    "relay under rules": {"target": {"relay": {"cluster": "eu"}}, **RULES},
    "relay of one node": {"nodes": "one", "target": {"relay": {"cluster": "eu"}}},
    "union": {"target": {"router": "regions"}},
    "union under rules": {"target": {"router": "regions"}, **RULES},
    "union of one node": {"nodes": "one", "target": {"router": "regions"}},
    "clients": {"coordinator": None, "target": {"router": "who"}},
    "requests": {"target": {"router": "each"}},
}


def address() -> str:
    return f"127.0.0.1:{free_port()}"


@pytest.fixture
def mesh(kafka: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningMesh]:
    """A virtual cluster of each kind of target, all in front of one cluster."""
    install_pass_through(tmp_path, monkeypatch)
    if TOPIC not in AdminClient({"bootstrap.servers": kafka.bootstrap_servers}).list_topics(timeout=30).topics:
        kafka.create_topic(TOPIC, 1)
    virtual_clusters = []
    for name, keys in TARGETS.items():
        made = {"name": name.replace(" ", "-"), "listen": address(), "nodes": {"ports": free_ports(1)[0]}, **keys}
        if "coordinator" in keys:
            made["coordinator"] = address()
        if name == "pool":
            del made["nodes"]
        elif isinstance(made["nodes"], dict) and "router" in keys["target"]:
            made["nodes"]["ids"] = {"eu": [1]}
        elif isinstance(made["nodes"], dict):
            made["nodes"]["ids"] = [1]
        virtual_clusters.append(made)
    cluster = {"name": "eu", "bootstrap_servers": kafka.bootstrap_servers}
    configuration = {"clusters": [cluster], "routers": ROUTERS, "virtual_clusters": virtual_clusters}
    running = RunningMesh(tmp_path, {}, {"drain_grace": "1s", **configuration})
    yield running
    running.process.kill()


def assert_all_serve(mesh: RunningMesh) -> None:
    for configured in mesh.configuration["virtual_clusters"]:
        client = {"bootstrap.servers": configured["listen"], "log_level": 0}
        assert TOPIC in AdminClient(client).list_topics(timeout=60).topics, configured["name"]
        if "coordinator" not in configured:
            writer = Writer(configured["listen"])
            writer.write(TOPIC)
            assert not writer.failed, configured["name"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"properties": {"client.id": "mesh"}}, marks=pytest.mark.smoke),
        pytest.param({"bootstrap_servers": "localhost"}, marks=pytest.mark.long),
        pytest.param({"engine": "librdkafka"}, marks=pytest.mark.long),
        pytest.param({"producer_id_tag": 7}, marks=pytest.mark.long),
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_target_goes_on_with_a_cluster_that_changed(mesh: RunningMesh, change: dict[str, Any]) -> None:
    ((key, value),) = change.items()
    (cluster,) = mesh.configuration["clusters"]
    before = dict(cluster)
    cluster[key] = before[key].replace("127.0.0.1", value) if key in before else value
    assert mesh.reload() == [f"cluster eu: connected to anew ({key})"]
    assert_all_serve(mesh)
    mesh.configuration["clusters"] = [before]
    assert mesh.reload() == [f"cluster eu: connected to anew ({key})"]
    assert_all_serve(mesh)
