"""The target `relay`, and where the nodes of its cluster are reached."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from enum import Enum
from typing import Annotated

from pydantic import Field

from mesh.config.base import Model
from mesh.config.values import NodeIdRange, PortRange, matching
from mesh.records.spans import ClusterName

_HOSTS = matching(
    r"(?=[^{]*\{node\}[^{]*$)([A-Za-z0-9_-]|\{node\})+(\.([A-Za-z0-9_-]|\{node\})+)*",
    "a host name in which {node} stands once, for the id of the node",
)
_API = matching(r"[A-Z][A-Z_]*", "the name of an API of Kafka, such as CREATE_TOPICS")


class RelayAuthentication(Enum):
    """Who authenticates clients with SASL."""

    MESH = "mesh"
    UPSTREAM = "upstream"


class RelayConfig(Model):
    """The target `relay`: one cluster, with every API and its own offsets."""

    cluster: ClusterName = Field(description="Name of the upstream cluster.")
    authentication: RelayAuthentication = Field(
        default=RelayAuthentication.MESH, description="Who authenticates clients: kafka-mesh, or the cluster itself."
    )
    refuse: tuple[Annotated[str, _API], ...] = Field(default=(), description="APIs that are not served.")


class NodesConfig(Model):
    """Where clients reach each node of a cluster."""

    ports: PortRange | None = Field(default=None, description="One for each id, in their order.")
    ids: tuple[NodeIdRange, ...] = Field(default=(), description="Ids of the nodes that have a port.")
    hosts: Annotated[str, _HOSTS] | None = Field(default=None, description="Host name of each node, behind one port.")

    def declared(self) -> Iterator[int]:
        """The ids that have a port, in the order of the ports."""
        return itertools.chain.from_iterable(self.ids) if self.ids else iter(range(len(self.ports or ())))

    def port_of(self) -> dict[int, int]:
        """The port of each declared node."""
        return dict(zip(self.declared(), self.ports or (), strict=False))
