"""The rate of a consumer that commits each record and waits for the answer.

So it measures a round trip: client, mesh, the upstream group's coordinator, and back.
"""

from __future__ import annotations

import sys
import time

from confluent_kafka import Consumer, Producer

from benchmarks.bed import Bed, Target
from benchmarks.clients import PythonClient
from benchmarks.rounds import Measured

RECORDS = 3_000
WARM_UP = 50
"""Uncounted records, from which a mesh learns that this member commits."""


def measure(bed: Bed, target: Target, count: int) -> Measured:
    """Records a second of one consumer, in a group that did not exist."""
    topic = bed.new_topic(target)
    producer = Producer({"bootstrap.servers": bed.broker.bootstrap_servers})
    for number in range(WARM_UP + count):
        producer.produce(topic, f"{number}".encode(), partition=number % 6)
    if producer.flush(30):
        raise RuntimeError(f"{topic} could not be filled")
    client = PythonClient("benchmarks.commits", target.bootstrap_servers, bed.group(), topic, str(count))
    try:
        return Measured(count / float(client.read()))
    finally:
        client.kill()


def consume(address: str, group: str, topic: str, count: int) -> float:
    """Seconds for this many records, from one commit answer to the last one."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    _commit_each(consumer, WARM_UP)
    begin = time.monotonic()
    _commit_each(consumer, count)
    return time.monotonic() - begin


def _commit_each(consumer: Consumer, count: int) -> None:
    for _ in range(count):
        while (message := consumer.poll(1.0)) is None or message.error():
            pass
        for answer in consumer.commit(message=message, asynchronous=False) or []:
            if answer.error is not None:
                raise RuntimeError(str(answer.error))


if __name__ == "__main__":
    print(consume(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])), flush=True)
