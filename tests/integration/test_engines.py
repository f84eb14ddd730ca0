"""The engine that carries the records; the raw engine leaves every byte of a batch as its broker has it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from mesh.records.batch import RecordBatch
from mesh.records.runs import rebase
from mesh.records.spans import CommitPosition
from mesh.upstream.engine import Truncated
from mesh.upstream.links.connection import BrokerLink
from mesh.upstream.links.connection_settings import ConnectionSettings
from mesh.wire.client.fetch import FetchFrom, decode_fetch_answer, fetch_request
from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import Mesh
from tests.records.reading import split_batches
from tests.upstream.harness import engine, new_name, produce, run, source

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = 300


def produce_with_all_codecs(bootstrap_servers: str, topic: str) -> None:
    for codec in CODECS:
        producer = Producer(
            {"bootstrap.servers": bootstrap_servers, "compression.codec": codec, "linger.ms": 100, "batch.size": 4_000}
        )
        for number in range(RECORDS):
            producer.produce(topic, b"value %d " % number * 5, b"key", headers={"trace": b"%d" % number})
        assert producer.flush(30) == 0


async def fetch_all(bootstrap_servers: str, topic: str, records: int) -> list[RecordBatch]:
    """Every batch of partition 0, as a consumer without a group gets them."""
    host, _, port = bootstrap_servers.partition(":")
    link = BrokerLink(host, int(port), ConnectionSettings())
    batches: list[RecordBatch] = []
    offset = 0
    async with asyncio.timeout(60):
        while sum(batch.record_count for batch in batches) < records:
            request = fetch_request(
                12,
                {topic: [FetchFrom(0, -1, offset, 1 << 20)]},
                max_wait_ms=500,
                max_bytes=1 << 20,
                read_committed=True,
            )
            (part,) = decode_fetch_answer(await link.request(request, 1.0)).partitions
            assert part.error_code == 0
            for batch in split_batches(part.records):
                batches.append(batch)
                offset = batch.last + 1
    link.close()
    return batches


def test_the_leader_epoch_of_what_was_acknowledged_is_stored_and_looked_at(kafka: KafkaCluster) -> None:
    """Kafka keeps the epoch with the commit, and reports where it ends: here at the end of the log."""
    topic, group = new_name("epochs"), new_name("group")
    kafka.create_topic(topic, 1)
    produce(kafka.bootstrap_servers, topic, 10)
    place = source(topic)

    async def test() -> None:
        async with engine(kafka.bootstrap_servers, group, topic, reads_with="raw") as running:
            await running.ends()
            for text, is_read in (("unread", False), ("read", True)):
                stored = CommitPosition(2, text, is_read=is_read)
                assert await running.commit({place: stored}) == {place: 0}
                (answer,) = await asyncio.to_thread(committed, kafka, group, topic)
                assert (answer.metadata, answer.leader_epoch) == (text, 0 if is_read else None)
        await asyncio.to_thread(produce, kafka.bootstrap_servers, topic, 5)
        async with engine(kafka.bootstrap_servers, group, topic, reads_with="raw") as running:
            assert (await running.assigned())[0].committed.leader_epoch == 0
            assert (await running.next(Truncated)).offset == 15
            await running.ends()
            assert [record.offset for record in running.records(topic)] == list(range(2, 15))

    run(test)


def committed(kafka: KafkaCluster, group: str, topic: str) -> list[TopicPartition]:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
    try:
        return consumer.committed([TopicPartition(topic, 0)], timeout=30)
    finally:
        consumer.close()


def content(batch: RecordBatch) -> bytes:
    """All bytes but the base offset and the leader epoch."""
    rebase(batch, 0)
    return bytes(batch.data)


@pytest.mark.parametrize(("configured", "engine"), [({}, "raw"), ({"engine": "librdkafka"}, "librdkafka")])
def test_the_engine_that_is_configured_carries_the_bytes(
    kafka: KafkaCluster, tmp_path: Path, configured: Mapping[str, str], engine: str
) -> None:
    """By default, batches pass undecoded."""
    topic = f"carried-{engine}"
    kafka.create_topic(topic, 1)
    produce_with_all_codecs(kafka.bootstrap_servers, topic)
    mesh = Mesh([kafka], [topic], tmp_path, {}, {kafka.name: {"engine": "auto", **configured}})
    try:
        stored = asyncio.run(fetch_all(kafka.bootstrap_servers, topic, RECORDS * len(CODECS)))
        received = asyncio.run(fetch_all(mesh.bootstrap_servers, topic, RECORDS * len(CODECS)))
        brought = {
            name: mesh.metric("kafka_mesh_engine_bytes_in_total", cluster="eu", engine=name)
            for name in ("raw", "librdkafka")
        }
        other = "librdkafka" if engine == "raw" else "raw"
        assert brought[engine] > 0
        assert brought[other] == 0
        if engine == "raw":
            assert [content(batch) for batch in received] == [content(batch) for batch in stored]
            assert len({batch.data[22] & 7 for batch in stored}) == len(CODECS)
    finally:
        mesh.stop()
