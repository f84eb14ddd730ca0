"""A topic of small transactions, on a real broker: markers do not count as acknowledgements."""

from __future__ import annotations

from contextlib import closing

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from tests.integration.bench import Bench
from tests.integration.kafka import CLIENT_PROPERTIES, KafkaCluster
from tests.integration.mesh_process import Mesh
from tests.integration.processes import eventually

SIZE = 3
"""Records of a transaction."""


def produce(cluster: KafkaCluster, topic: str, transactions: int, size: int) -> None:
    """This many transactions of `size` records each; one in ten is aborted and repeated."""
    producer = Producer(
        {
            **CLIENT_PROPERTIES,
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": f"{topic}-producer",
            "linger.ms": 0,
        }
    )
    producer.init_transactions(30)
    for number in range(transactions):
        for is_aborted in (True, False) if number % 10 == 0 else (False,):
            producer.begin_transaction()
            for index in range(size):
                value = "aborted" if is_aborted else str(number * size + index)
                producer.produce(topic, value.encode(), partition=0)
            if is_aborted:
                producer.flush(30)
                producer.abort_transaction(30)
            else:
                producer.commit_transaction(30)


def member(mesh: Mesh, group: str, name: str, topic: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": mesh.bootstrap_servers,
            "group.id": group,
            "client.id": name,
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,
        }
    )
    consumer.subscribe([topic])
    return consumer


def take(consumer: Consumer, count: int) -> list[Message]:
    """Reads the next `count` records."""
    found: list[Message] = []

    def is_there() -> bool:
        message = consumer.poll(0.2)
        if message is not None:
            assert message.error() is None, message.error()
            found.append(message)
        return len(found) >= count

    eventually(f"{count} records came", is_there, interval=0)
    return found


def end_of(cluster: KafkaCluster, topic: str) -> int:
    """The end of partition 0, behind the last marker."""
    with closing(Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "none"})) as asking:
        bounds = asking.get_watermark_offsets(TopicPartition(topic, 0), timeout=30, cached=False)
        assert bounds is not None
        return int(bounds[1])


def stored_commits(mesh: Mesh) -> float:
    return mesh.metric("kafka_mesh_upstream_commits_total", result="stored")


def test_transactions_cause_no_more_upstream_commits_than_plain_records(bench: Bench) -> None:
    """At the end there is no lag, although markers come last."""
    eu = bench.clusters[0]
    mesh = bench.start_mesh()
    with closing(member(mesh, bench.group, "member", bench.topic)) as consumer:
        produce(eu, bench.topic, 1, SIZE)
        values = [message.value() for message in take(consumer, SIZE)]
        consumer.commit(asynchronous=False)
        before = stored_commits(mesh)
        for begun in range(4):
            produce(eu, bench.topic, 50, SIZE)
            values += [message.value() for message in take(consumer, 50 * SIZE)]
            consumer.commit(asynchronous=False)
            assert stored_commits(mesh) - before <= begun + 2, "one for each of the member, and one more"
        expected = [str(each).encode() for each in range(SIZE)] + [str(each).encode() for each in range(50 * SIZE)] * 4
        assert values == expected
        end = end_of(eu, bench.topic)
        eventually("no lag", lambda: eu.committed(bench.group)[bench.topic, 0] == end)
        assert stored_commits(mesh) - before <= 5


@pytest.mark.long
def test_a_member_that_is_stuck_with_small_transactions_holds_up_nobodys_commits(bench: Bench) -> None:
    """It holds the records of 2,500 transactions, and lives."""
    eu = bench.clusters[0]
    mesh = bench.start_mesh()
    produce(eu, bench.topic, 2_500, 1)
    with (
        closing(member(mesh, bench.group, "stuck", bench.topic)) as stuck,
        closing(member(mesh, bench.group, "busy", bench.topic)) as busy,
    ):
        held = take(stuck, 2_500)
        stuck.pause(stuck.assignment())
        # This answer comes on the connection of the last Fetch, after the answer to that Fetch.
        stuck.get_watermark_offsets(TopicPartition(bench.topic, 0), timeout=30, cached=False)
        for _ in range(5):
            produce(eu, bench.topic, 50, 1)
            take(busy, 50)
            for stored in busy.commit(asynchronous=False):
                assert stored.error is None, stored
        (committed,) = stuck.committed([TopicPartition(bench.topic, 0)], timeout=30)
        assert (committed.offset, len(held)) == (held[0].offset(), 2_500), "it has committed nothing"
