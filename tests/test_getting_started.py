"""docs/getting-started.md from top to bottom, with two embedded clusters in place of the newcomer's own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, Producer

from mesh.demo.processes.children import Child, Children
from mesh.demo.processes.endpoint import MeshEndpoint
from tests.documents import blocks

TOPIC = "orders"
RECORDS = 20
PATIENCE = 90.0


def until(what: str, probe: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not probe():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def configuration(endpoint: MeshEndpoint, eu: str, us: str) -> str:
    """The configuration of the page, with these clusters and free ports."""
    (text,) = (block.text for block in blocks("docs/getting-started.md") if block.language == "yaml")
    places = {
        "kafka-1.eu.example:9092,kafka-2.eu.example:9092": eu,
        "kafka-1.us.example:9092": us,
        "listen: 127.0.0.1:19092": "\n    ".join(
            (f"listen: {endpoint.bootstrap_servers}", f"coordinator: 127.0.0.1:{endpoint.coordinator}")
        ),
        "127.0.0.1:9644": f"127.0.0.1:{endpoint.admin}",
    }
    for shown, here in places.items():
        assert shown in text
        text = text.replace(shown, here)
    return text


def clusters(children: Children, folder: Path) -> tuple[str, str]:
    """The addresses of the clusters; each has half of the records."""
    files = [folder / f"{name}.address" for name in ("eu", "us")]
    for file in files:
        children.start(file.stem, "mesh.demo.processes.clusters", TOPIC, file)
    until("the clusters listen", lambda: all(file.exists() for file in files))
    eu, us = (file.read_text() for file in files)
    for name, address in (("eu", eu), ("us", us)):
        producer = Producer({"bootstrap.servers": address})
        for number in range(RECORDS // 2):
            producer.produce(TOPIC, f"{name}-{number}".encode())
        assert producer.flush(PATIENCE) == 0
    return eu, us


def kafka_mesh(*arguments: str | Path) -> str:
    done = subprocess.run([sys.executable, "-m", "mesh.cli", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def is_ready(endpoint: MeshEndpoint) -> bool:
    try:
        with urllib.request.urlopen(f"{endpoint.admin_url}/readyz", timeout=5) as answer:
            return bool(json.load(answer)["ready"])
    except OSError:
        return False


def consumed(address: str) -> tuple[Consumer, set[bytes]]:
    """All records, read by the page's consumer, which is still a member."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "first-try"})
    consumer.subscribe([TOPIC])
    values: set[bytes] = set()

    def has_all() -> bool:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            values.add(message.value() or b"")
        return len(values) >= RECORDS

    until("all records come", has_all)
    return consumer, values


def test_the_page_from_top_to_bottom(tmp_path: Path) -> None:
    endpoint = MeshEndpoint.on_free_ports()
    with Children(tmp_path) as children:
        file = tmp_path / "mesh.yaml"
        file.write_text(configuration(endpoint, *clusters(children, tmp_path)))
        assert f"listen: {endpoint.bootstrap_servers}" in kafka_mesh("check", file)
        mesh: Child = children.start("mesh", "mesh.cli", "run", file)
        until("the mesh is ready", lambda: is_ready(endpoint))
        consumer, values = consumed(endpoint.bootstrap_servers)
        assert values == {f"{name}-{number}".encode() for name in ("eu", "us") for number in range(RECORDS // 2)}
        assert "orders / first-try: Stable" in kafka_mesh("status", file)
        consumer.close()
        children.stop(mesh)
