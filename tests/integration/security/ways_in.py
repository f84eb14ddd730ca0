"""Clients of everything that leads to a cluster: pools of both engines, a relay, a union, dead letters, the journal."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer

from tests.integration.feeding import log_ends
from tests.integration.kafka import CLIENT_PROPERTIES, KafkaCluster
from tests.integration.mesh_process import KAFKA_MESH, MeshProcess
from tests.integration.processes import completed, eventually, free_port, free_ports

TOPICS = {"raw": "renewed-raw", "librdkafka": "renewed-librdkafka"}
LETTERS, JOURNAL, STORE = "renewed-letters", "renewed-journal", "renewed-store"


@dataclass(slots=True)
class Traffic:
    """Two records a second to each way in, each over a new connection, and readers of the pools. ways, pools: the
    bootstrap servers and the topic of each. sent: the values that were stored. read: how often each value was read."""

    ways: Mapping[str, tuple[str, str]]
    pools: Mapping[str, tuple[str, str]]
    sent: dict[str, list[str]] = field(default_factory=dict)
    read: dict[str, Counter[str]] = field(default_factory=dict)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def begin(self) -> None:
        for way, (servers, topic) in self.ways.items():
            self.sent[way] = []
            self._threads.append(threading.Thread(target=self._write, args=(way, servers, topic)))
        for pool, (servers, topic) in self.pools.items():
            self.read[pool] = Counter()
            self._threads.append(threading.Thread(target=self._read, args=(pool, servers, topic)))
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _write(self, way: str, servers: str, topic: str) -> None:
        number = 0
        while not self._stopping.is_set():
            value = f"{way} {number}"
            if _written(servers, topic, value):
                self.sent[way].append(value)
            number += 1
            self._stopping.wait(0.5)

    def _read(self, pool: str, servers: str, topic: str) -> None:
        properties = {"group.id": f"renewed-{pool}", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer = Consumer({**CLIENT_PROPERTIES, "bootstrap.servers": servers, **properties})
        consumer.subscribe([topic])
        while not self._stopping.is_set():
            messages = [each for each in consumer.consume(100, 0.2) if each.error() is None]
            self.read[pool].update((each.value() or b"").decode() for each in messages)
            if messages:
                try:
                    consumer.commit(asynchronous=False)
                except KafkaException:
                    continue  # its records come again
        consumer.close()


def _written(servers: str, topic: str, value: str) -> bool:
    told: list[bool] = []
    producer = Producer({**CLIENT_PROPERTIES, "bootstrap.servers": servers, "message.timeout.ms": 20_000})
    producer.produce(topic, value, on_delivery=lambda error, _: told.append(error is None))
    producer.flush(30)
    return told == [True]


def configuration(upstream: Mapping[str, object]) -> tuple[dict[str, Any], dict[str, str]]:
    """A mesh with a pool of each engine, a relay and a union; and the addresses of them. upstream: keys of the
    cluster."""
    ports = iter(free_ports(16))
    listen = {name: f"127.0.0.1:{next(ports)}" for name in ("raw", "librdkafka", "relay", "union")}
    clusters = [{"name": name, **upstream, "engine": name} for name in TOPICS]
    pools = [
        {
            "name": name,
            "listen": listen[name],
            "coordinator": f"127.0.0.1:{next(ports)}",
            "target": {
                "pool": {
                    "topics": [{"name": topic, "from": [{"cluster": name, "topic": topic}]}],
                    "groups": ["*"],
                    "start": "earliest",
                    "dead_letters": {"topic": LETTERS, "create": True},
                }
            },
        }
        for name, topic in TOPICS.items()
    ]

    def nodes() -> dict[str, object]:
        first = free_port()
        return {"ports": f"{first}-{first}", "ids": [1]}

    relay = {"name": "relay", "listen": listen["relay"], "nodes": nodes(), "target": {"relay": {"cluster": "raw"}}}
    router = {
        "name": "one",
        "type": "topics",
        "config": {"topics": [{"prefix": "", "route": "raw"}], "default": "raw"},
        "routes": [{"name": "raw", "id": 0, "target": {"cluster": "raw"}}],
    }
    first = free_port()
    union = {
        "name": "union",
        "listen": listen["union"],
        "nodes": {"ports": f"{first}-{first}", "ids": {"raw": [1]}},
        "target": {"router": "one"},
    }
    process = {
        "process_id": "mesh-1",
        "drain_grace": "3s",
        "metadata_refresh": "1s",
        "journal": {"cluster": "raw", "topic": JOURNAL, "create": True},
        "store": {"cluster": "raw", "topic": STORE, "create": True},
    }
    return {**process, "clusters": clusters, "routers": [router], "virtual_clusters": [*pools, relay, union]}, listen


def in_flight_at_leaves(mesh: MeshProcess) -> int:
    """The records that members of the traffic held, and had not committed, when their group left a cluster."""
    left = [each for each in mesh.log_entries() if each["event"] == "upstream cluster left"]
    return sum(each["in_flight"] for each in left if each["group"].startswith("renewed-"))


@dataclass(slots=True)
class Stuck:
    """Members that commit nothing, one of each pool, whose records an operator writes as dead letters."""

    cluster: KafkaCluster
    mesh: MeshProcess
    consumers: list[Consumer]
    buried: int = 0

    def bury(self) -> None:
        """Writes the next record of each pool; returns when both are stored."""
        for name, topic in TOPICS.items():
            place = f"{name}/{topic}-0@{self.buried}"
            eventually(f"{place} is buried", partial(self._is_buried, name, place))
        self.buried += 1
        written = len(TOPICS) * self.buried
        eventually("the letters are written", lambda: sum(log_ends(self.cluster, LETTERS).values()) >= written)

    def _is_buried(self, pool: str, place: str) -> bool:
        options = ["--group", "stuck", "--virtual-cluster", pool, "--partition", place]
        return completed([KAFKA_MESH, "bury", self.mesh.file, *options]).returncode == 0


@contextmanager
def stuck_members(cluster: KafkaCluster, mesh: MeshProcess, listen: Mapping[str, str]) -> Iterator[Stuck]:
    """A member of each pool that commits nothing. listen: the addresses of the pools."""
    properties = {"group.id": "stuck", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    found = Stuck(cluster, mesh, [])
    for name, topic in TOPICS.items():
        consumer = Consumer({**CLIENT_PROPERTIES, "bootstrap.servers": listen[name], **properties})
        consumer.subscribe([topic])
        found.consumers.append(consumer)
    stopping = threading.Event()

    def poll() -> None:
        while not stopping.is_set():
            for each in found.consumers:
                each.poll(0.1)

    polling = threading.Thread(target=poll)
    polling.start()
    try:
        yield found
    finally:
        stopping.set()
        polling.join()
        for each in found.consumers:
            each.close()


def problems(mesh: MeshProcess) -> list[object]:
    """The problems with clusters that are reported. Each ends some seconds after the broker is back."""
    return [each["problem"] for each in mesh.readiness()["degraded"] if "problem" in each]


def has_more(traffic: Traffic, way: str, before: int) -> bool:
    """Returns whether a way in took records since it had taken this many."""
    return len(traffic.sent[way]) > before + 1
