"""The topics that the consumers of a benchmark read, and their records."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.integration.kafka import KafkaCluster
from tests.integration.processes import eventually

Kind = Literal["plain", "transactions", "compacted"]
SMALL = 3
"""Records of a batch of the small ones."""
_COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "0",
    "segment.ms": "1000",
}


@dataclass(frozen=True, slots=True)
class Topic:
    """records: how many are produced. size: bytes of a value. batch: bytes of a batch at most, 1 for a record each, 3
    for three. kind: transactions, each with a small batch of every partition, and their markers; or compacted, to about
    half of the records, with gaps between them."""

    name: str
    records: int
    size: int
    codec: str = "none"
    partitions: int = 6
    batch: int = 16_384
    kind: Kind = "plain"


def fill(broker: KafkaCluster, topic: Topic, count: int) -> int:
    """Makes a topic with this many records; returns how many of them a consumer gets."""
    broker.create_topic(topic.name, topic.partitions, _COMPACTED if topic.kind == "compacted" else None)
    generator = random.Random(1)
    values = [_value(generator, topic, number) for number in range(1_000)]
    match topic.kind:
        case "plain":
            _produce(broker, topic, count, values, lambda _: None)
        case "transactions":
            return _produce_transactions(broker, topic, count, values)
        case "compacted":
            keys = [f"{generator.randrange(count // topic.partitions // 2)}".encode() for _ in range(count)]
            _produce(broker, topic, count, values, lambda number: keys[number])
            return _compacted(broker, topic, count)
    return count


def _produce(
    broker: KafkaCluster, topic: Topic, count: int, values: list[bytes], key: Callable[[int], bytes | None]
) -> None:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "compression.codec": topic.codec,
            "batch.size": max(topic.batch, 200),
            "batch.num.messages": topic.batch if topic.batch <= SMALL else 10_000,
            "linger.ms": 100,
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 1_000_000,
        }
    )
    for number in range(count):
        while True:
            try:
                partition = number // 160 % topic.partitions
                producer.produce(topic.name, values[number % 1_000], key(number), partition=partition)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(120) == 0, f"{topic.name} could not be filled"


def _produce_transactions(broker: KafkaCluster, topic: Topic, count: int, values: list[bytes]) -> int:
    """Each has a small batch, and a marker, in every partition."""
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": f"fills {topic.name}", "linger.ms": 0}
    )
    producer.init_transactions(30)
    produced = 0
    while produced < count:
        producer.begin_transaction()
        for partition in range(topic.partitions):
            for _ in range(SMALL):
                producer.produce(topic.name, values[produced % 1_000], partition=partition)
                produced += 1
        producer.commit_transaction(30)
    return produced


def _compacted(broker: KafkaCluster, topic: Topic, produced: int) -> int:
    """How many records are left when the cleaner has been everywhere but in the last segments."""
    time.sleep(1.5)  # a segment ends after a second, at the next append
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for partition in range(topic.partitions):
        producer.produce(topic.name, b"", b"end", partition=partition)
    assert producer.flush(30) == 0, topic.name
    left = produced

    def is_clean() -> bool:
        nonlocal left
        before, left = left, sum(1 for _ in _records(broker, topic))
        return left == before < 0.7 * produced

    eventually(f"{topic.name} is compacted", is_clean, timeout=300, interval=2)
    return left


def _records(broker: KafkaCluster, topic: Topic) -> Iterator[None]:
    """One for each that is there."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "none", "enable.partition.eof": True}
    )
    try:
        consumer.assign([TopicPartition(topic.name, number, 0) for number in range(topic.partitions)])
        left = topic.partitions
        while left:
            for message in consumer.consume(10_000, 1.0):
                error = message.error()
                if error is None:
                    yield None
                elif error.code() == KafkaError._PARTITION_EOF:
                    left -= 1
    finally:
        consumer.close()


def _value(generator: random.Random, topic: Topic, number: int) -> bytes:
    if topic.codec == "none":
        return generator.randbytes(topic.size)
    # Random words, as in logs: about half their size when compressed.
    words = " ".join(generator.choice(_WORDS) for _ in range(topic.size // 4))
    return json.dumps({"order": number, "note": words})[: topic.size].encode()


_WORDS = [f"{generator.getrandbits(28):x}" for generator in [random.Random(2)] for _ in range(400)]
