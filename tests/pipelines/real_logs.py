"""Topics of a real broker whose offsets have holes: compacted, written by transactions, or with a deleted beginning."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from tests.integration.kafka import CLIENT_PROPERTIES, KafkaCluster
from tests.integration.processes import eventually

COMPACTED_AT_ONCE: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "0",
}


@contextmanager
def eager_cleaner(cluster: KafkaCluster) -> Iterator[None]:
    """The cleaner looks for work all the time, and not every 15 seconds."""
    _set_cleaner(cluster, AlterConfigOpType.SET)
    try:
        yield
    finally:
        _set_cleaner(cluster, AlterConfigOpType.DELETE)


def _set_cleaner(cluster: KafkaCluster, operation: AlterConfigOpType) -> None:
    entry = ConfigEntry("log.cleaner.backoff.ms", "100", incremental_operation=operation)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    admin = cluster.admin()  # must live until the answer comes
    (done,) = admin.incremental_alter_configs([resource]).values()
    done.result(30)


class Log:
    """One topic with one partition, and the values written to it, by offset."""

    def __init__(self, cluster: KafkaCluster, topic: str, config: Mapping[str, str] | None = None) -> None:
        cluster.create_topic(topic, 1, config)
        self.cluster = cluster
        self.topic = topic
        self.written: dict[int, str] = {}
        self._now = int(time.time() * 1000)
        self._number = 0

    def write(self, *keys: str) -> list[int]:
        """Writes a record for each key, with a unique value; returns their places."""
        return self._produce(self._producer(), keys)

    def transaction(self, count: int, commits: bool = True) -> list[int]:
        producer = self._producer({"transactional.id": f"{self.topic}-writer"})
        producer.init_transactions(30)
        producer.begin_transaction()
        found = self._produce(producer, [""] * count)
        if commits:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
            for offset in found:
                del self.written[offset]
        return found

    def compact(self, gone: Sequence[int]) -> None:
        """Returns when the cleaner has removed these. Kafka never compacts the newest segment, so this writes one more
        record to begin another segment."""
        self._now += 60_000
        self.write(f"another segment {self._now}")
        eventually(f"{self.topic} is compacted", lambda: not set(gone) & set(self.read()), interval=0.2)

    def delete_below(self, offset: int) -> None:
        admin = self.cluster.admin()
        (done,) = admin.delete_records([TopicPartition(self.topic, 0, offset)]).values()
        assert done.result(30).low_watermark == offset

    def read(self) -> list[int]:
        """The offsets that a consumer can read now, without any code of an audit."""
        consumer = Consumer(
            {
                **CLIENT_PROPERTIES,
                "bootstrap.servers": self.cluster.bootstrap_servers,
                "group.id": "reads-without-committing",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
            }
        )
        try:
            consumer.assign([TopicPartition(self.topic, 0, 0)])
            found: list[int] = []
            while True:
                message = consumer.poll(30)
                assert message is not None, f"{self.topic} cannot be read to its end"
                error = message.error()
                if error is None:
                    offset = message.offset()
                    assert offset is not None
                    found.append(offset)
                elif error.code() == KafkaError._PARTITION_EOF:
                    return found
        finally:
            consumer.close()

    def _produce(self, producer: Producer, keys: Iterable[str]) -> list[int]:
        found: list[int] = []

        def stored(error: KafkaError | None, message: object) -> None:
            assert error is None, error
            offset = message.offset()  # type: ignore[attr-defined]
            self.written[offset] = message.value().decode()  # type: ignore[attr-defined]
            found.append(offset)

        for key in keys:
            self._number += 1
            value = f"{self.topic} {self._number}"
            producer.produce(self.topic, value, key, partition=0, timestamp=self._now, on_delivery=stored)
        assert producer.flush(30) == 0
        return found

    def _producer(self, more: Mapping[str, str] | None = None) -> Producer:
        return Producer({**CLIENT_PROPERTIES, "bootstrap.servers": self.cluster.bootstrap_servers, **(more or {})})
