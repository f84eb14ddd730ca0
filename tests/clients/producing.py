"""The contract of the producers of these tests in all languages, and the three that are written in Python.

A producer gets the JSON of `Feed` as its last argument. It sends the records in order and with acks=all, idempotently
if its library can. It writes a JSON line for each acknowledged record: `number`, `partition` and `offset`, -1 if the
library does not report them. It exits with 0 if all were acknowledged.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaError, Message, Producer
from kafka import KafkaProducer

KEYS = 17


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """The feed of a producer. Record number n of `count` has the key `key-` + n modulo 17, and the value client id +
    `-` + n + `|`.

    rate: records per second; 0 for as fast as possible (confluent-kafka, kafka-clients and franz-go support it).
    """

    bootstrap_servers: str
    client_id: str
    topic: str
    count: int
    rate: int = 0

    def to_json(self) -> str:
        """The argument of a producer."""
        return json.dumps(asdict(self))

    def key(self, number: int) -> bytes:
        return b"key-%d" % (number % KEYS)

    def value(self, number: int) -> bytes:
        return f"{self.client_id}-{number}|".encode()


def acknowledged(number: int, partition: int, offset: int) -> None:
    """Writes the line of an acknowledged record."""
    sys.stdout.write(json.dumps({"number": number, "partition": partition, "offset": offset}) + "\n")


def with_confluent(feed: Feed) -> None:
    properties = {"bootstrap.servers": feed.bootstrap_servers, "client.id": feed.client_id, "enable.idempotence": True}
    producer = Producer(properties)

    def delivered(number: int) -> Callable[[KafkaError | None, Message], None]:
        def report(error: KafkaError | None, message: Message) -> None:
            partition, offset = message.partition(), message.offset()
            if error is None and partition is not None and offset is not None:
                acknowledged(number, partition, offset)

        return report

    began = time.monotonic()
    for number in range(feed.count):
        producer.produce(feed.topic, feed.value(number), feed.key(number), on_delivery=delivered(number))
        ahead = began + number / feed.rate - time.monotonic() if feed.rate else 0.0
        producer.poll(max(ahead, 0.0))
        sys.stdout.flush()
    assert not producer.flush(60)


def with_kafka_python(feed: Feed) -> None:
    producer = KafkaProducer(
        bootstrap_servers=feed.bootstrap_servers, client_id=feed.client_id, acks="all", enable_idempotence=True
    )
    sent = [producer.send(feed.topic, feed.value(n), feed.key(n)) for n in range(feed.count)]
    for number, future in enumerate(sent):
        metadata = future.get(60)
        acknowledged(number, metadata.partition, metadata.offset)
    producer.close()


def with_aiokafka(feed: Feed) -> None:
    async def send() -> None:
        servers = feed.bootstrap_servers
        producer = AIOKafkaProducer(bootstrap_servers=servers, client_id=feed.client_id, enable_idempotence=True)
        async with producer:
            sent = [await producer.send(feed.topic, feed.value(n), feed.key(n)) for n in range(feed.count)]
            for number, future in enumerate(sent):
                metadata = await future
                acknowledged(number, metadata.partition, metadata.offset)

    asyncio.run(send())


_LIBRARIES: Mapping[str, Callable[[Feed], None]] = {
    "confluent-kafka": with_confluent,
    "kafka-python": with_kafka_python,
    "aiokafka": with_aiokafka,
}

if __name__ == "__main__":
    _LIBRARIES[sys.argv[1]](Feed(**json.loads(sys.argv[2])))
