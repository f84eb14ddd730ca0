"""One address for brokers that die, hang and hand their partitions over."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.clients.bench import Client
from tests.integration.feeding import log_ends
from tests.integration.jars import missing_programs
from tests.integration.kafka import CLIENT_PROPERTIES
from tests.integration.processes import eventually
from tests.integration.relay_mesh import RelayMesh
from tests.relay.cluster import NODES, SeveralBrokers
from tests.relay.flow import Flow

pytestmark = [
    pytest.mark.long,
    pytest.mark.kafka,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("one node"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
PLACES = [[*NODES[at:], *NODES[:at]] for at in range(len(NODES))]
"""One partition for each node to lead; every node has a replica."""
COUNT, RATE = 6_000, 1_000
IS_LATE = 38.0
"""Seconds after which a request without a broker's answer would be answered."""


def listens(cluster: SeveralBrokers, node: int) -> bool:
    """Waits until the cluster has a node again that was killed until its session was over."""
    at = cluster.addresses[node]
    try:
        socket.create_connection((at.host, at.port)).close()
    except OSError:
        return False
    return True


def test_a_broker_dies_and_leaders_move(cluster: SeveralBrokers, mesh: RelayMesh, tmp_path: Path) -> None:
    """No record is lost or stored twice, and the member sees all at the cluster's offsets."""
    address, client = mesh.bootstrap_servers, Client.CONFLUENT
    flow = Flow(cluster, address, client, "one-killed", tmp_path, count=COUNT, rate=RATE, places=PLACES)
    try:
        flow.until_acknowledged(0.15)
        cluster.node(101).kill()
        cluster.node(101).launch()
        flow.until_acknowledged(0.5)
        eventually("it listens again", lambda: listens(cluster, 101), timeout=60)
        cluster.node(101).wait_until_up()
        for partition, node in ((0, 101), (1, 1)):
            eventually("it has caught up", lambda: cluster.is_in_sync("one-killed", partition, node))  # noqa: B023
            cluster.move_leader("one-killed", partition, node)
        flow.is_whole()
    finally:
        flow.end()


def test_a_broker_that_hangs_holds_up_its_own_partitions_only(cluster: SeveralBrokers, mesh: RelayMesh) -> None:
    """Head-of-line blocking: records of the others still come, sooner than the cluster gives up the broker that
    hangs."""
    # Alone on its broker, so that no other broker brings it, and none takes it over.
    cluster.create_topic("one-frozen", 2, places=[[1], [101]])
    direct = Producer({**CLIENT_PROPERTIES, "bootstrap.servers": cluster.every_address})
    member = Consumer(
        {
            **CLIENT_PROPERTIES,
            "bootstrap.servers": mesh.bootstrap_servers,
            "group.id": "one-frozen",
            "enable.auto.commit": False,
        }
    )
    try:
        for partition in (0, 1):
            direct.produce("one-frozen", b"before", partition=partition)
        assert direct.flush(30) == 0
        # Without a group, whose coordinator could be the broker that hangs.
        member.assign([TopicPartition("one-frozen", partition, 0) for partition in (0, 1)])
        seen: set[tuple[int, bytes]] = set()

        def has(*wanted: tuple[int, bytes]) -> bool:
            records = [each for each in member.consume(10, 0.1) if not each.error()]
            seen.update((each.partition() or 0, each.value() or b"") for each in records)
            return seen.issuperset(wanted)

        eventually("both partitions came", lambda: has((0, b"before"), (1, b"before")), timeout=60)
        cluster.node(101).freeze()
        try:
            began = time.monotonic()
            for number in range(5):
                value = b"while it hangs %d" % number
                direct.produce("one-frozen", value, partition=0)
                assert direct.flush(30) == 0
                eventually("the other one goes on", lambda: has((0, value)), timeout=30)  # noqa: B023
            held = time.monotonic() - began
        finally:
            cluster.node(101).thaw()
        print(f"five records one after the other, beside a broker that hangs: {held:.2f} s")
        direct.produce("one-frozen", b"after", partition=1)
        assert direct.flush(60) == 0
        eventually("the one that hung goes on", lambda: has((1, b"after")), timeout=60)
    finally:
        member.close()
    assert log_ends(cluster, "one-frozen") == {0: 6, 1: 2}


def test_a_coordinator_that_hangs_is_given_up_with_its_cluster(cluster: SeveralBrokers, mesh: RelayMesh) -> None:
    """A member goes on, and commits at the next coordinator, long before its requests to the first one time out."""
    cluster.create_topic("one-coordinated", 1, places=[[1]])
    direct = Producer({**CLIENT_PROPERTIES, "bootstrap.servers": cluster.every_address})
    address = {**CLIENT_PROPERTIES, "bootstrap.servers": mesh.bootstrap_servers, "group.id": "one-coordinated"}
    member = Consumer({**address, "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    try:
        direct.produce("one-coordinated", b"before", partition=0)
        assert direct.flush(30) == 0
        member.subscribe(["one-coordinated"])
        assert [each.value() for each in member.consume(1, 60)] == [b"before"]
        eventually("it is committed", lambda: is_committed(member, 1))
        cluster.move_leader("__consumer_offsets", 0, 101)
        eventually("the new coordinator has its commit", lambda: is_committed(member, 1))
        cluster.node(101).freeze()
        try:
            began = time.monotonic()
            direct.produce("one-coordinated", b"while it hangs", partition=0)
            assert direct.flush(30) == 0
            assert [each.value() for each in member.consume(1, 30)] == [b"while it hangs"]
            received = time.monotonic() - began
            eventually("it is committed", lambda: is_committed(member, 2), timeout=IS_LATE, interval=0.2)
            print(f"received {received:.2f} s, committed {time.monotonic() - began:.2f} s after its coordinator hung")
        finally:
            cluster.node(101).thaw()
    finally:
        member.close()
    # The broker that hung takes itself for the coordinator for a moment.
    eventually("it is stored", lambda: cluster.committed("one-coordinated") == {("one-coordinated", 0): 2})


def is_committed(member: Consumer, offset: int) -> bool:
    try:
        member.commit(offsets=[TopicPartition("one-coordinated", 0, offset)], asynchronous=False)
    except KafkaException:
        return False
    return True
