"""The bed of a benchmark: a broker with filled topics, and the targets in front of it."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml
from confluent_kafka import KafkaException

from benchmarks.filling import SMALL, Topic, fill
from benchmarks.machine import children_of, prefer
from benchmarks.peers import kroxylicious_command, relay_command
from tests.integration.jars import kafka_jars
from tests.integration.kafka import CLIENT_PROPERTIES, KafkaCluster
from tests.integration.processes import ChildProcess, eventually, free_port, free_ports

Engine = Literal["raw", "librdkafka"]
KAFKA_MESH = Path(sys.executable).with_name("kafka-mesh")


TOPICS = {
    topic.name: topic
    for topic in (
        Topic("s100", 3_000_000, 100),
        Topic("s1k", 1_500_000, 1_000),
        Topic("s100k", 12_000, 100_000),
        Topic("lz4-100", 3_000_000, 100, "lz4"),
        Topic("lz4-1k", 1_500_000, 1_000, "lz4"),
        Topic("zstd-100", 3_000_000, 100, "zstd"),
        Topic("zstd-1k", 1_500_000, 1_000, "zstd"),
        Topic("s100-60", 3_000_000, 100, partitions=60),
        Topic("s1k-60", 1_500_000, 1_000, partitions=60),
        Topic("tiny", 300_000, 100, batch=1),
        Topic("small", 180_000, 100, batch=SMALL),
        Topic("transactions", 180_000, 100, kind="transactions"),
        Topic("compacted", 1_000_000, 100, kind="compacted"),
    )
}
LONG = Topic("long-60", 9_000_000, 1_000, partitions=60)
"""More records than several consumers read in seconds. They must fit into the page cache."""
LARGE, LARGE_RECORDS = 50_000, 600
"""The size of large values, and the smaller number of them that suffices."""
WORKERS = 2
"""Processes of interceptors."""
NEW = {"prefix": "new-", "cluster": "bench"}
"""Topics that cases create for themselves."""


@dataclass(frozen=True, slots=True)
class Target:
    """An address for clients. pids: the processes in front of the broker, whose CPU is the target's cost."""

    name: str
    bootstrap_servers: str
    pids: tuple[int, ...] = ()


