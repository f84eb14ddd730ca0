"""A router that answers each request behind one that chooses by connection: some clients come to it, others do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from struct import pack

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from mesh.wire.apis import ApiKey
from tests.integration.feeding import stored_upstream
from tests.integration.jars import missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import MeshProcess
from tests.integration.processes import free_port, free_ports
from tests.integration.raw import Endpoint, RawConnection
from tests.router.pass_through import install_pass_through

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.xdist_group("union"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
COUNT = 100
THROUGH, DIRECT = 32, 1
"""The leaves of us behind the router, and of eu."""


@pytest.fixture
def door(
    kafka_pair: tuple[KafkaCluster, KafkaCluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, range, MeshProcess]]:
    """Clients called `direct` see eu; all others come to a router that sends all requests to us. The ports are those of
    nodes of us behind it, and of eu."""
    install_pass_through(tmp_path, monkeypatch)
    address, ports = f"127.0.0.1:{free_port()}", free_ports(6)
    inner = [{"name": name, "id": id, "target": {"cluster": name}} for id, name in enumerate(("eu", "us"))]
    outer = [
        {"name": "through", "id": 0, "target": {"router": "r"}},
        {"name": "direct", "id": 1, "target": {"cluster": "eu"}},
    ]
    who = {"rules": [{"client_ids": ["direct"], "route": "direct"}], "default": "through"}
    configuration = {
        "clusters": [
            {"name": name, "bootstrap_servers": each.bootstrap_servers}
            for name, each in zip(("eu", "us"), kafka_pair, strict=True)
        ],
        "routers": [
            {"name": "who", "type": "clients", "config": who, "routes": outer},
            {"name": "r", "type": "pass-through", "config": {"route": "us"}, "routes": inner},
        ],
        "virtual_clusters": [
            {
                "name": "front",
                "listen": address,
                "nodes": {
                    "ports": f"{ports[0]}-{ports[-1]}",
                    "ids": {"through/us": ["0-1"], "direct": ["0-1"], "through/eu": ["0-1"]},
                },
                "target": {"router": "who"},
            }
        ],
    }
    mesh = MeshProcess(tmp_path, "behind", configuration)
    yield address, ports, mesh
    mesh.kill()


def test_each_client_is_led_its_way(
    door: tuple[str, range, MeshProcess], kafka_pair: tuple[KafkaCluster, KafkaCluster]
) -> None:
    address, ports, mesh = door
    _, us = kafka_pair
    topic = f"led-{free_port()}"
    us.create_topic(topic, 1)
    through = AdminClient({"bootstrap.servers": address, "client.id": "app"}).list_topics(timeout=30)
    assert {id >> 20 for id in through.brokers} == {THROUGH}
    assert topic in through.topics
    direct = AdminClient({"bootstrap.servers": address, "client.id": "direct"}).list_topics(timeout=30)
    assert {id >> 20 for id in direct.brokers} == {DIRECT}
    assert topic not in direct.topics

    producer = Producer({"bootstrap.servers": address, "client.id": "app", "enable.idempotence": True})
    for number in range(COUNT):
        producer.produce(topic, str(number).encode())
    assert producer.flush(30) == 0
    assert len(list(stored_upstream(us, topic))) == COUNT
    consumer = Consumer(
        {"bootstrap.servers": address, "client.id": "app", "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    got = [consumer.poll(30) for _ in range(COUNT)]
    assert [int(each.value() or b"") for each in got if each is not None] == list(range(COUNT))

    assert {leaf["path"] for leaf in mesh.status()["virtual_clusters"][0]["router"]["leaves"]} == {
        "through/eu",
        "through/us",
        "direct",
    }
    counts = {each["route"]: each["connections"] for each in mesh.status()["virtual_clusters"][0]["router"]["routes"]}
    assert counts["through"] > 0
    assert mesh.metric("kafka_mesh_route_requests_total", route="through/us", api="PRODUCE") > 0

    elsewhere = RawConnection(Endpoint("127.0.0.1", ports[2]))
    assert elsewhere.ask(pack(">hhih", ApiKey.API_VERSIONS, 0, 1, 3) + b"app") is None, "a node of another route"
    elsewhere.close()
    consumer.close()
    assert not [each for each in mesh.log_entries() if each.get("level") == "error"]
    mesh.stop()
    assert mesh.exit_code == 0
