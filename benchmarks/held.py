"""The delay from produce to receipt in a partition whose consumer also reads one of a broker that mostly hangs."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.bed import Target
from benchmarks.clients import PythonClient
from benchmarks.latency import WARM_UP, percentiles, waits_of
from benchmarks.several import SeveralBed
from tests.relay.cluster import Node

HANGS, RUNS = 0.4, 0.1
"""Seconds for which the slow broker hangs, and runs, in turn."""
RATE: Final = 100
_FIRST: Final = 20
"""Records whose receipt shows that the consumer reads."""
QUICK, SLOW = 101, 1_000_000
"""Brokers: the one whose partition is measured, and the one that hangs. Neither is the controller."""


def measure(bed: SeveralBed, target: Target, seconds: float, *, is_slow: bool) -> dict[str, float]:
    """Milliseconds by percentile, of the partition of the quick broker. is_slow: whether the other one hangs."""
    topic, count = bed.name(), int(RATE * (seconds + WARM_UP))
    bed.broker.create_topic(topic, 2, places=[[QUICK], [SLOW]])
    client = PythonClient("benchmarks.held", target.bootstrap_servers, topic, str(count))
    try:
        _produce(bed.direct.bootstrap_servers, topic, _FIRST)
        client.until("ready")
        with _hanging(bed.several.node(SLOW), is_slow):
            _produce(bed.direct.bootstrap_servers, topic, count)
            waits: list[float] = json.loads(client.read())
    finally:
        client.end()
        bed.broker.delete_topic(topic)
    return percentiles(waits[int(RATE * WARM_UP) :])


@contextmanager
def _hanging(node: Node, is_slow: bool) -> Iterator[None]:
    is_over = threading.Event()

    def hang() -> None:
        while not is_over.wait(RUNS):
            node.freeze()
            is_over.wait(HANGS)
            node.thaw()

    thread = threading.Thread(target=hang)
    if is_slow:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        if is_slow:
            thread.join()


def _produce(address: str, topic: str, count: int) -> None:
    """Produces a record for each partition at each turn, without waiting for those of the slow broker."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0, "acks": 1})
    begin = time.monotonic()
    for number in range(count):
        ahead = begin + number / RATE - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)  # sleeping sets the rate, which is measured
        value = f"{time.monotonic_ns()}".encode().ljust(100)
        for partition in (0, 1):
            producer.produce(topic, value, partition=partition)
        producer.poll(0)
    if producer.flush(30):
        raise RuntimeError(f"{topic} could not be filled")


def receive(address: str, topic: str, count: int) -> None:
    """Says `ready` when it has the first records, then the milliseconds that each further one took."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": topic, "enable.auto.commit": False})
    # Without a group, whose coordinator could be the broker that hangs.
    consumer.assign([TopicPartition(topic, partition, 0) for partition in (0, 1)])
    waits_of(consumer, _FIRST, partition=0)
    print("ready", flush=True)
    print(json.dumps(waits_of(consumer, count, partition=0)), flush=True)
    sys.stdin.read()
    consumer.close()


if __name__ == "__main__":
    receive(sys.argv[1], sys.argv[2], int(sys.argv[3]))