class Bed:
    """A broker with filled topics, and the targets in front of it. scale: 1 for a full run; smaller ones only check the
    benchmark. beside: the program `kafka-mesh` of another version, which takes turns with this one."""

    def __init__(self, folder: Path, scale: float = 1.0, beside: Path | None = None) -> None:
        self.folder = folder
        self._beside = beside
        self.scale = scale
        self._children: list[ChildProcess] = []
        self._filled: dict[str, int] = {}
        self._numbers = itertools.count(1)
        self._kroxylicious: Target | None = None
        self.further: dict[str, Bed] = {}
        """Further beds, by their difference; they are closed with this one."""
        prefer(os.getpid())  # and with it the clients, which run in this session
        self._begin()

    def _begin(self) -> None:
        """The broker, and the relay in front of it."""
        folder = self.folder
        relayed, relay, twin_relayed, twin = (free_port() for _ in range(4))
        listeners = "PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}"
        self.broker: KafkaCluster = KafkaCluster(
            "bench",
            kafka_jars(),
            folder / "broker",
            {
                "listeners": f"{listeners},RELAYED://127.0.0.1:{relayed},TWIN://127.0.0.1:{twin_relayed}",
                "advertised.listeners": "PLAINTEXT://127.0.0.1:{port}"
                f",RELAYED://127.0.0.1:{relay},TWIN://127.0.0.1:{twin}",
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"
                ",RELAYED:PLAINTEXT,TWIN:PLAINTEXT",
                "inter.broker.listener.name": "PLAINTEXT",
                # A share group's consumer learns its partitions from its second heartbeat: after 5 s by default.
                # Consumers that start together are in the first generation of their group together.
                "group.initial.rebalance.delay.ms": "400",
                "log.cleaner.backoff.ms": "1000",
                "group.share.min.heartbeat.interval.ms": "500",
                "group.share.heartbeat.interval.ms": "500",
            },
            is_measured=True,
        )
        prefer(self.broker.pid)
        self.direct = Target("direct", self.broker.bootstrap_servers, (self.broker.pid,))
        self.relay_kind, command = relay_command(relay, relayed)
        child = self._start("relay", command)
        self.relay = Target("relay", f"127.0.0.1:{relay}", (child.pid,))
        eventually("the relay listens", lambda: _listens(relay), timeout=20)
        self._twin = twin, twin_relayed

    def records(self, topic: Topic) -> int:
        """How many a consumer gets of a topic that was filled."""
        return self._filled.get(topic.name) or self._count(topic)

    def name(self) -> str:
        """A new name for a topic."""
        return f"new-{next(self._numbers)}"

    def group(self) -> str:
        """A new name for a group."""
        return f"bench-{next(self._numbers)}"

    def fill(self, topic: Topic) -> None:
        """Make a topic and its records, once."""
        if topic.name not in self._filled:
            self._filled[topic.name] = fill(self.broker, topic, self._count(topic))

    @contextmanager
    def meshes(self, engines: Sequence[Engine]) -> Iterator[list[Target]]:
        """One for each engine, and the other version."""
        with ExitStack() as stack:
            found = [stack.enter_context(self.mesh(engine)) for engine in engines]
            if self._beside is not None:
                found.append(stack.enter_context(self.mesh(engines[0], program=self._beside)))
            yield found

    @contextmanager
    def mesh(
        self, engine: Engine = "raw", journal: bool = False, program: Path | None = None, nodes: int = 1
    ) -> Iterator[Target]:
        """kafka-mesh with all usual features; it serves when this returns. journal: it keeps one, too. program: that of
        another version. nodes: the number of nodes that lead partitions."""
        port = free_port()
        child = self.start_mesh(engine, port, journal, program or KAFKA_MESH, nodes)
        more = f"{', journal' if journal else ''}{', beside' if program is not None else ''}"
        more += f", {nodes} nodes" if nodes > 1 else ""
        try:
            eventually("the mesh serves", lambda: "serving clients" in child.log_tail(), timeout=60)
            yield Target(f"mesh, {engine}{more}", f"127.0.0.1:{port}", (child.pid,))
        finally:
            child.kill()

    @contextmanager
    def relays(self) -> Iterator[list[Target]]:
        """A second TCP relay, by which two that are the same differ; and kafka-mesh with the target `relay`."""
        twin = self._start("twin", relay_command(*self._twin)[1])
        try:
            eventually("the twin listens", lambda: _listens(self._twin[0]), timeout=20)
            with self._relaying("mesh, relay", {"relay": {"cluster": "bench"}}) as mesh:
                yield [Target("relay, twin", f"127.0.0.1:{self._twin[0]}", (twin.pid,)), mesh]
        finally:
            twin.kill()

    @contextmanager
    def union(self) -> Iterator[list[Target]]:
        """kafka-mesh as a relay, and as a union that renames nothing, of this cluster and an empty one."""
        other = KafkaCluster("other", kafka_jars(), self.folder / "other")
        routes = [{"name": name, "id": id, "target": {"cluster": name}} for id, name in enumerate(("bench", "other"))]
        rules = [{"pattern": "other-*", "route": "other"}, {"prefix": "", "route": "bench"}]
        router: dict[str, object] = {
            "name": "both",
            "type": "topics",
            "config": {"topics": rules, "default": "bench"},
            "routes": routes,
        }
        try:
            with (
                self._relaying("mesh, relay", {"relay": {"cluster": "bench"}}) as relay,
                self._relaying("mesh, union", {"router": "both"}, router, other.bootstrap_servers) as union,
            ):
                yield [relay, union]
        finally:
            other.kill()

    @contextmanager
    def intercepting(self) -> Iterator[list[Target]]:
        """kafka-mesh as a relay: without interceptors, with one of another topic, and with each kind, inline and in
        workers. Nothing is dropped: the consumer counts."""
        all_topics: dict[str, object] = {"topics": ["*"], "on": ["fetch"]}
        by = {"by": "{virtual_cluster}"}
        keep: dict[str, object] = {"name": "keep", "type": "drop_headers", "config": {"names": ["none"]}, **all_topics}
        change: dict[str, object] = {"name": "map", "type": "stamp", "config": {"headers": by}, **all_topics}
        choose: dict[str, object] = {
            "name": "filter",
            "type": "filter",
            "config": {"header": "by", "pattern": "*"},
            **all_topics,
        }
        process = {"isolation": "process"}
        kinds: dict[str, list[dict[str, object]]] = {
            "mesh, relay": [],
            "another topic": [{**change, "topics": ["none"]}],
            "unchanged, inline": [keep],
            "MAP, inline": [change],
            "MAP and FILTER, inline": [choose, change],
            "unchanged, workers": [{**keep, **process}],
            "MAP, workers": [{**change, **process}],
        }
        with ExitStack() as stack:
            relay: dict[str, object] = {"relay": {"cluster": "bench"}}
            yield [stack.enter_context(self._relaying(name, relay, interceptors=each)) for name, each in kinds.items()]

    @contextmanager
    def _relaying(
        self,
        name: str,
        target: dict[str, object],
        router: dict[str, object] | None = None,
        other: str = "",
        interceptors: Sequence[dict[str, object]] = (),
        shown: object = None,
    ) -> Iterator[Target]:
        """kafka-mesh with true offsets; it serves when this returns. other: where the second cluster of `router` is.
        shown: the nodes that clients see; None: as many as there are here."""
        port, ports = free_port(), free_ports(2)
        ids: object = [1] if router is None else {"bench": [1], "other": [1]}
        nodes = {"ports": f"{ports[0]}-{ports[-1]}", "ids": ids}
        clusters = [{"name": "bench", "bootstrap_servers": self.broker.bootstrap_servers}]
        virtual_cluster = {
            "name": "bench",
            "listen": f"127.0.0.1:{port}",
            "nodes": shown or nodes,
            "interceptors": [each["name"] for each in interceptors],
            "target": target,
        }
        configuration: dict[str, object] = {
            "admin": {"listen": f"127.0.0.1:{free_port()}"},
            "clusters": clusters,
            "virtual_clusters": [virtual_cluster],
        }
        if router is not None:
            clusters.append({"name": "other", "bootstrap_servers": other})
            configuration["routers"] = [router]
        if interceptors:
            configuration["interceptors"] = list(interceptors)
        file = self.folder / f"relay-{port}.yaml"
        file.write_text(yaml.safe_dump(configuration))
        mesh = self._start(f"relay-{port}", [KAFKA_MESH, "run", file])
        try:
            eventually(f"{name} serves", lambda: "serving clients" in mesh.log_tail(), timeout=60)
            workers = WORKERS if any("isolation" in each for each in interceptors) else 0
            eventually("its workers", lambda: len(children_of(mesh.pid)) == workers, timeout=60)
            yield Target(name, f"127.0.0.1:{port}", (mesh.pid, *children_of(mesh.pid)))
        finally:
            mesh.kill()

    def start_mesh(
        self, engine: Engine, port: int, journal: bool = False, program: Path = KAFKA_MESH, nodes: int = 1
    ) -> ChildProcess:
        """A process that is about to serve on `port`."""
        topics = [{"name": name, "from": [{"cluster": "bench", "topic": name}]} for name in (*TOPICS, LONG.name)]
        share = {"auto_offset_reset": "earliest"}
        target = {"pool": {"topics": [*topics, NEW], "groups": ["*"], "max_pools": 1_000, "share": share}}
        cluster = {"name": "bench", "bootstrap_servers": self.broker.bootstrap_servers, "engine": engine}
        listener: dict[str, object] = {"listen": f"127.0.0.1:{port}", "coordinator": f"127.0.0.1:{free_port()}"}
        if nodes > 1:
            further = free_ports(nodes - 1)
            listener["nodes"] = {"ports": f"{further[0]}-{further[-1]}"}
        kept = {"journal": {"cluster": "bench", "topic": "kafka-mesh.journal", "create": True}} if journal else {}
        configuration = {
            **kept,
            "admin": {"listen": f"127.0.0.1:{free_port()}"},
            "clusters": [cluster],
            "virtual_clusters": [{"name": "bench", **listener, "target": target}],
        }
        file = self.folder / f"mesh-{port}.yaml"
        file.write_text(yaml.safe_dump(configuration))
        return self._start(f"mesh-{port}", [program, "run", file])

    def kroxylicious(self) -> Target:
        """Started when it is first asked for; RuntimeError when it cannot be had."""
        if self._kroxylicious is None:
            port = free_port()
            command = kroxylicious_command(self.folder, port, self.broker.bootstrap_servers)
            child = self._start("kroxylicious", command)
            eventually("Kroxylicious serves", lambda: "started" in child.log_tail(), timeout=60)
            self._kroxylicious = Target("kroxylicious", f"127.0.0.1:{port}", (child.pid,))
        return self._kroxylicious

    def new_topic(self, *targets: Target, partitions: int = 6) -> str:
        """An empty topic that every target offers when this returns: the mesh refreshes its topics on request."""
        name = self.name()
        self.broker.create_topic(name, partitions)
        for target in targets:
            eventually(f"{target.name} offers {name}", lambda target=target: _offers(target, name, partitions))  # type: ignore[misc]
        return name

    def close(self) -> None:
        for bed in self.further.values():
            bed.close()
        for child in self._children:
            child.kill()
        self.broker.kill()
        shutil.rmtree(self.folder / "broker", ignore_errors=True)

    def _count(self, topic: Topic) -> int:
        """How many are produced to it."""
        least = 2_000 * topic.partitions if topic.size < LARGE else LARGE_RECORDS
        return max(int(topic.records * self.scale), least)

    def _start(self, name: str, command: list[str | Path]) -> ChildProcess:
        child = ChildProcess(command, log=self.folder / f"{name}.log")
        self._children.append(child)
        prefer(child.pid)
        return child


def _offers(target: Target, topic: str, partitions: int) -> bool:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({**CLIENT_PROPERTIES, "bootstrap.servers": target.bootstrap_servers})
    try:
        found = admin.list_topics(topic, timeout=5).topics[topic]
    except KafkaException:
        return False
    return found.error is None and len(found.partitions) == partitions


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
