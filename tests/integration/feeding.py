"""Feeds a topic, and reads it back without the mesh."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.integration.kafka import CLIENT_PROPERTIES, KafkaCluster
from tests.integration.records import CODECS, Record, Stored, varied_record


class Feed:
    """Produces records with ids `cluster-topic-number` to one topic, with all five codecs in turn, or those named."""

    def __init__(
        self,
        cluster: KafkaCluster,
        topic: str,
        shape: Callable[[str, int], Record] = varied_record,
        codecs: Sequence[str] = CODECS,
        *,
        is_idempotent: bool = True,
        has_gaps: bool = True,
    ) -> None:
        """shape: makes the record of an id and its number. Formats before Kafka 0.11 know no idempotent producers.
        has_gaps: each call of `produce` leaves an aborted record and its marker in each partition, in front of its
        records and behind them: offsets that consumers never get."""
        self.cluster = cluster
        self.topic = topic
        self._shape = shape
        self._number = 0
        self._failed: list[KafkaError] = []
        self._codecs = codecs
        self._is_idempotent = is_idempotent
        self._gaps = Gaps(cluster, topic) if has_gaps and is_idempotent else None
        self.connect()

    def connect(self) -> None:
        """Connects with new producers, which do not know the topic yet."""
        # With more in flight, a starting partition may refuse a producer's first batch and accept the second. The retry
        # of the first then counts as a duplicate, and is lost although it succeeds.
        one_by_one = {"enable.idempotence": self._is_idempotent, "max.in.flight.requests.per.connection": 1}
        # One of several brokers may hang; another one leads its partitions by then. And a topic may grow.
        patience = {"socket.timeout.ms": 5_000, "topic.metadata.refresh.interval.ms": 1_000}
        base = {**CLIENT_PROPERTIES, **patience, **one_by_one, "bootstrap.servers": self.cluster.bootstrap_servers}
        self._producers = [Producer({**base, "compression.codec": codec}) for codec in self._codecs]

    def produce(self, count: int, rate: float | None = None) -> None:
        """Returns when all are stored; `rate` is in records per second, None: as fast as possible.

        Raises KafkaException if one could not be stored.
        """
        self.produce_while(range(count), rate)

    def produce_while(self, numbers: Iterable[int], rate: float | None) -> None:
        """Produces one for each of `numbers`, which count from 0, until they end; otherwise as `produce`."""
        self._leave_gaps()
        begin = time.monotonic()
        for sent in numbers:
            if rate is not None and (ahead := begin + sent / rate - time.monotonic()) > 0.01:
                self._poll()
                time.sleep(ahead)  # sleeping sets the rate, which matters here
            self._send()
        for producer in self._producers:
            assert producer.flush(120) == 0, f"{len(producer)} records not stored on {self.cluster.name} after 120 s"
        if self._failed:
            raise KafkaException(self._failed[0])
        self._leave_gaps()

    def ids(self) -> set[str]:
        """The ids of everything produced so far."""
        return {self._id(number) for number in range(self._number)}

    def _leave_gaps(self) -> None:
        if self._gaps is not None:
            self._gaps.leave()

    def _id(self, number: int) -> str:
        return f"{self.cluster.name}-{self.topic}-{number}"

    def _send(self) -> None:
        record = self._shape(self._id(self._number), self._number)
        producer = self._producers[self._number % len(self._producers)]
        self._number += 1
        while True:
            try:
                producer.produce(
                    self.topic,
                    record.value,
                    record.key,
                    headers=list(record.headers),
                    timestamp=record.timestamp,
                    on_delivery=self._delivered,
                )
                return
            except BufferError:
                producer.poll(0.1)

    def _poll(self) -> None:
        for producer in self._producers:
            producer.poll(0)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failed.append(error)


class Gaps:
    """Offsets of a topic that consumers never get: aborted records, and the markers of their transactions."""

    def __init__(self, cluster: KafkaCluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._producer: Producer | None = None

    def leave(self) -> None:
        """Leaves two offsets in each partition; fewer if a broker is down, or ends before it has finished."""
        try:
            producer = self._producer or self._connected()
            producer.begin_transaction()
            for partition in producer.list_topics(self._topic, timeout=10).topics[self._topic].partitions:
                producer.produce(self._topic, b"aborted|", partition=partition)
            producer.flush(10)  # a record that was not sent leaves no gap
            producer.abort_transaction(10)
        except KafkaException:
            self._producer = None

    def _connected(self) -> Producer:
        self._producer = Producer(
            {
                **CLIENT_PROPERTIES,
                "bootstrap.servers": self._cluster.bootstrap_servers,
                "transactional.id": f"{self._topic}-{self._cluster.name}-gaps-{uuid.uuid4()}",
                "transaction.timeout.ms": 10_000,
                "linger.ms": 0,
            }
        )
        self._producer.init_transactions(20)
        return self._producer


def upstream_records(cluster: KafkaCluster, *topics: str, may_repeat: bool = False) -> dict[str, Stored]:
    """Everything stored in these topics up to now, by id, read straight from the cluster.

    may_repeat: a broker was killed while it was fed, which may make even an idempotent producer store a record again.
    """
    stored: dict[str, Stored] = {}
    for each in stored_upstream(cluster, *topics):
        assert may_repeat or each.record.id not in stored, f"{each.record.id} is stored twice"
        stored[each.record.id] = each
    return stored


def stored_upstream(cluster: KafkaCluster, *topics: str) -> Iterator[Stored]:
    """The same one by one, with duplicates; without records of aborted or open transactions."""
    properties = {
        **CLIENT_PROPERTIES,
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "independent-reader",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    consumer = Consumer(properties)
    metadata = consumer.list_topics(timeout=60).topics
    unfinished = {(topic, partition) for topic in topics for partition in metadata[topic].partitions}
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for topic, partition in unfinished])
    deadline = time.monotonic() + 60
    while unfinished:
        assert time.monotonic() < deadline, f"no end of {unfinished} on {cluster.name}"
        for message in consumer.consume(10_000, timeout=0.2):
            if (error := message.error()) is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                unfinished.discard(_place(message)[:2])
                continue
            yield Stored(Record.of(message), cluster.name, *_place(message))
    consumer.close()


def log_ends(cluster: KafkaCluster, topic: str) -> dict[int, int]:
    """The offset of the next record by partition; of aborted records and markers, too."""
    consumer = Consumer({**CLIENT_PROPERTIES, "bootstrap.servers": cluster.bootstrap_servers, "group.id": "ends"})
    try:
        ends = {}
        for partition in consumer.list_topics(topic, timeout=60).topics[topic].partitions:
            bounds = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=60, cached=False)
            assert bounds is not None
            ends[partition] = bounds[1]
        return ends
    finally:
        consumer.close()


def _place(message: Message) -> tuple[str, int, int]:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None and partition is not None and offset is not None
    return topic, partition, offset
