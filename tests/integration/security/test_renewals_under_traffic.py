"""Certificates towards a cluster that live 90 seconds, and are renewed three times while everything is in use."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from tests.integration.feeding import log_ends
from tests.integration.kafka import CLIENT_PROPERTIES
from tests.integration.mesh_process import KAFKA_MESH, MeshProcess
from tests.integration.processes import completed, eventually, free_port, free_ports
from tests.integration.security.certificates import Authority, Pair
from tests.integration.security.guarded import Guarded

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
LIFE = timedelta(seconds=90)
RENEWALS, EVERY, KEY_LATER = 3, 45.0, 3.0
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


def configuration(guarded: Guarded, pair: Pair) -> tuple[dict[str, Any], dict[str, str]]:
    """A mesh with a pool of each engine, a relay and a union; and the addresses of them."""
    ports = iter(free_ports(16))
    listen = {name: f"127.0.0.1:{next(ports)}" for name in ("raw", "librdkafka", "relay", "union")}
    upstream = guarded.upstream(pair)
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


def renew(authority: Authority, pair: Pair, life: timedelta = LIFE) -> None:
    """Replaces the certificate, and its key some seconds later."""
    key = pair.key.read_bytes()
    authority.issue("mesh", life=life)
    new = pair.key.read_bytes()
    pair.key.write_bytes(key)
    time.sleep(KEY_LATER)
    pair.key.write_bytes(new)


@pytest.fixture
def mesh(guarded: Guarded, tmp_path: Path) -> Iterator[tuple[MeshProcess, Pair, dict[str, str]]]:
    pair = guarded.authority.issue("mesh", life=LIFE)
    for topic in TOPICS.values():
        guarded.cluster.create_topic(topic, 2)
    whole, listen = configuration(guarded, pair)
    running = MeshProcess(tmp_path, "renewed", whole)
    yield running, pair, listen
    running.kill()


def renewals(mesh: MeshProcess, cluster: str) -> int:
    """How often all groups have joined this cluster again."""
    entries = mesh.log_entries()
    found = [each for each in entries if each["event"] == "upstream groups use changed files"]
    return len([each for each in found if each["cluster"] == cluster])


def in_flight_at_leaves(mesh: MeshProcess) -> int:
    """The records that members of the traffic held, and had not committed, when their group left a cluster."""
    left = [each for each in mesh.log_entries() if each["event"] == "upstream cluster left"]
    return sum(each["in_flight"] for each in left if each["group"].startswith("renewed-"))


@dataclass(slots=True)
class Stuck:
    """Members that commit nothing, one of each pool, whose records an operator writes as dead letters."""

    guarded: Guarded
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
        eventually("the letters are written", lambda: sum(log_ends(self.guarded.cluster, LETTERS).values()) >= written)

    def _is_buried(self, pool: str, place: str) -> bool:
        options = ["--group", "stuck", "--virtual-cluster", pool, "--partition", place]
        return completed([KAFKA_MESH, "bury", self.mesh.file, *options]).returncode == 0


@pytest.fixture
def stuck(guarded: Guarded, mesh: tuple[MeshProcess, Pair, dict[str, str]]) -> Iterator[Stuck]:
    running, _, listen = mesh
    properties = {"group.id": "stuck", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    found = Stuck(guarded, running, [])
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
    yield found
    stopping.set()
    polling.join()
    for each in found.consumers:
        each.close()


def test_nothing_stands_while_certificates_are_renewed(
    guarded: Guarded, mesh: tuple[MeshProcess, Pair, dict[str, str]], stuck: Stuck
) -> None:
    """Neither a pool of each engine, nor a relay, a union, dead letters or the journal. Only records that were not
    committed when a group joined again come twice."""
    running, pair, listen = mesh
    traffic = Traffic(
        {"relay": (listen["relay"], TOPICS["raw"]), "union": (listen["union"], TOPICS["librdkafka"])},
        {name: (listen[name], topic) for name, topic in TOPICS.items()},
    )
    traffic.begin()
    try:
        eventually("records come", lambda: all(traffic.read.values()), timeout=60)
        stuck.bury()
        began = time.monotonic()
        for number in range(1, RENEWALS + 1):
            time.sleep(max(0.0, began + (number - 0.5) * EVERY - time.monotonic()))
            renew(guarded.authority, pair, LIFE if number < RENEWALS else timedelta(days=1))
            for cluster in TOPICS:
                eventually(
                    f"groups join again, {number}",
                    lambda cluster=cluster, number=number: renewals(running, cluster) >= number,  # type: ignore[misc]
                    timeout=60,
                )
        time.sleep(max(0.0, began + RENEWALS * EVERY + LIFE.total_seconds() / 2 - time.monotonic()))
        guarded.cluster.stop()  # no connection from before is left
        guarded.cluster.restart()
        at = {way: len(sent) for way, sent in traffic.sent.items()}
        pages = sum(log_ends(guarded.cluster, JOURNAL).values())
        for way in traffic.ways:
            eventually(f"{way} goes on", partial(_has_more, traffic, way, at[way]), timeout=60)
        stuck.bury()
        eventually("the journal goes on", lambda: sum(log_ends(guarded.cluster, JOURNAL).values()) > pages, timeout=60)
        for pool, way in (("raw", "relay"), ("librdkafka", "union")):
            value = traffic.sent[way][-1]
            eventually(f"{pool} reads on", lambda pool=pool, value=value: value in traffic.read[pool], timeout=60)  # type: ignore[misc]
    finally:
        traffic.end()
    for pool, way in (("raw", "relay"), ("librdkafka", "union")):
        lost = set(traffic.sent[way][:-2]) - traffic.read[pool].keys()
        assert not lost
    again = sum(count - 1 for read in traffic.read.values() for count in read.values())
    assert again <= in_flight_at_leaves(running)
    eventually("no problem is left", lambda: problems(running) == [], timeout=60)


def problems(mesh: MeshProcess) -> list[object]:
    """The problems with clusters that are reported. Each ends some seconds after the broker is back."""
    return [each["problem"] for each in mesh.readiness()["degraded"] if "problem" in each]


def _has_more(traffic: Traffic, way: str, before: int) -> bool:
    return len(traffic.sent[way]) > before + 1
