"""A partition without a leader, or of a topic that the group may not read, stops no other."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from confluent_kafka.cimpl import NewTopic

from mesh.records.spans import TopicName
from mesh.upstream.engine import Assigned, EngineName, Unopened
from mesh.upstream.problems import UpstreamProblem
from tests.faults.bed import Bed
from tests.faults.clusters import ReplicatedCluster
from tests.integration.feeding import upstream_records
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import eventually
from tests.upstream.harness import RunningEngine, engine, new_name, produce, run

pytestmark = [pytest.mark.long, pytest.mark.timeout(300), pytest.mark.xdist_group("replicated")]
BOTH = pytest.mark.parametrize("reads_with", ["raw", "librdkafka"])
RECORDS = 100


def leaders(cluster: KafkaCluster, topic: str) -> dict[int, int]:
    """Node ids by partition; -1 for a partition without a leader."""
    seen = cluster.admin().list_topics(topic, timeout=30).topics[topic].partitions
    return {number: partition.leader for number, partition in seen.items()}


def create(cluster: ReplicatedCluster, topic: str, *brokers: int) -> None:
    """A topic with one replica for each partition, on these nodes."""
    places = [[broker] for broker in brokers]
    admin = cluster.admin()  # must outlive the future
    admin.create_topics([NewTopic(topic, len(brokers), replica_assignment=places)])[topic].result(30)
    eventually("leaders", lambda: leaders(cluster, topic) == dict(enumerate(brokers)), timeout=60)


def fill(cluster: ReplicatedCluster, topic: str, partitions: int) -> None:
    for number in range(partitions):
        produce(cluster.bootstrap_servers, topic, RECORDS, number)


def until_gone(cluster: ReplicatedCluster, topic: str, *, leaderless: int) -> None:
    cluster.second.kill()
    eventually("it has no leader", lambda: leaders(cluster, topic)[leaderless] == -1, timeout=60)


def read(running: RunningEngine, topic: str, partition: int) -> list[int]:
    return [record.offset for record in running.records(topic, partition)]


def unopened(running: RunningEngine) -> dict[tuple[str, int], bool]:
    """The last reported partitions that cannot be opened, each with whether that lasts."""
    told = running.all(Unopened)
    return {} if not told else {(s.topic, s.partition): each.lasts for s, each in told[-1].partitions.items()}


@BOTH
def test_a_partition_without_a_leader_keeps_no_other_from_a_new_group(
    replicated: ReplicatedCluster, reads_with: EngineName
) -> None:
    """It is named meanwhile, and read when it has a leader again; other partitions continue."""
    topic = new_name("halves")
    create(replicated, topic, 1, 2)
    fill(replicated, topic, 2)
    until_gone(replicated, topic, leaderless=1)

    async def test() -> None:
        async with engine(replicated.bootstrap_servers, new_name("group"), topic, reads_with=reads_with) as running:
            await running.until(lambda: read(running, topic, 0) == list(range(RECORDS)))
            await running.until(lambda: unopened(running) == {(topic, 1): True})
            replicated.second.start()  # from the main thread: children die with the thread that started them
            await running.until(lambda: read(running, topic, 1) == list(range(RECORDS)))
            assert read(running, topic, 0) == list(range(RECORDS)), "none of it twice"
            assert unopened(running) == {}
            first, *_, last = running.all(Assigned)
            assert [each.partition.partition for each in first.partitions] == [0]
            assert [(each.partition.partition, each.resumed) for each in last.partitions] == [(0, True), (1, False)]

    try:
        run(test)
    finally:
        replicated.second.start_if_ended()


def test_a_topic_without_leaders_keeps_no_other_of_the_group_from_being_read(replicated: ReplicatedCluster) -> None:
    """A group that reads a topic subscribes to another one, half of whose partitions have no leader."""
    before, more = new_name("before"), new_name("more")
    create(replicated, before, 1)
    create(replicated, more, 1, 2)
    fill(replicated, before, 1)
    fill(replicated, more, 2)
    until_gone(replicated, more, leaderless=1)
    bootstrap = replicated.bootstrap_servers

    async def test() -> None:
        async with engine(bootstrap, new_name("group"), before) as running:
            await running.until(lambda: len(read(running, before, 0)) == RECORDS)
            running.engine.subscribe(frozenset([TopicName(before), TopicName(more)]))
            await running.until(lambda: len(read(running, more, 0)) == RECORDS)
            await running.until(lambda: unopened(running) == {(more, 1): True})
            await asyncio.to_thread(produce, bootstrap, before, 5)
            await running.until(lambda: read(running, before, 0) == list(range(RECORDS + 5)))

    try:
        run(test)
    finally:
        replicated.second.start()


def test_what_cannot_be_opened_is_named(bed_with_two_brokers: Bed) -> None:
    """It is named in the log, on /readyz, by a metric and in the status, until its leader is back."""
    bed = bed_with_two_brokers
    cluster, topic = bed.us, bed.bench.topic
    assert isinstance(cluster, ReplicatedCluster)
    cluster.delete_topic(topic)
    create(cluster, topic, 1, 2)
    bed.bench.feed(2 * RECORDS, clusters=[cluster])
    stored = Counter(each.partition for each in upstream_records(cluster, topic).values())
    until_gone(cluster, topic, leaderless=1)
    of_group = {"cluster": "us", "group": bed.bench.group}

    def standings() -> dict[int, str]:
        (pool,) = bed.mesh.status()["virtual_clusters"][0]["pools"]
        return {each["upstream_partition"]: each["standing"] for each in pool["partitions"] if each["cluster"] == "us"}

    try:
        bed.bench.start_mesh()
        bed.members(1)
        eventually("what has a leader", lambda: bed.arrived("us") == stored[0], timeout=60)
        bed.until_told(UpstreamProblem.UNREADABLE)
        assert f"{topic}-1" in bed.standing()[UpstreamProblem.UNREADABLE.value]["reason"]
        assert bed.mesh.metric("kafka_mesh_unopened_partitions", **of_group) == 1
        assert standings() == {0: "active", 1: "unopened"}
        assert bed.mesh.metric("kafka_mesh_upstream_up", cluster="us") == 1
    finally:
        cluster.second.start()
    bed.assert_nothing_lost()
    bed.until_over()
    bed.assert_told_once(UpstreamProblem.UNREADABLE)
    assert bed.mesh.metric("kafka_mesh_unopened_partitions", **of_group) == 0
