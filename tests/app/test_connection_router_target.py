"""`config/routers/clients.yaml` with real clients: batch jobs share records, a partner sees one cluster, all others
both."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.app.running import COMMAND, GROUP, TOPIC, Member, MockCluster, RunningMesh
from tests.app.test_reconfiguring import records
from tests.integration.processes import completed, eventually, free_ports

pytestmark = pytest.mark.timeout(600)

EXAMPLE = Path(__file__).parents[2] / "config" / "routers" / "clients.yaml"
NODES = 30


def example() -> dict[str, Any]:
    """The example's routers and its virtual cluster, at free addresses."""
    tree: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    ports = free_ports(NODES + 2)
    (door,) = tree["virtual_clusters"]
    door |= {"listen": f"127.0.0.1:{ports[0]}", "coordinator": f"127.0.0.1:{ports[1]}"}
    door["nodes"]["ports"] = f"{ports[2]}-{ports[-1]}"
    return {"routers": tree["routers"], "virtual_clusters": [door]}


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[tuple[RunningMesh, dict[str, MockCluster]]]:
    clusters = {"eu": MockCluster(), "us": MockCluster()}
    running = RunningMesh(tmp_path, clusters, example())
    yield running, clusters
    running.process.kill()


def seen(address: str, client_id: str) -> dict[int, int]:
    """The nodes that a client sees, with their ports."""
    asking = AdminClient({"bootstrap.servers": address, "client.id": client_id, "log_level": 0})
    return {each.id: each.port for each in asking.list_topics(timeout=60).brokers.values()}


def test_the_example(mesh: tuple[RunningMesh, dict[str, MockCluster]]) -> None:
    running, clusters = mesh
    door = running.shop
    first_node = int(door["nodes"]["ports"].split("-")[0])
    wanted = clusters["eu"].produce(records("eu"))
    one = Member(door["listen"], **{"client.id": "batch-1"})
    one.until(wanted)
    assert clusters["eu"].committed() == len(wanted), "upstream, to the same group"

    assert seen(door["listen"], "partner-1") == {1 << 20 | 1: first_node + 21}
    assert seen(door["listen"], "app") == {1: first_node + 1, 32 << 20 | 1: first_node + 11}
    assert set(seen(door["listen"], "batch-2")) == {1, 2}, "a pool's own two"

    status = running.virtual_cluster()
    assert [leaf["path"] for leaf in status["router"]["leaves"]] == ["all/eu", "all/us", "us"]
    assert [pool["group"] for pool in status["pools"]] == [GROUP]
    assert {each["route"]: each["connections"] > 0 for each in status["router"]["routes"]}["shared"]
    assert running.metric("kafka_mesh_members", group=GROUP) == 1
    one.close()


@pytest.mark.long
def test_it_changes_and_ends(mesh: tuple[RunningMesh, dict[str, MockCluster]]) -> None:
    running, clusters = mesh
    door = running.shop
    member = Member(door["listen"], **{"client.id": "batch-1"})
    member.until(clusters["eu"].produce(records("a")))
    running.configuration["metadata_refresh"] = "2s"
    assert running.reload() == ["changed: metadata_refresh"]
    assert member.upstream_health == [], "it goes on"

    rules = running.configuration["routers"][0]["config"]["rules"]
    rules.append({"client_ids": ["app"], "route": "us"})
    (change,) = running.reload()
    assert "restarted" in change
    member.until(clusters["eu"].produce(records("b")))
    assert list(seen(door["listen"], "app")) == [1 << 20 | 1]

    running.process.signal(signal.SIGTERM)
    eventually("the end", lambda: running.process.exit_code is not None)
    assert running.process.exit_code == 0
    assert clusters["eu"].committed() == 80
    member.close()


def test_what_each_route_serves(mesh: tuple[RunningMesh, dict[str, MockCluster]]) -> None:
    done = completed([*COMMAND, "check", "--apis", str(mesh[0].file)])
    assert (done.returncode, done.stderr) == (0, "")
    for route in ("all\n", "us\n", "shared: a pool"):
        assert f"door: the router who, route {route}" in done.stdout


