"""kafka-mesh with a relay of one cluster, as its users run it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.integration.mesh_process import MeshProcess
from tests.integration.processes import free_port, free_ports


class RelayMesh(MeshProcess):
    """`kafka-mesh run` with one virtual cluster, a relay."""

    def __init__(
        self,
        folder: Path,
        cluster: str,
        nodes: Sequence[int] = (1,),
        relay: Mapping[str, object] = MappingProxyType({}),
        listener: Mapping[str, object] = MappingProxyType({}),
        upstream: Mapping[str, object] = MappingProxyType({}),
        name: str = "relay",
        room: int = 4,
        interceptors: Sequence[Mapping[str, Any]] = (),
        process: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        """cluster: its bootstrap servers. nodes: the declared ids. relay, listener, upstream: further keys of the
        target, the virtual cluster and the cluster. room: how many more nodes a test may declare later. interceptors:
        all of them see the records of its clients. process: further keys of the file."""
        self._cluster = {"name": "eu", "bootstrap_servers": cluster, **upstream}
        self._ports = free_ports(len(nodes) + room)
        self.bootstrap_servers = f"127.0.0.1:{free_port()}"
        self._relay = relay
        self._listener = listener
        self._interceptors = interceptors
        self._more = process
        self.nodes: list[int] = list(nodes)
        super().__init__(folder, name, self._configuration(nodes))

    def address_of(self, node: int) -> str:
        """The address at which clients reach a node."""
        return f"127.0.0.1:{self._ports[self.nodes.index(node)]}"

    def declare(self, nodes: Collection[int]) -> str:
        """Declares these nodes, too, while it runs; returns the output of the command."""
        self.nodes += nodes
        return self.reload(self._configuration(self.nodes))

    def listen(self, listener: Mapping[str, object]) -> str:
        """Uses these keys of the virtual cluster from now on, in place of others; returns the output of the command."""
        self._listener = listener
        return self.reload(self._configuration(self.nodes))

    def _configuration(self, nodes: Sequence[int]) -> Mapping[str, object]:
        ports = {"ports": f"{self._ports[0]}-{self._ports[-1]}", "ids": list(nodes)}
        virtual_cluster: dict[str, Any] = {
            "name": "front",
            "listen": self.bootstrap_servers,
            "nodes": ports,
            "target": {"relay": {"cluster": "eu", **self._relay}},
            **self._listener,
        }
        configuration: dict[str, Any] = {
            "clusters": [self._cluster],
            "virtual_clusters": [virtual_cluster],
            **self._more,
        }
        if self._interceptors:
            virtual_cluster["interceptors"] = [each["name"] for each in self._interceptors]
            configuration["interceptors"] = list(self._interceptors)
        return configuration
