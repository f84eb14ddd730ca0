"""A router that answers each request behind another one, with interceptors on the routes of both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.app.running import COMMAND, TOPIC, MockCluster, RunningMesh
from tests.integration.processes import completed, eventually, free_port, free_ports
from tests.router.pass_through import install_pass_through

pytestmark = pytest.mark.timeout(600)

NODES = 2
US = 32
"""The leaf of us: route 0 of the router in front, route 1 of the one behind it."""


def stamp(name: str) -> dict[str, Any]:
    config = {"headers": {name: "{topic}"}}
    return {"name": name, "type": "stamp", "topics": ["*"], "on": ["produce"], "config": config}


def routers(address: str, ports: range) -> dict[str, Any]:
    """All requests go to us."""
    leaves = {f"further/{name}": [f"0-{NODES - 1}"] for name in ("eu", "us")}
    behind = [{"name": name, "id": id, "target": {"cluster": name}} for id, name in enumerate(("eu", "us"))]
    behind[1]["interceptors"] = ["to-us"]
    further = {"name": "further", "id": 0, "target": {"router": "behind"}, "interceptors": ["to-further"]}
    return {
        "interceptors": [*map(stamp, ("front", "to-further", "to-us"))],
        "routers": [
            {"name": "outer", "type": "pass-through", "config": {"route": "further"}, "routes": [further]},
            {"name": "behind", "type": "pass-through", "config": {"route": "us"}, "routes": behind},
        ],
        "virtual_clusters": [
            {
                "name": "front",
                "listen": address,
                "nodes": {"ports": f"{ports[0]}-{ports[-1]}", "ids": leaves},
                "interceptors": ["front"],
                "target": {"router": "outer"},
            }
        ],
    }


def test_records_pass_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_pass_through(tmp_path, monkeypatch)
    address, clusters = f"127.0.0.1:{free_port()}", {"eu": MockCluster(), "us": MockCluster()}
    mesh = RunningMesh(tmp_path, clusters, routers(address, free_ports(2 * NODES)))
    try:
        asked = AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(timeout=60)
        assert set(asked.brokers) == {US << 20 | 1}
        producer = Producer({"bootstrap.servers": address, "log_level": 0})
        for number in range(20):
            producer.produce(TOPIC, b"%d" % number, partition=0)
        assert producer.flush(60) == 0
        found = read(address, 20)
        assert [value for value, _ in found] == [b"%d" % number for number in range(20)]
        assert {tuple(names) for _, names in found} == {("front", "to-further", "to-us")}, "each of them once"
        assert len(read(clusters["us"].address, 20)) == 20
        paths = [leaf["path"] for leaf in mesh.virtual_cluster()["router"]["leaves"]]
        assert paths == ["further/eu", "further/us"]
        done = completed([*COMMAND, "check", "--apis", str(mesh.file)])
        assert done.returncode == 0, done.stderr
    finally:
        mesh.process.kill()


def read(address: str, count: int) -> list[tuple[bytes, list[str]]]:
    """The first records of the topic's first partition, with the names of their headers."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "reader", "log_level": 0})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[tuple[bytes, list[str]]] = []

    def is_whole() -> bool:
        for message in consumer.consume(count, 0.5):
            if message.error() is None:
                names = [each[0] for each in message.headers() or ()]
                found.append((message.value() or b"", names))
        return len(found) >= count

    eventually(f"{count} records", is_whole)
    consumer.close()
    return found
