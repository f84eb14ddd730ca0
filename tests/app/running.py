"""A separate mesh process on librdkafka's mock clusters, whose configuration changes while it runs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.processes import START, ChildProcess, completed, eventually, free_port
from tests.mock_cluster import EmbeddedCluster

COMMAND = [str(Path(sys.executable).with_name("kafka-mesh"))]
TOPIC = "orders"
GROUP = "billing"
WAIT = 120.0


class MockCluster:
    """One broker inside of this process. Its topic has four partitions."""

    def __init__(self) -> None:
        self._cluster = EmbeddedCluster()
        self.address = self._cluster.bootstrap_servers
        self._producer = Producer({"bootstrap.servers": self.address, "log_level": 0})
        self._producer.list_topics(TOPIC, timeout=30)

    def produce(self, values: Iterable[str]) -> set[str]:
        made = set(values)
        for value in sorted(made):
            self._producer.produce(TOPIC, value)
        assert self._producer.flush(WAIT) == 0
        return made

    def committed(self) -> int:
        """How many records the group has committed."""
        asking = Consumer({"bootstrap.servers": self.address, "group.id": GROUP, "log_level": 0})
        found = asking.committed([TopicPartition(TOPIC, index) for index in range(4)], timeout=WAIT)
        asking.close()
        return sum(max(each.offset, 0) for each in found)


class Member:
    """A consumer that commits the records that it has shown. problems: reported problems of connections, and
    rebalances."""

    def __init__(self, address: str, group: str = GROUP, **properties: object) -> None:
        self.values: list[str] = []
        self.upstream_health: list[str] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "reconnect.backoff.max.ms": 500,
                "error_cb": lambda error: self.upstream_health.append(str(error)),
                "log_level": 0,
                **properties,
            }
        )
        self._consumer.subscribe([TOPIC], on_revoke=self._revoked, on_lost=self._revoked)

    def _revoked(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self.upstream_health.append("revoked")

    def until(self, expected: Iterable[str]) -> None:
        """Polls until all of these were shown, each once; all shown records are committed."""
        wanted, deadline = set(expected), time.monotonic() + WAIT
        while not wanted <= set(self.values):
            assert time.monotonic() < deadline, (sorted(wanted - set(self.values))[:5], self.upstream_health)
            self.poll(0.2)

    def poll(self, seconds: float) -> None:
        messages: list[Message] = self._consumer.consume(100, seconds)
        for message in messages:
            if message.error() is None:
                self.values.append((message.value() or b"").decode())
        if messages:
            self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


class RunningMesh:
    """A running mesh. Change `configuration`, and `reload` uses it."""

    def __init__(
        self, folder: Path, clusters: dict[str, MockCluster], configuration: dict[str, Any] | None = None
    ) -> None:
        """configuration: another configuration than that of one pool, without the admin address and clusters."""
        self._admin = free_port()
        self.file = folder / "mesh.yaml"
        self.configuration: dict[str, Any] = {
            "process_id": "mesh-1",
            "admin": {"listen": f"127.0.0.1:{self._admin}"},
            "clusters": [cluster_of(name, each) for name, each in clusters.items()],
            **(configuration or {"virtual_clusters": [virtual_cluster("shop", list(clusters))]}),
        }
        self.write()
        self._process = ChildProcess([*COMMAND, "run", self.file], log=folder / "mesh.log")
        eventually("/readyz", self._is_ready, timeout=START)

    @property
    def shop(self) -> dict[str, Any]:
        """The first virtual cluster of the configuration."""
        found: dict[str, Any] = self.configuration["virtual_clusters"][0]
        return found

    def write(self) -> None:
        self.file.write_text(yaml.safe_dump(self.configuration, sort_keys=False))

    def reload(self) -> list[str]:
        """The command's list of changes."""
        self.write()
        done = self.command()
        assert done.returncode == 0, done.stderr + self._process.log_tail()
        first, *changes = done.stdout.splitlines()
        assert first.startswith(f"{self.file} applied, hash ")
        return [change.strip() for change in changes]

    def command(self, *options: str) -> subprocess.CompletedProcess[str]:
        return completed([*COMMAND, "reload", *(options or (str(self.file),))], timeout=180)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._admin}"

    @property
    def process(self) -> ChildProcess:
        return self._process

    def configured(self) -> dict[str, Any]:
        """The part of /status about the configuration."""
        found: dict[str, Any] = json.loads(self._get("/status"))["configuration"]
        return found

    def virtual_cluster(self) -> dict[str, Any]:
        """The part of /status about the first virtual cluster."""
        found: dict[str, Any] = json.loads(self._get("/status"))["virtual_clusters"][0]
        return found

    def metric(self, name: str, **labels: str) -> float:
        families = text_string_to_metric_families(self._get("/metrics"))
        samples = (sample for family in families for sample in family.samples if sample.name == name)
        return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())

    def _is_ready(self) -> bool:
        assert self._process.exit_code is None, self._process.log_tail()
        try:
            return bool(self._get("/readyz"))
        except OSError:
            return False

    def _get(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=30) as response:
            body: bytes = response.read()
            return body.decode()


def cluster_of(name: str, cluster: MockCluster) -> dict[str, Any]:
    return {"name": name, "bootstrap_servers": cluster.address}


def virtual_cluster(name: str, clusters: Iterable[str], **keys: object) -> dict[str, Any]:
    topic = {"name": TOPIC, "from": [{"cluster": each, "topic": TOPIC} for each in clusters]}
    pool = {"topics": [topic], "groups": [GROUP], "upstream_group_prefix": "" if name == "shop" else f"{name}."}
    addresses = {key: f"127.0.0.1:{free_port()}" for key in ("listen", "coordinator")}
    return {"name": name, **addresses, **keys, "target": {"pool": pool}}
