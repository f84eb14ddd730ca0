"""A topic that is created again while its group rebalances: our own reading notices it before the group returns it."""

from __future__ import annotations

import asyncio
import threading

import pytest
from confluent_kafka import Producer

from mesh.records.spans import CommitPosition
from mesh.upstream.engine import Assigned, PositionReset, Received, Revoked, Truncated
from mesh.upstream.raw.engine import RawEngine
from tests.integration.kafka import KafkaCluster
from tests.upstream.harness import engine, new_name, produce, run, source

OLD = 200
TRANSACTION = 20


@pytest.mark.parametrize("new", [OLD - 100, OLD + 100])
def test_the_new_log_is_read_from_its_beginning(kafka: KafkaCluster, new: int) -> None:
    """When it is assigned it ends with an open transaction: in front of the old position, or behind it."""
    topic = new_name("topic")
    kafka.create_topic(topic, 1)
    produce(kafka.bootstrap_servers, topic, OLD)
    may_go_on = threading.Event()
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic, "log_level": 0})

    def hold() -> None:
        may_go_on.wait(60)

    def make_anew() -> None:
        kafka.create_topic(topic, 1)
        produce(kafka.bootstrap_servers, topic, new)
        producer.init_transactions(30)
        producer.begin_transaction()
        for number in range(new, new + TRANSACTION):
            producer.produce(topic, b"%d" % number, partition=0)
        assert producer.flush(30) == 0

    async def test() -> None:
        async with engine(kafka.bootstrap_servers, new_name("group"), topic, reads_with="raw") as running:
            assert isinstance(running.engine, RawEngine)
            await running.ends()
            assert set((await running.commit({source(topic): CommitPosition(OLD - 50)})).values()) == {0}
            await asyncio.to_thread(kafka.delete_topic, topic)
            await running.next(Revoked)
            running.engine._group._consumer.command(hold)
            await asyncio.to_thread(make_anew)
            assert (await running.next(PositionReset)).start == 0
            may_go_on.set()
            await running.until(lambda: running.all(Assigned))
            assert running.all(Received) == [], "nothing is read before it is given back"
            await running.until(lambda: len(running.records(topic)) >= new)
            await asyncio.to_thread(producer.commit_transaction, 30)
            await asyncio.to_thread(produce, kafka.bootstrap_servers, topic, 1)
            await running.until(lambda: any(each.offset > new + TRANSACTION for each in running.records(topic)))
            offsets = [record.offset for record in running.records(topic)]
            assert offsets == [*range(new + TRANSACTION), new + TRANSACTION + 1]
            assert running.all(Truncated) == []

    try:
        run(test)
    finally:
        may_go_on.set()
