"""The addresses of nodes for clients, and reports of nodes without an address."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping

from mesh.config.listeners import FIRST, ConfiguredListener, ListenerName
from mesh.listener.tls import requested_name
from mesh.runtime.relay.listener_addresses import AdvertisedAddress, NodeOf
from mesh.telemetry.upstream_health import UpstreamHealth
from mesh.upstream.problems import UpstreamProblem


class NodeHealth:
    """The health of the nodes of a cluster behind one virtual cluster, as reported to operators."""

    def __init__(self, upstream_health: UpstreamHealth, cluster: str, virtual_cluster: str) -> None:
        self._upstream_health = upstream_health
        self._cluster = cluster
        self._virtual_cluster = virtual_cluster
        self._undeclared: Mapping[ListenerName, frozenset[int]] = {}

    def update(self, undeclared: Mapping[ListenerName, frozenset[int]]) -> None:
        problem = UpstreamProblem.NODE_WITHOUT_ADDRESS
        undeclared = {name: ids for name, ids in undeclared.items() if ids}
        if undeclared:
            reason = "; ".join(_without_address(name, ids) for name, ids in undeclared.items())
            self._upstream_health.begin(
                problem,
                self._cluster,
                reason,
                virtual_cluster=self._virtual_cluster,
                is_news=undeclared != self._undeclared,
            )
        elif self._undeclared:
            self._upstream_health.end(problem, self._cluster, virtual_cluster=self._virtual_cluster)
        self._undeclared = undeclared


def _without_address(listener: ListenerName, ids: frozenset[int]) -> str:
    where = f" at listener {listener}" if listener != FIRST else ""
    return f"no address is declared for {', '.join(map(str, sorted(ids)))}{where}: see nodes.ids"


def places(listener: ConfiguredListener, ports: Mapping[int, int]) -> tuple[NodeOf, AdvertisedAddress]:
    """Returns two functions: the first finds the node that a client named in TLS, the second the address of a node for
    clients. ports: the port of each node, by the id that clients see."""
    nodes, advertised = listener.nodes, listener.advertised
    if nodes is None or nodes.hosts is None:
        return lambda _: None, lambda node: (advertised.host, ports[node]) if node in ports else None
    before, _, after = nodes.hosts.partition("{node}")
    named = re.compile(re.escape(before) + "([0-9]{1,10})" + re.escape(after), re.IGNORECASE)

    def node_of(transport: asyncio.BaseTransport) -> int | None:
        found = named.fullmatch(requested_name(transport) or "")
        return int(found[1]) if found is not None else None

    return node_of, lambda node: (f"{before}{node}{after}", advertised.port)
