"""The addresses of nodes for the clients of one listener of a relay, other than the first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from mesh.runtime.relay.nodes import RelayNodes

NodeOf: TypeAlias = Callable[[asyncio.BaseTransport], int | None]
"""Returns the node that a client named in its TLS handshake."""
AdvertisedAddress: TypeAlias = Callable[[int], tuple[str, int] | None]
"""Returns the address of a node for clients; None if it has none."""


@dataclass(slots=True, eq=False)
class ListenerAddresses:
    """The addresses of nodes at one listener. Implements `mesh.wire.addresses.NodeAddresses`. advertised_address: may
    be replaced."""

    nodes: RelayNodes
    advertised_address: AdvertisedAddress

    def address_of(self, node: int, host: str, port: int) -> tuple[str, int] | None:
        self.nodes.notice(node, host, port)
        return self.advertised_address(node)

    def undeclared(self) -> frozenset[int]:
        """Returns the nodes that have no address here."""
        return frozenset(id for id in self.nodes.known if self.advertised_address(id) is None)
