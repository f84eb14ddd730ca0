"""How fast a move copies a topic, beside a plain loop that consumes it and produces it to another topic.

`python -m benchmarks.moving` prints, for each size of records, the rates of both in the same rounds. Two brokers, six
partitions; the loop is librdkafka's, with acks of all replicas and idempotence, in one process as the mesh is.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Annotated

import typer
from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.filling import Topic, fill
from benchmarks.machine import describe, prefer
from tests.integration.jars import kafka_jars
from tests.integration.kafka import CLIENT_PROPERTIES, KafkaCluster
from tests.router.move_mesh import MoveMesh

PARTITIONS = 6
SIZES = {100: 1_000_000, 1_000: 300_000, 10_000: 30_000}
"""Records by the bytes of their values."""


def main(
    rounds: Annotated[int, typer.Option(min=1, help="How often each has its turn.")] = 3,
    scale: Annotated[float, typer.Option(min=0.001, help="How much of the usual number of records.")] = 1.0,
) -> None:
    """Measure moves beside a plain loop."""
    for key, value in describe().items():
        print(f"{key}: {value}")
    with tempfile.TemporaryDirectory(prefix="kafka-mesh-moving-") as folder, _two(Path(folder)) as (eu, us, mesh):
        for size, records in SIZES.items():
            count = round(records * scale)
            moved: list[float] = []
            looped: list[float] = []
            for number in range(rounds):
                topic = Topic(f"size-{size}-{number}", count, size, partitions=PARTITIONS)
                fill(eu, topic, count)
                us.create_topic(f"{topic.name}-looped", PARTITIONS)
                turns = (_moved, _looped) if number % 2 else (_looped, _moved)
                for turn in turns:
                    rates = moved if turn is _moved else looped
                    rates.append(count / turn(eu, us, mesh, topic.name, count))
            _show(size, moved, looped)


def _moved(_eu: KafkaCluster, _us: KafkaCluster, mesh: MoveMesh, topic: str, _count: int) -> float:
    """Seconds from the begin of a move until clients are led to the other cluster."""
    begin = time.monotonic()
    mesh.begin(topic, to="us")
    mesh.until_at(topic, "us")
    return time.monotonic() - begin


def _looped(eu: KafkaCluster, us: KafkaCluster, _mesh: MoveMesh, topic: str, count: int) -> float:
    """Seconds until a loop has every record acknowledged."""
    own = {"group.id": "loop", "enable.auto.commit": False, "fetch.max.bytes": 8 << 20}
    begin = time.monotonic()
    consumer = Consumer({**CLIENT_PROPERTIES, "bootstrap.servers": eu.bootstrap_servers, **own})
    consumer.assign([TopicPartition(topic, each, 0) for each in range(PARTITIONS)])
    producer = Producer(
        {
            **CLIENT_PROPERTIES,
            "bootstrap.servers": us.bootstrap_servers,
            "enable.idempotence": True,
            "queue.buffering.max.messages": 200_000,
            "linger.ms": 5,
        }
    )
    left, target = count, f"{topic}-looped"
    while left:
        messages = consumer.consume(2_000, 1.0)
        for each in messages:
            partition = each.partition()
            assert each.error() is None and partition is not None, each.error()
            while True:
                try:
                    producer.produce(target, each.value(), each.key(), partition, timestamp=each.timestamp()[1])
                    break
                except BufferError:
                    producer.poll(0.05)
        producer.poll(0)
        left -= len(messages)
    assert producer.flush(120) == 0
    consumer.close()
    return time.monotonic() - begin


@contextmanager
def _two(folder: Path) -> Iterator[tuple[KafkaCluster, KafkaCluster, MoveMesh]]:
    eu = KafkaCluster("eu", kafka_jars(), folder / "eu", is_measured=True)
    us = KafkaCluster("us", kafka_jars(), folder / "us", is_measured=True)
    for each in (eu, us):
        prefer(each.pid)
    mesh = MoveMesh(folder, eu, us, "moving")
    try:
        yield eu, us, mesh
    finally:
        mesh.kill()
        eu.kill()
        us.kill()


def _show(size: int, moved: Sequence[float], looped: Sequence[float]) -> None:
    ratios = sorted(one / other for one, other in zip(moved, looped, strict=True))
    megabytes = median(moved) * size / 1e6
    print(
        f"{size} bytes: moved {median(moved):,.0f} records/s ({megabytes:.0f} MB/s), "
        f"loop {median(looped):,.0f} records/s, ratio {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
    )


if __name__ == "__main__":
    typer.run(main)