def test_topics_are_looked_for_where_a_pool_is_behind_a_route(mesh: tuple[RunningMesh, dict[str, MockCluster]]) -> None:
    asking = AdminClient({"bootstrap.servers": mesh[0].shop["listen"], "client.id": "batch-1", "log_level": 0})
    assert TOPIC in asking.list_topics(timeout=60).topics


def test_two_pools_at_one_address(tmp_path: Path) -> None:
    """Each pool has its own groups. Clients, status and metrics find the right pool."""
    clusters = {"eu": MockCluster(), "us": MockCluster()}
    tree = example()
    who, _ = tree["routers"]
    pool = {"topics": [{"prefix": "", "cluster": "us"}], "groups": ["reports"], "group_less": None}
    who["routes"][2]["target"]["pool"]["groups"] = [GROUP]
    who["routes"].append({"name": "reporting", "id": 3, "target": {"pool": pool}})
    who["config"]["rules"].append({"client_ids": ["report-*"], "route": "reporting"})
    running = RunningMesh(tmp_path, clusters, tree)
    try:
        address = running.shop["listen"]
        one = Member(address, **{"client.id": "batch-1"})
        other = Member(address, "reports", **{"client.id": "report-1"})
        of_eu, of_us = clusters["eu"].produce(records("eu")), clusters["us"].produce(records("us"))
        one.until(of_eu)
        other.until(of_us)
        assert not set(one.values) & of_us
        assert not set(other.values) & of_eu
        status = running.virtual_cluster()
        assert sorted(pool["group"] for pool in status["pools"]) == sorted([GROUP, "reports"])
        assert [running.metric("kafka_mesh_members", group=group) for group in (GROUP, "reports")] == [1, 1]
        one.close()
        other.close()
    finally:
        running.process.kill()


@pytest.fixture
def behind(tmp_path: Path) -> Iterator[tuple[RunningMesh, dict[str, MockCluster]]]:
    """The router of the example, without its union, behind another one that leads all but `eu` to it."""
    clusters = {"eu": MockCluster(), "us": MockCluster()}
    tree = example()
    who, _ = tree["routers"]
    del who["config"]["default"], who["routes"][0]
    rules = [{"client_ids": ["eu"], "route": "eu"}]
    first = {
        "name": "first",
        "type": "clients",
        "config": {"rules": rules, "default": "others"},
        "routes": [
            {"name": "eu", "id": 0, "target": {"cluster": "eu"}},
            {"name": "others", "id": 1, "target": {"router": "who"}},
        ],
    }
    tree["routers"] = [first, who]
    (door,) = tree["virtual_clusters"]
    door["nodes"]["ids"] = {"eu": ["0-9"], "others/us": ["0-9"]}
    low = int(door["nodes"]["ports"].split("-")[0])
    door["nodes"]["ports"] = f"{low}-{low + 19}"
    door["target"] = {"router": "first"}
    running = RunningMesh(tmp_path, clusters, tree)
    yield running, clusters
    running.process.kill()


def test_a_router_by_connection_behind_another(behind: tuple[RunningMesh, dict[str, MockCluster]]) -> None:
    running, clusters = behind
    door = running.shop
    low = int(door["nodes"]["ports"].split("-")[0])
    assert seen(door["listen"], "eu") == {1: low + 1}
    assert seen(door["listen"], "partner-1") == {(1 | 1 << 5) << 20 | 1: low + 11}
    member = Member(door["listen"], **{"client.id": "batch-1"})
    member.until(clusters["eu"].produce(records("eu")))
    status = running.virtual_cluster()
    assert [leaf["path"] for leaf in status["router"]["leaves"]] == ["eu", "others/us"]
    counts = {each["route"]: each["connections"] for each in status["router"]["routes"]}
    assert set(counts) == {"eu", "others/us", "others/shared"}
    assert counts["others/shared"] > 0
    refused = AdminClient({"bootstrap.servers": door["listen"], "client.id": "stranger", "log_level": 0})
    with pytest.raises(KafkaException):
        refused.list_topics(timeout=3)
    assert running.metric("kafka_mesh_protocol_errors_total", reason="no_route") > 0
    done = completed([*COMMAND, "check", "--apis", str(running.file)])
    assert (done.returncode, done.stderr) == (0, "")
    for route in ("eu", "others/us", "others/shared: a pool"):
        assert f"door: the router first, route {route}" in done.stdout
    member.close()
