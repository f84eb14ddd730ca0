"""Where the clients of a further listener of a relay reach the nodes of its cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from mesh.runtime.relay.nodes import RelayNodes

NodeOf: TypeAlias = Callable[[asyncio.BaseTransport], int | None]
"""The node that a client named in its TLS handshake."""
PlaceOf: TypeAlias = Callable[[int], tuple[str, int] | None]
"""Where clients reach a node; None for one that has no address."""


@dataclass(slots=True, eq=False)
class ListenerAddresses:
    """The addresses of one listener. Implements `mesh.wire.addresses.NodeAddresses`. place_of: may be replaced."""

    nodes: RelayNodes
    place_of: PlaceOf

    def address_of(self, node: int, host: str, port: int) -> tuple[str, int] | None:
        self.nodes.notice(node, host, port)
        return self.place_of(node)

    def undeclared(self) -> frozenset[int]:
        """Nodes that have no address here."""
        return frozenset(id for id in self.nodes.known if self.place_of(id) is None)
