"""From produce to receipt, at a steady rate: of the same records by all targets at the same time, or both ways through
one target, which is what a relay is for."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Sequence

from confluent_kafka import Consumer, Producer

from benchmarks.bed import Bed, Target
from benchmarks.clients import PythonClient

WARM_UP = 1.0
"""Seconds whose records do not count."""
PERCENTILES = ("median", "p99", "p99.9")


def measure(bed: Bed, targets: Sequence[Target], rate: int, seconds: float) -> dict[str, dict[str, float]]:
    """Milliseconds by target and percentile. Raises RuntimeError when a consumer misses records."""
    topic = bed.new_topic(*targets)
    count = int(rate * (seconds + WARM_UP))
    address = bed.broker.bootstrap_servers
    clients = {
        target.name: PythonClient("benchmarks.latency", target.bootstrap_servers, bed.group(), topic, str(count))
        for target in targets
    }
    try:
        _produce(address, topic, 1_000, 60)  # a client with these records is in its group, and fetches
        for client in clients.values():
            client.until("ready")
        _produce(address, topic, rate, count)
        waits = {name: json.loads(client.read()) for name, client in clients.items()}
    finally:
        for client in clients.values():
            client.end()
    return {name: percentiles(found[int(rate * WARM_UP) :]) for name, found in waits.items()}


def both_ways(bed: Bed, target: Target, rate: int, seconds: float) -> dict[str, float]:
    """Milliseconds by percentile, of records that are produced through a target and received through it."""
    topic = bed.new_topic(target)
    count = int(rate * (seconds + WARM_UP))
    client = PythonClient("benchmarks.latency", target.bootstrap_servers, bed.group(), topic, str(count))
    try:
        _produce(target.bootstrap_servers, topic, 1_000, 60)
        client.until("ready")
        _produce(target.bootstrap_servers, topic, rate, count)
        waits = json.loads(client.read())
    finally:
        client.end()
        bed.broker.delete_topic(topic)
    return percentiles(waits[int(rate * WARM_UP) :])


def percentiles(waits: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(waits, n=1_000, method="inclusive")
    return dict(zip(PERCENTILES, (cuts[499], cuts[989], cuts[998]), strict=True))


def _produce(address: str, topic: str, rate: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0, "acks": 1})
    begin = time.monotonic()
    for number in range(count):
        ahead = begin + number / rate - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)  # sleeping sets the rate, which is measured
        producer.produce(topic, f"{time.monotonic_ns()}".encode().ljust(100), partition=number % 6)
        producer.poll(0)
    if producer.flush(30):
        raise RuntimeError(f"{topic} could not be filled")


def receive(address: str, group: str, topic: str, count: int) -> None:
    """Says `ready` when it has the first 60 records, then the milliseconds that each further one took."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    waits_of(consumer, 60)
    print("ready", flush=True)
    print(json.dumps(waits_of(consumer, count)), flush=True)
    sys.stdin.read()
    consumer.close()


def waits_of(consumer: Consumer, count: int, partition: int | None = None) -> list[float]:
    """Milliseconds that each record took. partition: whose records count; None: all."""
    waits: list[float] = []
    deadline = time.monotonic() + 60
    while len(waits) < count:
        message = consumer.poll(1.0)
        now = time.monotonic_ns()
        if message is not None and not message.error() and partition in (None, message.partition()):
            deadline = time.monotonic() + 20
            waits.append((now - int(message.value() or b"0")) / 1e6)
        elif time.monotonic() > deadline:
            raise RuntimeError(f"{len(waits)} of {count} records")
    return waits


if __name__ == "__main__":
    receive(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
