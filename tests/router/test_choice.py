"""Two clusters, their union and a pool behind one address of a mesh: the client's identity decides which of them it
sees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from tests.clients.bench import Client
from tests.clients.producing import Feed
from tests.clients.script import Script
from tests.clients.selection import OFTEN, clients
from tests.integration.feeding import log_ends, stored_upstream
from tests.integration.jars import missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import MeshProcess
from tests.integration.processes import eventually, free_port, free_ports
from tests.integration.records import account
from tests.relay.matrix import committed, number_of, produced, started
from tests.router.union_mesh import NODES, STRIPPED

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.xdist_group("choice"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]

COUNT, PARTITIONS = 500, 2
LEAVES = ("all/eu", "all/us", "us")


@pytest.fixture(scope="module")
def door(kafka_pair: tuple[KafkaCluster, KafkaCluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    address, ports = f"127.0.0.1:{free_port()}", free_ports(len(LEAVES) * NODES)
    rules = [{"client_ids": ["batch-*"], "route": "shared"}, {"client_ids": ["partner-*"], "route": "us"}]
    pool = {"topics": [{"prefix": "", "cluster": "eu"}], "groups": ["*"], "start": "earliest"}
    targets: list[dict[str, Any]] = [{"router": "regions"}, {"cluster": "us"}, {"pool": pool}]
    routes = [
        {"name": name, "id": id, "target": target}
        for id, (name, target) in enumerate(zip(("all", "us", "shared"), targets, strict=True))
    ]
    regions = [{"name": each, "id": id, "target": {"cluster": each}} for id, each in enumerate(("eu", "us"))]
    nodes = {"ports": f"{ports[0]}-{ports[-1]}", "ids": {leaf: [f"0-{NODES - 1}"] for leaf in LEAVES}}
    virtual_cluster = {
        "name": "door",
        "listen": address,
        "coordinator": f"127.0.0.1:{free_port()}",
        "nodes": nodes,
        "target": {"router": "who"},
    }
    configuration = {
        "clusters": [
            {"name": name, "bootstrap_servers": each.bootstrap_servers}
            for name, each in zip(("eu", "us"), kafka_pair, strict=True)
        ],
        "routers": [
            {"name": "who", "type": "clients", "config": {"rules": rules, "default": "all"}, "routes": routes},
            {"name": "regions", "type": "topics", "config": STRIPPED, "routes": regions},
        ],
        "virtual_clusters": [virtual_cluster],
    }
    mesh = MeshProcess(tmp_path_factory.mktemp("choice"), "choice", configuration)
    yield address
    mesh.kill()


@pytest.fixture
def topic(kafka_pair: tuple[KafkaCluster, KafkaCluster], request: pytest.FixtureRequest) -> str:
    """A topic of both clusters."""
    name = "".join(each if each.isalnum() else "-" for each in request.node.name).strip("-")
    for cluster in kafka_pair:
        cluster.create_topic(name, PARTITIONS)
    return name


def topics(address: str, client_id: str) -> set[str]:
    asking = AdminClient({"bootstrap.servers": address, "client.id": client_id, "log_level": 0})
    return {each for each in asking.list_topics(timeout=60).topics if not each.startswith("__")}


@pytest.mark.smoke
def test_what_each_sees(kafka_pair: tuple[KafkaCluster, KafkaCluster], door: str, topic: str) -> None:
    kafka_pair[1].create_topic(f"{topic}-us", PARTITIONS)
    assert {topic, f"us.{topic}", f"us.{topic}-us"} <= topics(door, "app")
    seen = topics(door, "partner-1")
    assert {topic, f"{topic}-us"} <= seen
    assert f"us.{topic}" not in seen
    eventually("the pool has heard of it", lambda: topic in topics(door, "batch-1"))
    assert f"{topic}-us" not in topics(door, "batch-1")


@pytest.mark.parametrize("client", clients(quick=True, often=OFTEN))
def test_batch_jobs_share(
    kafka_pair: tuple[KafkaCluster, KafkaCluster], door: str, topic: str, client: Client, tmp_path: Path
) -> None:
    """There are more members than partitions, and each gets some records."""
    eu = kafka_pair[0]
    script = Script(bootstrap_servers=door, client_id="batch", group=f"shares-{topic}", topic=topic)
    eventually("the pool has heard of it", lambda: topic in topics(door, "batch-1"))
    members = []
    for number in range(PARTITIONS + 1):
        folder = tmp_path / str(number)  # otherwise they would report into one file
        folder.mkdir()
        members.append(started(client, replace(script, client_id=f"batch-{number}"), folder))
    try:
        feed = Feed(bootstrap_servers=door, client_id="app", topic=topic, count=COUNT)
        assert sorted(produced(Client.CONFLUENT, feed, tmp_path)) == list(range(COUNT))
        stored = {each.record.id: each for each in stored_upstream(eu, topic)}
        eventually("all is delivered", lambda: sum(len(each.deliveries) for each in members) >= COUNT)
        eventually("all is committed", lambda: committed(eu, script) == log_ends(eu, topic))
        account(stored, [each for member in members for each in member.deliveries]).assert_each_once()
    finally:
        for member in members:
            member.kill()


@pytest.mark.parametrize("client", clients(quick=True, often=OFTEN))
def test_a_partner_has_one_cluster(
    kafka_pair: tuple[KafkaCluster, KafkaCluster], door: str, topic: str, client: Client, tmp_path: Path
) -> None:
    """With its own names and true offsets; names that only the union has do not exist there."""
    us = kafka_pair[1]
    feed = Feed(bootstrap_servers=door, client_id="partner-p", topic=topic, count=COUNT)
    produced(Client.CONFLUENT, feed, tmp_path)
    stored = list(stored_upstream(us, topic))
    assert sorted(map(number_of, stored)) == list(range(COUNT))
    script = Script(bootstrap_servers=door, client_id="partner-1", group=f"partner-{topic}", topic=topic)
    member = started(client, script, tmp_path)
    try:
        member.until_delivered(COUNT)
        eventually("all is committed", lambda: committed(us, script) == log_ends(us, topic))
        account({each.record.id: each for each in stored}, member.deliveries).assert_each_once()
    finally:
        member.kill()
