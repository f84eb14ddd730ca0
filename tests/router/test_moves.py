"""A topic is moved from one cluster to the other, and back, while real clients write and read it: no record is lost,
doubled or reordered, and every record keeps its offset."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.clients.bench import Client
from tests.integration.feeding import Feed, log_ends, stored_upstream
from tests.integration.jars import missing_programs
from tests.integration.kafka import CLIENT_PROPERTIES, KafkaCluster
from tests.integration.processes import eventually
from tests.relay.flow import Flow
from tests.router.move_mesh import MoveMesh

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("union"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
Clusters = tuple[KafkaCluster, KafkaCluster]
COUNT, RATE = 3_000, 300


CLIENTS = [
    pytest.param(Client.CONFLUENT, id=Client.CONFLUENT.value),
    pytest.param(Client.JAVA, id=Client.JAVA.value, marks=pytest.mark.deep),
    pytest.param(Client.FRANZ, id=Client.FRANZ.value, marks=pytest.mark.deep),
]
"""The clients whose producers support a rate."""
OTHERS = [
    pytest.param(client, id=client.value)
    for client in Client
    if client not in (Client.CONFLUENT, Client.JAVA, Client.FRANZ, Client.KCAT)
]


@pytest.fixture(scope="module")
def mesh(kafka_pair: Clusters, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MoveMesh]:
    mesh = MoveMesh(tmp_path_factory.mktemp("moves"), *kafka_pair, "moves")
    yield mesh
    mesh.kill()


@pytest.mark.parametrize("client", CLIENTS)
def test_there_and_back_under_its_clients(kafka_pair: Clusters, mesh: MoveMesh, client: Client, tmp_path: Path) -> None:
    """Meanwhile the producer continues (with clients that know a rate)."""
    check_there_and_back(kafka_pair, mesh, tmp_path, client, f"moved-{client.value}")


@pytest.mark.deep
@pytest.mark.parametrize("client", OTHERS)
def test_it_is_read_by_every_client(kafka_pair: Clusters, mesh: MoveMesh, client: Client, tmp_path: Path) -> None:
    topic = f"read-{client.value.strip('@').replace('/', '-')}"
    check_there_and_back(kafka_pair, mesh, tmp_path, client, topic, producer=Client.CONFLUENT)


@pytest.mark.deep
@pytest.mark.parametrize("client", [Client.CONFLUENT, Client.JAVA], ids=lambda client: client.value)
def test_under_members_of_the_consumer_protocol(
    kafka_pair: Clusters, mesh: MoveMesh, client: Client, tmp_path: Path
) -> None:
    """They are members at the cluster that has the topic (KIP-848)."""
    check_there_and_back(kafka_pair, mesh, tmp_path, client, f"consumers-{client.value}", protocol="consumer")


@pytest.fixture(scope="module")
def one_node(kafka_pair: Clusters, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MoveMesh]:
    mesh = MoveMesh(tmp_path_factory.mktemp("moves"), *kafka_pair, "one-node", listener={"nodes": "one"})
    yield mesh
    mesh.kill()


@pytest.mark.parametrize(
    "client",
    [
        pytest.param(Client.CONFLUENT, id=Client.CONFLUENT.value, marks=pytest.mark.long),
        pytest.param(Client.JAVA, id=Client.JAVA.value, marks=pytest.mark.deep),
        pytest.param(Client.FRANZ, id=Client.FRANZ.value, marks=pytest.mark.deep),
    ],
)
def test_all_brokers_of_both_clusters_at_one_address(
    kafka_pair: Clusters, one_node: MoveMesh, client: Client, tmp_path: Path
) -> None:
    """Its clients see one leader all the time."""
    check_there_and_back(kafka_pair, one_node, tmp_path, client, f"one-node-{client.value}")


def check_there_and_back(
    kafka_pair: Clusters, mesh: MoveMesh, folder: Path, client: Client, topic: str, **more: Any
) -> None:
    """Moves the topic there while a third is written, and back. Then the first cluster has all records and the group's
    offsets. If the group has members, only the mesh may know the last commit before the cut."""
    eu, us = kafka_pair
    flow = Flow(eu, mesh.bootstrap_servers, client, topic, folder, count=COUNT, rate=RATE, **more)
    group = f"{topic}-group"
    try:
        flow.until_acknowledged(0.1)
        mesh.begin(topic, to="us")
        mesh.until_at(topic, "us")
        flow.acknowledged_more()
        flow.until_acknowledged(0.5)
        mesh.begin(topic, back="true")
        mesh.until_at(topic, "eu")
        flow.acknowledged_more()
        flow.is_whole()
        is_classic = more.get("protocol", "classic") == "classic"
        assert len(flow.member.deliveries) == COUNT or not is_classic, "nothing comes twice"
        ends = {(topic, partition): end for partition, end in log_ends(eu, topic).items()}
        eventually("all is committed", lambda: committed(mesh, group, topic) == ends)
        assert mesh.moves()[topic]["carried"] or eu.committed(group, topic) == ends
        assert us.committed(group, topic), "it was committed where the topic was"
    finally:
        flow.end()


def committed(mesh: MoveMesh, group: str, topic: str) -> dict[tuple[str, int], int]:
    """The committed offsets that clients of the mesh see."""
    asking = {**CLIENT_PROPERTIES, "bootstrap.servers": mesh.bootstrap_servers, "group.id": group}
    consumer = Consumer({**asking, "enable.auto.commit": False})
    try:
        found = consumer.committed([TopicPartition(topic, each) for each in range(3)], timeout=20)
    finally:
        consumer.close()
    return {(topic, each.partition): each.offset for each in found}


def test_a_log_that_begins_late(kafka_pair: Clusters, mesh: MoveMesh) -> None:
    """Offsets that retention has deleted have no records at the other cluster, either, and the records behind them keep
    their offsets."""
    eu, us = kafka_pair
    topic = "begins-late"
    eu.create_topic(topic, 2)
    feed = Feed(eu, topic, has_gaps=False)
    feed.produce(500)
    first = {TopicPartition(topic, 0): 100, TopicPartition(topic, 1): 7}
    asked = [TopicPartition(each.topic, each.partition, offset) for each, offset in first.items()]
    admin = eu.admin()  # must outlive its futures, or they never end
    for future in admin.delete_records(asked).values():
        future.result(30)
    kept = stored_by_offset(eu, topic)
    said = mesh.move("start", "--topic", topic, "--to", "us", "--dry-run")
    assert "107 offsets in front of the first records are filled, and deleted" in said
    assert "moving begins-late from eu to us: 2 partitions" in mesh.move("start", "--topic", topic, "--to", "us")
    mesh.until_at(topic, "us")
    assert f"{topic} of all is at us: moved" in mesh.move("list")
    assert stored_by_offset(us, topic) == kept
    assert min(offset for partition, offset in kept if partition == 0) == 100


def stored_by_offset(cluster: KafkaCluster, topic: str) -> dict[tuple[int, int], str]:
    return {(each.partition, each.offset): each.record.id for each in stored_upstream(cluster, topic)}


@pytest.mark.deep
def test_what_is_refused(kafka_pair: Clusters, mesh: MoveMesh) -> None:
    eu, us = kafka_pair
    eu.create_topic("compacted", 1, {"cleanup.policy": "compact"})
    for cluster in (eu, us):
        cluster.create_topic("at-both", 1)
    for topic, reason in (("compacted", "compacted"), ("at-both", "target_exists"), ("nowhere", "unknown_topic")):
        refused = mesh.tried("start", "--topic", topic, "--to", "us")
        assert refused.returncode == 1
        assert f"topic: {reason}: " in refused.stderr


@pytest.mark.parametrize(
    ("client", "kills"),
    [
        pytest.param(Client.CONFLUENT, (0.0, 0.2, 0.4), id="confluent-kafka", marks=pytest.mark.long),
        pytest.param(Client.JAVA, (0.0, 0.1, 0.2, 0.3, 0.4, 0.6), id="kafka-clients", marks=pytest.mark.deep),
    ],
)
def test_the_mesh_is_killed_at_every_step(
    kafka_pair: Clusters, mesh: MoveMesh, client: Client, kills: Sequence[float], tmp_path: Path
) -> None:
    """With kill -9, so many seconds after the beginning: before the copy, during it, and around the cut. The move goes
    on by itself."""
    eu, us = kafka_pair
    topic = f"killed-while-it-moves-{client.value}"
    flow = Flow(eu, mesh.bootstrap_servers, client, topic, tmp_path, count=2 * COUNT, rate=RATE)
    places = {"us": us, "eu": eu}
    at = "eu"
    try:
        flow.until_acknowledged(0.02)
        for seconds in kills:
            at = "us" if at == "eu" else "eu"
            mesh.begin(topic, **({"back": "true"} if topic in mesh.moves() else {"to": at}))
            time.sleep(seconds)  # a random moment in it
            mesh.kill()
            mesh.restart()
            mesh.until_at(topic, at)
            flow.acknowledged_more()
        flow.is_whole(places[at])
    finally:
        flow.end()


@pytest.mark.long
@pytest.mark.deep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("client", [Client.CONFLUENT, Client.JAVA], ids=lambda client: client.value)
def test_clusters_are_killed_at_every_step(
    kafka_pair: Clusters, mesh: MoveMesh, client: Client, tmp_path: Path
) -> None:
    """Either of them dies with kill -9, so many seconds after the beginning. The move goes on when the cluster is
    back."""
    eu, us = kafka_pair
    topic = f"clusters-killed-{client.value}"
    flow = Flow(eu, mesh.bootstrap_servers, client, topic, tmp_path, count=4 * COUNT, rate=RATE // 2)
    at = "eu"
    try:
        flow.until_acknowledged(0.02)
        for killed, seconds in ((us, 0.05), (us, 0.2), (eu, 0.05), (eu, 0.2), (us, 0.4), (eu, 0.4)):
            at = "us" if at == "eu" else "eu"
            mesh.begin(topic, **({"back": "true"} if topic in mesh.moves() else {"to": at}))
            time.sleep(seconds)  # a random moment in it
            killed.kill()
            killed.restart()
            mesh.until_at(topic, at)
            flow.acknowledged_more()
        flow.is_whole({"us": us, "eu": eu}[at])
    finally:
        flow.end()
