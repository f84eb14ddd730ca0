"""The rate at which a producer's records are stored, through the targets in front of the broker."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Final, Literal, TypeAlias

from benchmarks.bed import Bed, Target
from benchmarks.machine import cpu_seconds, peak_mib
from benchmarks.rounds import Measure, Measured

Producer: TypeAlias = Literal["java", "confluent"]
PARTITIONS: Final = 6
PATIENCE: Final = 120.0
"""Seconds. A run that takes longer is a failure, not a slow one."""
_JAVA_RATE: Final = re.compile(r"([0-9.]+) records/sec")
_CONFLUENT: Final = """
import json, sys, time
from confluent_kafka import Producer
address, topic, count, size, acks = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
failed = []
producer = Producer({"bootstrap.servers": address, "acks": acks, "linger.ms": 5, "batch.num.messages": 100000,
                     "queue.buffering.max.messages": 500000, "queue.buffering.max.kbytes": 262144,
                     "on_delivery": lambda error, _: error is not None and failed.append(error)})
value, begin = bytes(size), time.monotonic()
for number in range(count):
    while True:
        try:
            producer.produce(topic, value, partition=number // 1000 % 6)
            break
        except BufferError:
            producer.poll(0.01)
    if number % 1000 == 0:
        producer.poll(0)
assert producer.flush(100) == 0 and not failed, failed[:3]
print(count / (time.monotonic() - begin))
"""


PRODUCED_BYTES: Final = 200_000_000
"""Bytes of a run with records of 1 KB; as many bytes of smaller ones take longer."""


def at(bed: Bed, target: Target, producer: Producer, size: int, acks: str, count: int) -> Measure:
    """As `measure`."""
    return lambda: measure(bed, target, producer, size, acks, count)


def measure(bed: Bed, target: Target, producer: Producer, size: int, acks: str, count: int) -> Measured:
    """size: bytes of a record."""
    topic = bed.new_topic(partitions=PARTITIONS)
    try:
        before = sum(map(cpu_seconds, target.pids))
        rate = (_java if producer == "java" else _confluent)(bed, target, topic, count, size, acks)
        cost = sum(map(cpu_seconds, target.pids)) - before
    finally:
        bed.broker.delete_topic(topic)
    return Measured(rate, cost, sum(map(peak_mib, target.pids)), count, count * size)


def _java(bed: Bed, target: Target, topic: str, count: int, size: int, acks: str) -> float:
    said = bed.broker.run_tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", str(count), "--record-size", str(size), "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={target.bootstrap_servers}", f"acks={acks}"),
        timeout=PATIENCE,
    )
    found = _JAVA_RATE.findall(said)
    if not found:
        raise RuntimeError(f"ProducerPerformance said no rate: {said[-500:]}")
    return float(found[-1])


def _confluent(bed: Bed, target: Target, topic: str, count: int, size: int, acks: str) -> float:
    command = [sys.executable, "-c", _CONFLUENT, target.bootstrap_servers, topic, str(count), str(size), acks]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-500:])
    return float(done.stdout)
