"""Finds the coordinator of an upstream group, over the mesh's own connections."""

from __future__ import annotations

from mesh.upstream.links.connection import BrokerLink
from mesh.upstream.links.handshake import Unreachable
from mesh.upstream.links.nodes import Nodes
from mesh.wire.client import groups
from mesh.wire.client.groups import FIND_COORDINATOR
from mesh.wire.client.messages import Broker

CHANNEL = "groups"


class NoCoordinator(Exception):
    """Raised when a broker answers that there is no coordinator, with this error code."""

    def __init__(self, error_code: int) -> None:
        super().__init__(f"a broker answers with error {error_code}")
        self.error_code = error_code


async def link_to_coordinator(nodes: Nodes, group: str) -> BrokerLink:
    """Returns a link to the coordinator of a group. Raises NoCoordinator, Unreachable or ProtocolError."""
    found = await nodes.ask_any(
        lambda served: groups.find_coordinator_request(group, served.get(FIND_COORDINATOR)),
        groups.decode_find_coordinator,
    )
    if found.error_code:
        raise NoCoordinator(found.error_code)
    if not _knows(nodes, found.broker):
        await nodes.layout(())
    if not _knows(nodes, found.broker):
        raise Unreachable(f"the coordinator, node {found.broker.node_id}, is no broker of the cluster")
    return nodes.nodes[found.broker.node_id].link(CHANNEL)


def _knows(nodes: Nodes, broker: Broker) -> bool:
    known = nodes.nodes.get(broker.node_id)
    return known is not None and known.broker == broker
