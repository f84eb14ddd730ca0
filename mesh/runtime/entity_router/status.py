"""The state of a router as JSON, for `/status`."""

from __future__ import annotations

from typing import Any

from mesh.runtime.entity_router.leaves import Leaves, RouterLeaf
from mesh.runtime.relay.status import status_of as status_of_relay


def status_of(leaves: Leaves) -> dict[str, Any]:
    """Returns every leaf with the nodes of its cluster, as in a relay, and the node ids that clients see."""

    return {"router": {"leaves": [status_of_leaf(leaves, leaf) for leaf in leaves]}}


def status_of_leaf(leaves: Leaves, leaf: RouterLeaf) -> dict[str, Any]:
    relay = status_of_relay(leaf.nodes, leaf.services.traffic, {})["relay"]
    for node in relay["nodes"]:
        node["upstream_node"], node["node"] = node["node"], leaves.ids.virtual(leaf.number, node["node"])
    return {"leaf": leaf.number, "path": leaf.path, **relay}
