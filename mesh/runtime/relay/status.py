"""The state of a relay as JSON, for `/status`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mesh.config.listeners import ListenerName
from mesh.runtime.relay.listener_addresses import ListenerAddresses
from mesh.runtime.relay.nodes import RelayNode, RelayNodes, address_text
from mesh.runtime.relay.traffic import Traffic


def status_of(nodes: RelayNodes, traffic: Traffic, further: Mapping[ListenerName, ListenerAddresses]) -> dict[str, Any]:
    """Returns every node, with its addresses here and upstream, its connections, and the traffic that has passed."""
    passed = dict(traffic)

    def of(node: RelayNode) -> dict[str, Any]:
        apis = passed[node.id].apis if node.id in passed else {}
        return {
            "node": node.id,
            "address": _text(nodes.advertised_address(node.id)),
            "further_addresses": {name: _text(each.advertised_address(node.id)) for name, each in further.items()},
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


def _text(address: tuple[str, int] | None) -> str | None:
    return None if address is None else address_text(*address)
