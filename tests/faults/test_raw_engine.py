"""Faults of two brokers for the raw engine alone: a replica that is nearer, and a log that was truncated."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message
from confluent_kafka.admin._metadata import PartitionMetadata
from confluent_kafka.cimpl import NewTopic

from mesh.records.spans import CommitPosition
from mesh.upstream.engine import EngineName, PositionReset, Truncated
from mesh.upstream.raw.engine import RawEngine
from tests.faults.clusters import ReplicatedCluster
from tests.integration.mesh_process import Mesh
from tests.integration.processes import eventually
from tests.upstream.harness import engine, new_name, produce, run, source

TRUNCATED = "records and acknowledgements discarded: upstream log truncated"

pytestmark = [pytest.mark.long, pytest.mark.timeout(300), pytest.mark.xdist_group("replicated")]


def partition_of(cluster: ReplicatedCluster, topic: str) -> PartitionMetadata | None:
    """The partition; None while the brokers do not know it yet."""
    return cluster.admin().list_topics(topic, timeout=30).topics[topic].partitions.get(0)


def led_by(cluster: ReplicatedCluster, topic: str) -> int:
    partition = partition_of(cluster, topic)
    return -1 if partition is None else partition.leader


def in_sync(cluster: ReplicatedCluster, topic: str) -> set[int]:
    partition = partition_of(cluster, topic)
    return set() if partition is None else set(partition.isrs)


def uncleanly_led_by_second(cluster: ReplicatedCluster, topic: str) -> None:
    """A topic that the first broker will lead when the second is gone, however much of the log it has."""
    unclean = {"unclean.leader.election.enable": "true"}
    admin = cluster.admin()
    admin.create_topics([NewTopic(topic, 1, replica_assignment=[[2, 1]], config=unclean)])[topic].result(30)
    eventually("the second broker leads", lambda: led_by(cluster, topic) == 2, timeout=60)


@pytest.mark.parametrize(("rack", "node"), [("a", 1), ("b", 2), ("", 0)])
def test_the_replica_of_our_rack_is_read(replicated: ReplicatedCluster, rack: str, node: int) -> None:
    """Its replica is read, whichever broker leads; without a rack the leader is read."""
    topic = new_name("racks")
    replicated.create_topic(topic, 1)
    produce(replicated.bootstrap_servers, topic, 20)
    properties = {"client.rack": rack} if rack else {}

    async def test() -> None:
        bootstrap, group = replicated.bootstrap_servers, new_name("group")
        async with engine(bootstrap, group, topic, reads_with="raw", properties=properties) as running:
            await running.ends()
            assert [record.offset for record in running.records(topic)] == list(range(20))
            assert isinstance(running.engine, RawEngine)
            (reading,) = running.engine._readings.values()
            assert reading.node == (node or reading.leader)
            await asyncio.to_thread(produce, bootstrap, topic, 5)
            await running.until(lambda: len(running.records(topic)) == 25)

    run(test)


def test_a_log_that_an_unclean_election_truncated(replicated: ReplicatedCluster) -> None:
    """Lost records are reported; new ones are read, at offsets that were there before."""
    topic = new_name("truncated")
    uncleanly_led_by_second(replicated, topic)
    bootstrap = replicated.bootstrap_servers
    produce(bootstrap, topic, 10, acks="all")
    eventually("both have it", lambda: in_sync(replicated, topic) == {1, 2}, timeout=60)

    async def test() -> None:
        async with engine(bootstrap, new_name("group"), topic, reads_with="raw") as running:
            await running.until(lambda: len(running.records(topic)) == 10)
            replicated.hold_back_replicas_on_first()
            await asyncio.to_thread(produce, bootstrap, topic, 2_000)
            await running.until(lambda: len(running.records(topic)) == 2_010)
            await asyncio.to_thread(eventually, "the first is behind", lambda: in_sync(replicated, topic) == {2})
            replicated.second.kill()
            cut = await running.next(Truncated)
            assert cut.offset == 10, "what both had is there"
            await asyncio.to_thread(produce, bootstrap, topic, 5)
            again = [b"%d" % number for number in range(5)]
            await running.until(lambda: [record.value for record in running.records(topic)] == again)
            assert running.records(topic)[0].offset == cut.offset
            assert running.all(PositionReset) == []

    try:
        run(test)
    finally:
        replicated.let_replicas_go_on()
        replicated.second.start()


@pytest.mark.parametrize("reads_with", ["raw", "librdkafka"])
def test_what_survived_an_unclean_election_is_delivered(
    replicated: ReplicatedCluster, reads_with: EngineName, tmp_path: Path
) -> None:
    """Of 500 records 100 are committed; 1,000 more are lost with the only broker that has them."""
    topic, group = new_name("survived"), new_name("group")
    uncleanly_led_by_second(replicated, topic)
    produce(replicated.bootstrap_servers, topic, 500, acks="all")
    eventually("both have it", lambda: in_sync(replicated, topic) == {1, 2}, timeout=60)
    mesh = Mesh([replicated], [topic], tmp_path, {}, {"us": {"engine": reads_with}})

    def stored() -> int:
        return replicated.committed(group)[topic, 0]

    def is_told() -> bool:
        return TRUNCATED in {entry["event"] for entry in mesh.log_entries()}

    def member() -> Consumer:
        properties = {"bootstrap.servers": mesh.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
        consumer = Consumer({**properties, "enable.auto.commit": False})
        consumer.subscribe([topic])
        return consumer

    def given(consumer: Consumer, count: int) -> list[Message]:
        found: list[Message] = []
        while len(found) < count:
            messages = consumer.consume(count - len(found), timeout=1.0)
            assert all(message.error() is None for message in messages)
            found += messages
        return found

    first, second = member(), None
    try:
        begun = given(first, 500)
        first.commit(message=begun[99], asynchronous=False)
        assert stored() == 100
        replicated.allow_unclean_elections_of_coordinators()
        replicated.hold_back_replicas_on_first()
        produce(replicated.bootstrap_servers, topic, 1_000)
        assert len(given(first, 1_000)) == 1_000
        eventually("the first is behind", lambda: in_sync(replicated, topic) == {2})
        replicated.second.kill()
        eventually("it is told", is_told, timeout=60)
        assert stored() == 100
        first.close()
        second = member()
        survived = range(100, 500)
        again = given(second, len(survived))
        assert [message.value() for message in again] == [b"%d" % number for number in survived]
        second.commit(message=again[-1], asynchronous=False)
        eventually("all of it is stored", lambda: stored() == 500, timeout=60)
    finally:
        (second or first).close()
        mesh.kill()
        replicated.let_replicas_go_on()
        replicated.second.start_if_ended()


def test_a_log_that_has_grown_again_says_where_it_parts(replicated: ReplicatedCluster) -> None:
    """The stored acknowledgements are of an epoch that ended at 10; the next epoch may have any records behind that."""
    topic, group = new_name("grown"), new_name("group")
    admin = replicated.admin()
    admin.create_topics([NewTopic(topic, 1, replica_assignment=[[2, 1]])])[topic].result(30)
    eventually("the second broker leads", lambda: led_by(replicated, topic) == 2, timeout=60)
    bootstrap = replicated.bootstrap_servers
    produce(bootstrap, topic, 10, acks="all")
    eventually("both have it", lambda: in_sync(replicated, topic) == {1, 2}, timeout=60)

    async def store() -> None:
        async with engine(bootstrap, group, topic, reads_with="raw") as running:
            await running.until(lambda: len(running.records(topic)) == 10)
            position = CommitPosition(5, "runs up to 25", is_read=True)
            assert await running.commit({source(topic): position}) == {source(topic): 0}

    async def look() -> None:
        async with engine(bootstrap, group, topic, reads_with="raw") as running:
            assert (await running.assigned())[0].committed.leader_epoch >= 0
            assert await running.next(Truncated) == Truncated(source(topic), 10)
            await running.until(lambda: len(running.records(topic)) == 35)
            assert [record.offset for record in running.records(topic)] == list(range(5, 40))

    run(store)
    replicated.second.kill()
    try:
        eventually("the first broker leads", lambda: led_by(replicated, topic) == 1, timeout=60)
        produce(bootstrap, topic, 30)
        run(look)
    finally:
        replicated.second.start()
