"""The state of a relay as JSON, for `/status`."""

from __future__ import annotations

from typing import Any

from mesh.runtime.relay.nodes import RelayNode, RelayNodes, address_text
from mesh.runtime.relay.traffic import Traffic


def status_of(nodes: RelayNodes, traffic: Traffic) -> dict[str, Any]:
    """Every node, with its address here and upstream, the connections to it, and how much has passed."""
    passed = dict(traffic)

    def of(node: RelayNode) -> dict[str, Any]:
        place, apis = nodes.place_of(node.id), passed[node.id].apis if node.id in passed else {}
        return {
            "node": node.id,
            "address": None if place is None else address_text(*place),
            "upstream": node.address,
            "legs": node.legs,
            "problem": node.reason,
            "requests": sum(each.requests for each in apis.values()),
            "bytes_in": sum(each.request_bytes for each in apis.values()),
            "bytes_out": sum(each.answer_bytes for each in apis.values()),
            "versions": {key.name: [each.lowest, each.highest] for key, each in (node.versions or {}).items()},
        }

    return {
        "relay": {
            "cluster": nodes.cluster,
            "nodes": [of(nodes.known[id]) for id in sorted(nodes.known)],
        }
    }
