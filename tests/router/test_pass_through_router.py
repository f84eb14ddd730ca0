"""A router that sends all requests on to one of its routes, decoded or not: clients see that cluster, with node ids of
its leaf, and nothing of the other cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicCollection
from confluent_kafka.admin import AdminClient

from tests.integration.jars import missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import MeshProcess
from tests.integration.processes import free_port, free_ports
from tests.router.pass_through import install_pass_through

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.xdist_group("union"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
COUNT = 200
STATIC = ["PRODUCE", "FETCH", "LIST_OFFSETS", "OFFSET_COMMIT", "OFFSET_FETCH", "JOIN_GROUP", "SYNC_GROUP", "HEARTBEAT"]


@pytest.fixture(params=[("eu", STATIC), ("us", []), ("us", STATIC)], ids=str)
def selected(
    request: pytest.FixtureRequest,
    kafka_pair: tuple[KafkaCluster, KafkaCluster],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[str, int, KafkaCluster]]:
    """The address, the number of the leaf, and the cluster there."""
    route, static = request.param
    install_pass_through(tmp_path, monkeypatch)
    address, ports = f"127.0.0.1:{free_port()}", free_ports(6)
    routes = [{"name": name, "id": id, "target": {"cluster": name}} for id, name in enumerate(("eu", "us"))]
    pairs = zip(("eu", "us"), kafka_pair, strict=True)
    configuration = {
        "clusters": [{"name": name, "bootstrap_servers": each.bootstrap_servers} for name, each in pairs],
        "routers": [
            {"name": "r", "type": "pass-through", "config": {"route": route, "static": static}, "routes": routes}
        ],
        "virtual_clusters": [
            {
                "name": "front",
                "listen": address,
                "nodes": {"ports": f"{ports[0]}-{ports[-1]}"},
                "target": {"router": "r"},
            }
        ],
    }
    mesh = MeshProcess(tmp_path, "pass-through", configuration)
    leaf = ("eu", "us").index(route)
    yield address, leaf, kafka_pair[leaf]
    mesh.kill()


def test_clients_see_one_of_two_clusters(
    selected: tuple[str, int, KafkaCluster], kafka_pair: tuple[KafkaCluster, KafkaCluster]
) -> None:
    address, leaf, cluster = selected
    topic, hidden = f"through-{free_port()}", f"hidden-{free_port()}"
    cluster.create_topic(topic, 3)
    kafka_pair[1 - leaf].create_topic(hidden, 1)

    admin = AdminClient({"bootstrap.servers": address})
    seen = admin.list_topics(timeout=30)
    assert topic in seen.topics
    assert hidden not in seen.topics
    assert {id >> 20 for id in seen.brokers} == {leaf}
    described = admin.describe_topics(TopicCollection([topic]), request_timeout=30)[topic].result()
    assert {node.leader.id for node in described.partitions} <= set(seen.brokers)

    failed: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": address,
            "enable.idempotence": True,
            "on_delivery": lambda error, _: failed.extend([error] if error is not None else []),
        }
    )
    for number in range(COUNT):
        producer.produce(topic, str(number).encode())
    assert producer.flush(30) == 0
    assert not failed
    consumer = Consumer({"bootstrap.servers": address, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    got: list[int] = []
    while len(got) < COUNT:
        message = consumer.poll(30)
        assert message is not None, f"{len(got)} of {COUNT}"
        assert message.error() is None
        got.append(int(message.value() or b""))
    assert sorted(got) == list(range(COUNT))
    consumer.commit(asynchronous=False)
    consumer.close()
