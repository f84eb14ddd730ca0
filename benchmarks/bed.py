"""What is measured on: a broker with filled topics, and the targets in front of it."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml
from confluent_kafka import Producer

from benchmarks.machine import prefer
from tests.integration.jars import kafka_jars
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import ChildProcess, eventually, free_port

Engine = Literal["raw", "librdkafka"]


@dataclass(frozen=True, slots=True)
class Topic:
    """records: how many it holds. size: bytes of a value. batch: bytes of a batch at most, 1 for a record each."""

    name: str
    records: int
    size: int
    codec: str = "none"
    partitions: int = 6
    batch: int = 16_384


TOPICS = {
    topic.name: topic
    for topic in (
        Topic("s100", 3_000_000, 100),
        Topic("s1k", 1_500_000, 1_000),
        Topic("lz4-100", 3_000_000, 100, "lz4"),
        Topic("zstd-1k", 1_000_000, 1_000, "zstd"),
        Topic("s100-60", 3_000_000, 100, partitions=60),
        Topic("tiny", 300_000, 100, batch=1),
    )
}


NEW = {"prefix": "new-", "cluster": "bench"}
"""Topics that cases make for themselves."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a client is pointed at. pids: of what stands in front of the broker, whose CPU is its price."""

    name: str
    bootstrap_servers: str
    pids: tuple[int, ...] = ()


class Bed:
    """scale: 1 for the real thing; smaller ones check that the benchmark works."""

    def __init__(self, folder: Path, scale: float = 1.0) -> None:
        self._folder = folder
        self._scale = scale
        self._children: list[ChildProcess] = []
        self._filled: set[str] = set()
        relayed, relay = free_port(), free_port()
        listeners = "PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}"
        self.broker = KafkaCluster(
            "bench",
            kafka_jars(),
            folder / "broker",
            {
                "listeners": f"{listeners},RELAYED://127.0.0.1:{relayed}",
                "advertised.listeners": "PLAINTEXT://127.0.0.1:{port},RELAYED://127.0.0.1:" + str(relay),
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,RELAYED:PLAINTEXT",
                "group.share.record.lock.duration.ms": "30000",
            },
        )
        prefer(self.broker.pid)
        prefer(os.getpid())  # and with it the clients, which would starve beside what they are clients of
        self.direct = Target("direct", self.broker.bootstrap_servers)
        child = self._start("relay", [sys.executable, "-m", "benchmarks.relay", str(relay), str(relayed)])
        self.relay = Target("relay", f"127.0.0.1:{relay}", (child.pid,))

    def records(self, topic: Topic) -> int:
        return max(int(topic.records * self._scale), 1_000)

    def fill(self, topic: Topic) -> None:
        """Make a topic and its records, once. Compressible ones are text."""
        if topic.name in self._filled:
            return
        self._filled.add(topic.name)
        self.broker.create_topic(topic.name, topic.partitions)
        generator = random.Random(1)
        values = [_value(generator, topic, number) for number in range(1_000)]
        producer = Producer(
            {
                "bootstrap.servers": self.broker.bootstrap_servers,
                "compression.codec": topic.codec,
                "batch.size": max(topic.batch, 200),
                "batch.num.messages": 1 if topic.batch == 1 else 10_000,
                "linger.ms": 100,
                "queue.buffering.max.messages": 2_000_000,
                "queue.buffering.max.kbytes": 1_000_000,
            }
        )
        for number in range(self.records(topic)):
            while True:
                try:
                    producer.produce(topic.name, values[number % 1_000], partition=number // 160 % topic.partitions)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(120) == 0, f"{topic.name} could not be filled"

    @contextmanager
    def mesh(self, engine: Engine, **pool: object) -> Iterator[Target]:
        """kafka-mesh with everything on that a user has on."""
        port, coordinator, admin = free_port(), free_port(), free_port()
        topics = [{"name": name, "from": [{"cluster": "bench", "topic": name}]} for name in TOPICS]
        configuration = {
            "admin": {"listen": f"127.0.0.1:{admin}"},
            "clusters": [
                {"name": "bench", "bootstrap_servers": self.broker.bootstrap_servers, "engine": engine},
            ],
            "virtual_clusters": [
                {
                    "name": "bench",
                    "listen": f"127.0.0.1:{port}",
                    "coordinator": f"127.0.0.1:{coordinator}",
                    "target": {"pool": {"topics": [*topics, NEW], "groups": ["*"], "max_pools": 1_000, **pool}},
                }
            ],
        }
        file = self._folder / f"mesh-{port}.yaml"
        file.write_text(yaml.safe_dump(configuration))
        child = self._start(f"mesh-{port}", [Path(sys.executable).with_name("kafka-mesh"), "run", file])
        eventually("the mesh serves", lambda: "clients are served" in child.log_tail(), timeout=60)
        prefer(child.pid)
        try:
            yield Target(f"mesh, {engine}", f"127.0.0.1:{port}", (child.pid,))
        finally:
            child.kill()

    def new_topic(self, partitions: int = 6) -> str:
        """An empty one, which the mesh offers too."""
        name = f"new-{len(self._filled)}"
        self._filled.add(name)
        self.broker.create_topic(name, partitions)
        return name

    def close(self) -> None:
        for child in self._children:
            child.kill()
        self.broker.kill()

    def _start(self, name: str, command: list[str | Path]) -> ChildProcess:
        child = ChildProcess(command, log=self._folder / f"{name}.log")
        self._children.append(child)
        prefer(child.pid)
        return child


def _value(generator: random.Random, topic: Topic, number: int) -> bytes:
    if topic.codec == "none":
        return generator.randbytes(topic.size)
    text = json.dumps(
        {"order": number, "item": generator.choice(["anchor", "compass", "rope"]), "note": "x" * topic.size}
    )
    return text[: topic.size].encode()
