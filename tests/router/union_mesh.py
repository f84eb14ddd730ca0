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
"""Possible nodes of each cluster, from 0 on."""
STRIPPED: Mapping[str, Any] = {
    "topics": [{"prefix": "us.", "route": "us", "strip": True}, {"prefix": "", "route": "eu"}],
    "groups": [{"pattern": "us.*", "route": "us"}],
    "transactional_ids": [{"pattern": "us.*", "route": "us"}],
    "default": "eu",
}
"""Topics that begin with `us.` belong to us, which has them without the prefix."""


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
        process: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """config: of the router `topics`, with the routes eu and us. listener: further keys of the virtual cluster.
        process: of the file."""
        self.bootstrap_servers = f"127.0.0.1:{free_port()}"
        self._ports = ports = free_ports(NODES + len(nodes_of_us))
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
            **process,
        }
        super().__init__(folder, name, configuration)

    def address_of(self, route: str, node: int) -> str:
        """The address at which clients reach a node of eu or us."""
        return f"127.0.0.1:{self._ports[node if route == 'eu' else NODES + node]}"
