"""The mesh of the demo, from outside: its configuration, its readiness, and its metrics."""

from __future__ import annotations

import itertools
import json
import random
import socket
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from mesh.demo.processes.snapshot import MeshSnapshot, snapshot_of

_TIMEOUT = 2.0
_IN_FLIGHT = "kafka_mesh_in_flight_records"
_REDELIVERED = "kafka_mesh_redelivered_records_total"


@dataclass(frozen=True, slots=True)
class Readings:
    """Figures of one group from the mesh: records that its members hold uncommitted, and redelivered records."""

    in_flight: int
    redelivered: int


@dataclass(frozen=True, slots=True)
class MeshEndpoint:
    """The addresses of a mesh on loopback."""

    port: int
    coordinator: int
    admin: int

    @classmethod
    def on_free_ports(cls) -> MeshEndpoint:
        """Returns an endpoint on ports that are free now."""
        return cls(*_free_ports(3))

    @property
    def bootstrap_servers(self) -> str:
        """The address for consumers."""
        return f"127.0.0.1:{self.port}"

    @property
    def metrics(self) -> str:
        """The URL of the metrics."""
        return f"{self.admin_url}/metrics"

    @property
    def admin_url(self) -> str:
        """The admin address."""
        return f"http://127.0.0.1:{self.admin}"

    def configuration(self, topic: str, clusters: Mapping[str, str], journal: str | None = None) -> str:
        """Returns the file for `kafka-mesh run`: one topic, fed by the topics of the same name on all clusters.

        clusters: bootstrap servers by name. journal: the topic for a delivery journal on the first cluster.
        """
        document: dict[str, Any] = {
            "admin": {"listen": f"127.0.0.1:{self.admin}"},
            "clusters": [{"name": name, "bootstrap_servers": address} for name, address in clusters.items()],
            "virtual_clusters": [
                {
                    "name": "demo",
                    "listen": self.bootstrap_servers,
                    "coordinator": f"127.0.0.1:{self.coordinator}",
                    "target": {
                        "pool": {
                            "topics": [
                                {"name": topic, "from": [{"cluster": name, "topic": topic} for name in clusters]}
                            ],
                            "groups": ["*"],
                            # Small first windows, so that the end does not wait long for a slow consumer.
                            "fairness": {"initial_window": 100},
                        }
                    },
                }
            ],
        }
        if journal is not None:
            document["journal"] = {"cluster": next(iter(clusters)), "topic": journal, "interval": "500ms"}
        return yaml.safe_dump(document, sort_keys=False)

    def is_ready(self) -> bool:
        """Returns whether the mesh serves clients."""
        try:
            return bool(_get(f"http://127.0.0.1:{self.admin}/readyz"))
        except OSError:
            return False

    def snapshot(self) -> MeshSnapshot | None:
        """Returns a snapshot of the mesh; None when it does not answer in time."""
        try:
            status, metrics = _get(f"{self.admin_url}/status"), _get(self.metrics)
        except OSError:
            return None
        return snapshot_of(time.monotonic(), json.loads(status), metrics)

    def lag(self, group: str, topic: str) -> int | None:
        """Returns the records of a topic that a group has not acknowledged; None when the mesh does not answer in
        time."""
        body = {"virtual_cluster": "demo", "group": group, "topics": [topic]}
        request = urllib.request.Request(
            f"{self.admin_url}/leases/backlog", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        try:
            backlog = json.loads(_get(request))
        except OSError:
            return None
        return sum(each["lag"] for each in backlog["partitions"]) if backlog["partitions"] else None

    def readings(self, group: str) -> Readings | None:
        """Returns the metrics of a group; None when the mesh does not answer in time."""
        try:
            text = _get(self.metrics)
        except OSError:
            return None
        totals = dict.fromkeys((_IN_FLIGHT, _REDELIVERED), 0.0)
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name in totals and sample.labels["group"] == group:
                    totals[sample.name] += sample.value
        return Readings(int(totals[_IN_FLIGHT]), int(totals[_REDELIVERED]))


def _get(url: str | urllib.request.Request) -> str:
    with urllib.request.urlopen(url, timeout=_TIMEOUT) as response:
        body: bytes = response.read()
        return body.decode()


def _free_ports(count: int) -> Iterator[int]:
    # Below the range of ports for outgoing connections: these stay free until they are used.
    candidates = random.sample(range(20_000, 32_000), k=12_000)
    return itertools.islice(filter(_is_free, candidates), count)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
