"""Durations: from a start to the first record, and from a member's death to the delivery of its uncommitted records."""

from __future__ import annotations

import sys
import time

from confluent_kafka import Consumer, Producer

from benchmarks.bed import Bed, Engine, Target
from benchmarks.clients import PythonClient
from benchmarks.rounds import Measured
from tests.integration.processes import free_port

RECORDS = 600
DIRECT_SESSION_MS = 6_000
"""The least that a broker allows; Kafka's default is 45 s."""


def consumer_start(bed: Bed, target: Target) -> Measured:
    """Seconds from a consumer's subscribe() to its first record, in a group that did not exist."""
    topic = bed.new_topic(target)
    _fill(bed, topic)
    client = PythonClient("benchmarks.starts", target.bootstrap_servers, bed.group(), topic, "1", "6000")
    try:
        begin = float(client.read())
        client.until("holding")
        return Measured(float(client.read()) - begin)
    finally:
        client.kill()


def mesh_start(bed: Bed, engine: Engine) -> Measured:
    """Seconds from the start of a process of the mesh to the first record of a consumer that waits for it."""
    topic = bed.new_topic()
    _fill(bed, topic)
    port = free_port()
    client = PythonClient("benchmarks.starts", f"127.0.0.1:{port}", bed.group(), topic, "1", "6000")
    try:
        client.read()
        begin = time.monotonic()
        mesh = bed.start_mesh(engine, port)
        try:
            client.until("holding")
            return Measured(float(client.read()) - begin)
        finally:
            mesh.kill()
    finally:
        client.kill()


def redelivery(bed: Bed, target: Target, session_ms: int = 45_000) -> Measured:
    """Seconds from kill -9 of a member that holds all records un-committed until another has every one of them."""
    topic, group = bed.new_topic(target), bed.group()
    _fill(bed, topic)
    arguments = (target.bootstrap_servers, group, topic, str(RECORDS), str(session_ms))
    victim = PythonClient("benchmarks.starts", *arguments)
    heir: PythonClient | None = None
    try:
        victim.until("holding")
        heir = PythonClient("benchmarks.starts", *arguments)
        heir.until("assigned")
        begin = time.monotonic()
        victim.kill()
        heir.until("holding")
        return Measured(float(heir.read()) - begin)
    finally:
        victim.kill()
        if heir is not None:
            heir.kill()


def _fill(bed: Bed, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bed.broker.bootstrap_servers})
    for number in range(RECORDS):
        producer.produce(topic, f"{number}".encode(), partition=number % 6)
    if producer.flush(30):
        raise RuntimeError(f"{topic} could not be filled")


def hold(address: str, group: str, topic: str, count: int, session_ms: int) -> None:
    """Says when it subscribes, `assigned`, and `holding` and when as soon as it has seen `count` records; commits
    nothing, and stays."""
    properties = {
        "bootstrap.servers": address,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": session_ms,
        "heartbeat.interval.ms": 500,
        "reconnect.backoff.max.ms": 200,
        "topic.metadata.refresh.fast.interval.ms": 100,
        "log_level": 0,
    }
    consumer = Consumer(properties)
    print(time.monotonic(), flush=True)
    consumer.subscribe([topic], on_assign=lambda *_: print("assigned", flush=True))
    seen: set[bytes | None] = set()
    told = False
    while True:
        message = consumer.poll(0.1)
        if message is not None and not message.error():
            seen.add(message.value())
        if len(seen) >= count and not told:
            told = True
            print(f"holding\n{time.monotonic()}", flush=True)


if __name__ == "__main__":
    hold(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
