"""From produce to receipt, at a steady rate; all targets receive the same records at the same time."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping

from confluent_kafka import Consumer, Producer

from benchmarks.bed import Bed, Target
from benchmarks.clients import PATIENCE

WARM_UP = 1.0
"""Seconds whose records are not counted."""


def measure(bed: Bed, targets: Mapping[str, Target], rate: int, seconds: float) -> dict[str, dict[str, float]]:
    """Milliseconds by target: p50, p99, p99.9, max. Raises RuntimeError when a consumer misses records."""
    topic = bed.new_topic()
    count = int(rate * (seconds + WARM_UP))
    children = {name: _spawn(target.bootstrap_servers, topic, count) for name, target in targets.items()}
    for child in children.values():
        assert child.stdout is not None
        if child.stdout.readline().strip() != "ready":
            raise RuntimeError(child.communicate()[1])
    _produce(bed.broker.bootstrap_servers, topic, rate, count)
    results: dict[str, dict[str, float]] = {}
    for name, child in children.items():
        output, errors = child.communicate(timeout=PATIENCE)
        if child.returncode:
            raise RuntimeError(f"{name}: {errors}")
        results[name] = _percentiles(json.loads(output)[int(rate * WARM_UP) :])
    return results


def _percentiles(waits: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(waits, n=1_000, method="inclusive")
    return {"p50": cuts[499], "p99": cuts[989], "p99.9": cuts[998], "max": max(waits)}


def _produce(address: str, topic: str, rate: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0, "acks": 1})
    begin = time.monotonic()
    for number in range(count):
        ahead = begin + number / rate - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)  # the rate is the subject
        producer.produce(topic, f"{time.monotonic_ns()}".encode().ljust(100), partition=number % 6)
        producer.poll(0)
    producer.flush(30)


def _spawn(address: str, topic: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.latency", address, topic, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def receive(address: str, topic: str, count: int) -> list[float]:
    """Milliseconds that each record took, in the order of receipt."""
    properties = {"bootstrap.servers": address, "group.id": f"latency-{time.monotonic_ns()}", "fetch.wait.max.ms": 500}
    consumer = Consumer({**properties, "auto.offset.reset": "earliest"})
    ready: list[object] = []
    consumer.subscribe([topic], on_assign=lambda *_: ready.append(1))
    while not ready:
        consumer.poll(0.05)
    consumer.poll(0.5)
    print("ready", flush=True)
    waits: list[float] = []
    deadline = time.monotonic() + 60
    while len(waits) < count:
        message = consumer.poll(1.0)
        now = time.monotonic_ns()
        if message is None or message.error():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{len(waits)} of {count} records")
            continue
        deadline = time.monotonic() + 20
        waits.append((now - int(message.value() or b"0")) / 1e6)
    consumer.close()
    return waits


if __name__ == "__main__":
    print(json.dumps(receive(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
