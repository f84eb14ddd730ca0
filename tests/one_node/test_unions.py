"""Two clusters at one address: a union with one node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.integration.feeding import log_ends
from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.kafka import CLIENT_PROPERTIES, SHORT_SESSIONS, KafkaCluster
from tests.integration.mesh_process import MeshProcess
from tests.integration.processes import eventually, free_port
from tests.relay.cluster import NODES, SeveralBrokers

pytestmark = [
    pytest.mark.long,
    pytest.mark.deep,
    pytest.mark.kafka,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("one node"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
COUNT = 300
EU, US = "one-union-eu", "us.one-union"


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    other = KafkaCluster("us", kafka_jars(), tmp_path_factory.mktemp("us"), SHORT_SESSIONS)
    yield other
    other.kill()


@pytest.fixture(scope="module")
def front(
    cluster: SeveralBrokers, other: KafkaCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[MeshProcess, str]]:
    """The mesh, and its address."""
    address = f"127.0.0.1:{free_port()}"
    routes = [{"name": name, "id": id, "target": {"cluster": name}} for id, name in enumerate(("eu", "us"))]
    rules = [{"prefix": "us.", "route": "us"}, {"prefix": "", "route": "eu"}]
    config = {"topics": rules, "default": "eu"}
    configuration = {
        "clusters": [
            {"name": "eu", "bootstrap_servers": cluster.every_address},
            {"name": "us", "bootstrap_servers": other.bootstrap_servers},
        ],
        "routers": [{"name": "both", "type": "topics", "config": config, "routes": routes}],
        "virtual_clusters": [{"name": "front", "listen": address, "nodes": "one", "target": {"router": "both"}}],
    }
    mesh = MeshProcess(tmp_path_factory.mktemp("union"), "union", configuration)
    yield mesh, address
    mesh.kill()


def test_a_group_over_two_clusters(
    cluster: SeveralBrokers, other: KafkaCluster, front: tuple[MeshProcess, str]
) -> None:
    """Records that are produced through one address are stored in both clusters, and a member reads and commits
    both."""
    _, listen = front
    cluster.create_topic(EU, len(NODES), places=[[node] for node in NODES])
    other.create_topic(US, 2)
    address = {**CLIENT_PROPERTIES, "bootstrap.servers": listen}
    admin = AdminClient(address)
    eventually("both are known", lambda: {EU, US} <= set(admin.list_topics(timeout=10).topics))
    assert [f"{each.host}:{each.port}" for each in admin.list_topics(timeout=10).brokers.values()] == [listen]
    told: list[object] = []
    producer = Producer({**address, "enable.idempotence": True})
    for number in range(COUNT):
        for topic, partitions in ((EU, len(NODES)), (US, 2)):
            producer.produce(
                topic, b"%d" % number, partition=number % partitions, on_delivery=lambda error, _: told.append(error)
            )
        producer.poll(0)
    assert producer.flush(60) == 0
    assert told == [None] * 2 * COUNT
    assert sum(log_ends(cluster, EU).values()) == sum(log_ends(other, US).values()) == COUNT
    member = Consumer({**address, "group.id": "both", "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    member.subscribe([EU, US])
    seen: list[tuple[str, int, int]] = []

    def has_all() -> bool:
        found = [each for each in member.consume(500, 0.2) if not each.error()]
        seen.extend((each.topic() or "", each.partition() or 0, each.offset() or 0) for each in found)
        return len(seen) >= 2 * COUNT

    try:
        eventually("all of both", has_all, timeout=60)
        member.commit(asynchronous=False)
    finally:
        member.close()
    assert len(set(seen)) == len(seen) == 2 * COUNT
    assert other.committed("both") == {(US, partition): end for partition, end in log_ends(other, US).items()}
    ends = {(EU, partition): end for partition, end in log_ends(cluster, EU).items()}
    assert ends.items() <= cluster.committed("both").items()


def test_what_was_committed_at_both_goes_on(front: tuple[MeshProcess, str]) -> None:
    _, listen = front
    member = Consumer({**CLIENT_PROPERTIES, "bootstrap.servers": listen, "group.id": "both"})
    try:
        found = member.committed([TopicPartition(EU, 0), TopicPartition(US, 1)], timeout=30)
        assert [each.offset for each in found] == [COUNT // len(NODES), COUNT // 2]
    finally:
        member.close()
