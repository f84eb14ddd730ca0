"""The configuration of a router that decides by names changes while clients are connected: they go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.app.running import RunningMesh
from tests.integration.jars import missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import eventually, free_port, free_ports

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("union"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
TOPIC = "reloaded-orders"


def route(name: str, id: int) -> dict[str, Any]:
    return {"name": name, "id": id, "target": {"cluster": name}}


def cluster(name: str, at: KafkaCluster) -> dict[str, Any]:
    return {"name": name, "bootstrap_servers": at.bootstrap_servers}


@pytest.fixture
def mesh(kafka_pair: tuple[KafkaCluster, KafkaCluster], tmp_path: Path) -> Iterator[RunningMesh]:
    """A union with one cluster; both clusters have the topic."""
    for each in kafka_pair:
        if TOPIC not in AdminClient({"bootstrap.servers": each.bootstrap_servers}).list_topics(timeout=30).topics:
            each.create_topic(TOPIC, 2)
    ports = free_ports(40)
    regions = {
        "name": "regions",
        "type": "topics",
        "config": {"topics": [{"prefix": "", "route": "eu"}], "default": "eu"},
        "routes": [route("eu", 0)],
    }
    front = {
        "name": "all",
        "listen": f"127.0.0.1:{free_port()}",
        "nodes": {"ports": f"{ports[0]}-{ports[-1]}", "ids": {"eu": ["0-9"]}},
        "target": {"router": "regions"},
    }
    of_eu = {"clusters": [cluster("eu", kafka_pair[0])], "routers": [regions], "virtual_clusters": [front]}
    running = RunningMesh(tmp_path, {}, of_eu)
    yield running
    running.process.kill()


class Writer:
    """A producer that stays connected. failed: records that were not stored. problems: reported problems of
    connections."""

    def __init__(self, address: str) -> None:
        self.failed: list[str] = []
        self.problems: list[str] = []
        self._producer = Producer(
            {"bootstrap.servers": address, "log_level": 0, "error_cb": lambda each: self.problems.append(str(each))}
        )

    def write(self, topic: str = TOPIC) -> None:
        self._producer.produce(topic, b"value", on_delivery=self._told)
        assert self._producer.flush(60) == 0

    def _told(self, error: object, _: object) -> None:
        if error is not None:
            self.failed.append(str(error))


def topics(address: str) -> set[str]:
    return set(AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(timeout=30).topics)


def test_routes_and_rules_change_under_connected_clients(
    kafka_pair: tuple[KafkaCluster, KafkaCluster], mesh: RunningMesh
) -> None:
    address = mesh.shop["listen"]
    (regions,) = mesh.configuration["routers"]
    writer = Writer(address)
    writer.write()
    connected = mesh.metric("kafka_mesh_connections", virtual_cluster="all")
    assert connected >= 1

    mesh.configuration["clusters"].append(cluster("us", kafka_pair[1]))
    regions["routes"].append(route("us", 1))
    regions["config"]["topics"].insert(0, {"prefix": "us.", "route": "us", "strip": True})
    mesh.shop["nodes"]["ids"]["us"] = ["0-9"]
    assert mesh.reload() == [
        "cluster us: added",
        "virtual cluster all: changed (nodes.ids, routers.regions)",
    ]
    eventually("the new topics are there", lambda: {TOPIC, f"us.{TOPIC}"} <= topics(address))
    writer.write()
    writer.write(f"us.{TOPIC}")
    assert writer.failed == writer.problems == [], "its connections have stayed"

    regions["config"]["topics"].insert(0, {"name": "bestellungen", "route": "us", "topic": TOPIC})
    assert mesh.reload() == ["virtual cluster all: changed (routers.regions)"]
    assert {TOPIC, "bestellungen"} <= topics(address)
    assert f"us.{TOPIC}" not in topics(address), "a topic has one name"
    writer.write("bestellungen")
    writer.write()
    assert writer.failed == writer.problems == []

    del regions["routes"][1]
    del regions["config"]["topics"][:2]
    del mesh.shop["nodes"]["ids"]["us"]
    del mesh.configuration["clusters"][1]
    assert mesh.reload() == [
        "cluster us: removed",
        "virtual cluster all: changed (nodes.ids, routers.regions)",
    ]
    assert not {"bestellungen", f"us.{TOPIC}"} & topics(address)
    writer.write()
    assert writer.failed == []
    assert {each["path"] for each in mesh.virtual_cluster()["router"]["leaves"]} == {"eu"}


def test_a_route_that_leads_elsewhere_starts_again(
    kafka_pair: tuple[KafkaCluster, KafkaCluster], mesh: RunningMesh
) -> None:
    (regions,) = mesh.configuration["routers"]
    mesh.configuration["clusters"].append(cluster("us", kafka_pair[1]))
    regions["routes"][0]["target"] = {"cluster": "us"}
    mesh.reload()
    (leaf,) = mesh.virtual_cluster()["router"]["leaves"]
    assert (leaf["path"], leaf["cluster"]) == ("eu", "us")
    Writer(mesh.shop["listen"]).write()


def test_a_router_that_cannot_begin_changes_nothing(mesh: RunningMesh) -> None:
    (regions,) = mesh.configuration["routers"]
    regions["config"]["default"] = "nowhere"
    mesh.write()
    refused = mesh.command()
    assert refused.returncode != 0
    assert "routers[0].config.default" in refused.stderr
    assert TOPIC in topics(mesh.shop["listen"])


def test_parts_are_appended_to_a_topic_of_several_clusters(
    kafka_pair: tuple[KafkaCluster, KafkaCluster], mesh: RunningMesh
) -> None:
    """While a producer is connected; the mesh refuses a change that would move partitions."""
    (regions,) = mesh.configuration["routers"]
    parts = [{"route": "eu", "topic": TOPIC, "width": 1}]
    regions["config"]["concatenated"] = [{"name": "joined", "parts": parts}]
    mesh.reload()
    address = mesh.shop["listen"]
    writer = Writer(address)
    writer.write("joined")
    assert "joined" in topics(address)
    assert TOPIC not in topics(address)

    def leaders() -> list[int]:
        told = AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics("joined", timeout=30)
        return [each.leader for _, each in sorted(told.topics["joined"].partitions.items())]

    assert leaders() == [1]
    mesh.configuration["clusters"].append(cluster("us", kafka_pair[1]))
    regions["routes"].append(route("us", 1))
    mesh.shop["nodes"]["ids"]["us"] = ["0-9"]
    parts[0]["width"] = 2
    parts.append({"route": "us", "topic": TOPIC, "width": 2})
    mesh.reload()
    eventually("the new partitions are there", lambda: leaders() == [1, 1, 1 << 20 | 1, 1 << 20 | 1])
    writer.write("joined")
    assert writer.failed == writer.problems == [], "its connections have stayed"

    parts.reverse()
    mesh.write()
    refused = mesh.command()
    assert refused.returncode != 0
    assert "routers[0].config.concatenated[0]: 'joined': unchanged, except for a wider last part" in refused.stderr
    assert leaders() == [1, 1, 1 << 20 | 1, 1 << 20 | 1]
