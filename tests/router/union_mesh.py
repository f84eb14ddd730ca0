"""kafka-mesh with a union of two clusters, as its users run it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import MeshProcess
from tests.integration.processes import free_port, free_ports

NODES = 3
"""Nodes of each cluster that may be there, from 0 on."""
STRIPPED: Mapping[str, Any] = {
    "topics": [{"prefix": "us.", "route": "us", "strip": True}, {"prefix": "", "route": "eu"}],
    "groups": [{"pattern": "us.*", "route": "us"}],
    "transactional_ids": [{"pattern": "us.*", "route": "us"}],
    "default": "eu",
}
"""What begins with `us.` is us's, and topics are called without it there."""


class UnionMesh(MeshProcess):
    """`kafka-mesh run` with one virtual cluster, a union."""

    def __init__(
        self,
        folder: Path,
        eu: KafkaCluster,
        us: KafkaCluster,
        config: Mapping[str, Any] = STRIPPED,
        name: str = "union",
        listener: Mapping[str, Any] = MappingProxyType({}),
        nodes_of_us: Sequence[int] = tuple(range(NODES)),
    ) -> None:
        """config: of the router `topics`, with the routes eu and us. listener: further keys of the virtual cluster."""
        self.bootstrap_servers = f"127.0.0.1:{free_port()}"
        ports = free_ports(NODES + len(nodes_of_us))
        routes = [{"name": each, "id": id, "target": {"cluster": each}} for id, each in enumerate(("eu", "us"))]
        nodes = {"ports": f"{ports[0]}-{ports[-1]}", "ids": {"eu": [f"0-{NODES - 1}"], "us": list(nodes_of_us)}}
        target = {"router": "regions"}
        front = {"name": "all", "listen": self.bootstrap_servers, "nodes": nodes, "target": target, **listener}
        configuration: Mapping[str, Any] = {
            "clusters": [
                {"name": "eu", "bootstrap_servers": eu.bootstrap_servers},
                {"name": "us", "bootstrap_servers": us.bootstrap_servers},
            ],
            "routers": [{"name": "regions", "type": "topics", "config": config, "routes": routes}],
            "virtual_clusters": [front],
        }
        super().__init__(folder, name, configuration)
