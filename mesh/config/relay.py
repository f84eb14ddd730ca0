"""The target `relay`, and the addresses of the nodes of its cluster."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from enum import Enum
from typing import Annotated, TypeAlias

from pydantic import Discriminator, Field, Tag

from mesh.config.base import Model
from mesh.config.values import NodeIdRange, PortRange, matching
from mesh.records.spans import ClusterName

_HOSTS = matching(
    r"(?=[^{]*\{node\}[^{]*$)([A-Za-z0-9_-]|\{node\})+(\.([A-Za-z0-9_-]|\{node\})+)*",
    "a host name in which {node} stands once, for the id of the node",
)
_API = matching(r"[A-Z][A-Z_]*", "the name of an API of Kafka, such as CREATE_TOPICS")


class RelayAuthentication(Enum):
    """The side that authenticates clients with SASL."""

    MESH = "mesh"
    UPSTREAM = "upstream"


class RelayConfig(Model):
    """The target `relay`: one cluster, with every API and its own offsets."""

    cluster: ClusterName = Field(description="Name of the upstream cluster.")
    authentication: RelayAuthentication = Field(
        default=RelayAuthentication.MESH,
        description="The side that authenticates clients: kafka-mesh, or the cluster itself.",
    )
    refuse: tuple[Annotated[str, _API], ...] = Field(default=(), description="APIs that are not served.")


class OneNode(Enum):
    """All nodes of a cluster as one: clients reach it at the address of the virtual cluster."""

    ONE = "one"


OF_ONE_CLUSTER, OF_EACH_LEAF = "ids of one cluster", "ids of each leaf"
NodeIdRanges: TypeAlias = tuple[NodeIdRange, ...]


class NodesConfig(Model):
    """The addresses of the nodes of one or more clusters."""

    ports: PortRange | None = Field(default=None, description="One for each id, in their order.")
    ids: Annotated[
        Annotated[NodeIdRanges, Tag(OF_ONE_CLUSTER)] | Annotated[dict[str, NodeIdRanges], Tag(OF_EACH_LEAF)],
        Discriminator(lambda value: OF_EACH_LEAF if isinstance(value, dict) else OF_ONE_CLUSTER),
    ] = Field(default=(), description="Ids of the nodes that have a port; of a router by paths of routes.")
    hosts: Annotated[str, _HOSTS] | None = Field(default=None, description="Host name of each node, behind one port.")

    def declared(self) -> Iterator[int]:
        """Returns the node ids of one cluster that have a port, in the order of the ports."""
        if not self.ids:
            return iter(range(len(self.ports or ())))
        assert not isinstance(self.ids, dict), "a relay has ids of one cluster"
        return itertools.chain.from_iterable(self.ids)

    def port_of(self) -> dict[int, int]:
        """Returns the port of each declared node of one cluster."""
        return dict(zip(self.declared(), self.ports or (), strict=False))


EACH_NODE, ALL_AS_ONE = "nodes with addresses", "one node"
AnyNodes: TypeAlias = Annotated[
    Annotated[NodesConfig, Tag(EACH_NODE)] | Annotated[OneNode, Tag(ALL_AS_ONE)],
    Discriminator(
        lambda value: ALL_AS_ONE if value in ("one", OneNode.ONE) else None if isinstance(value, str) else EACH_NODE,
        custom_error_type="nodes",
        custom_error_message="a mapping with ports or hosts, or one for all nodes as one",
    ),
]
