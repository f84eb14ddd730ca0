"""A relay behind a virtual cluster: every API of one cluster, through the addresses of the mesh."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from mesh.config.listeners import FIRST, ListenerName
from mesh.listener.listener import Listener
from mesh.listener.requests import Requests
from mesh.runtime.interception.client import Interceptors
from mesh.runtime.relay.connection import RelayConnection
from mesh.runtime.relay.ending import Ending
from mesh.runtime.relay.listener_addresses import ListenerAddresses, NodeOf, PlaceOf
from mesh.runtime.relay.local_requests import LocalRequests
from mesh.runtime.relay.nodes import RelayNodes
from mesh.runtime.relay.services import RelayServices
from mesh.runtime.relay.status import status_of
from mesh.runtime.relay.topologies import CleanUp
from mesh.runtime.relay.traffic import Traffic
from mesh.runtime.topologies.topologies import Topologies
from mesh.runtime.topologies.topology_samples import status_of as status_of_topologies
from mesh.upstream.links.chunks import Chunks
from mesh.wire.apis import ApiKey
from mesh.wire.relayed_apis import ADVERTISED_APIS, RELAYED_APIS

LARGEST_REQUEST = 100 << 20
"""Bytes, unless it is configured; socket.request.max.bytes of a broker."""


class RelayRuntime:
    """One virtual cluster with a relay behind it. Implements `mesh.listener.target.Target`.

    refused: APIs that are not served. is_bare: clients authenticate at the cluster itself. node_of: the node that a
    client named in its TLS handshake. interceptors: None if the virtual cluster has none. topologies: None where no
    topology descriptions are served.
    """

    def __init__(
        self,
        listener: Listener,
        nodes: RelayNodes,
        refused: Collection[ApiKey],
        node_of: Callable[[asyncio.BaseTransport], int | None],
        *,
        is_bare: bool,
        interceptors: Interceptors | None = None,
        topologies: Topologies | None = None,
    ) -> None:
        self.name = listener.name
        self.listener = listener
        self.nodes = nodes
        self.traffic = Traffic()
        self.topologies = topologies
        self._ending = Ending(listener)
        self._services = RelayServices(
            listener,
            nodes,
            self.traffic,
            Chunks(),
            Requests(listener, LocalRequests()),
            served_without(refused, is_bare=is_bare),
            advertised_without(refused),
            lambda: listener.admission.limits.request or LARGEST_REQUEST,
            is_bare,
            node_of,
            self._ending,
            nodes,
            interceptors=interceptors,
            topologies=topologies,
        )
        self._listeners = {FIRST: self._services}
        """Also those that have ended: a handshake may still bring a client to one."""
        self.further: dict[ListenerName, ListenerAddresses] = {}
        self._cleaning: asyncio.Task[None] | None = None
        if topologies is not None:
            cleaning = CleanUp(topologies, nodes).run()
            self._cleaning = asyncio.get_running_loop().create_task(
                cleaning, name=f"clean up topologies of {self.name}"
            )
        self._watching = asyncio.get_running_loop().create_task(nodes.watch(), name=f"nodes of {self.name}")

    def accept(self, node: int | None = None, listener: ListenerName = FIRST) -> RelayConnection:
        return RelayConnection(self._listeners[listener], node)

    def status(self) -> dict[str, Any]:
        status = status_of(self.nodes, self.traffic, self.further)
        if self.topologies is not None:
            status["streams"] = status_of_topologies(self.topologies)
        return status

    def refuse(self, refused: Collection[ApiKey]) -> None:
        """Connections that begin from now on are not served these."""
        for services in self._listeners.values():
            services.served = served_without(refused, is_bare=services.is_bare)
            services.advertised = advertised_without(refused)

    # Further listeners

    def begin_listener(self, name: ListenerName, place_of: PlaceOf, node_of: NodeOf) -> None:
        """Its clients are told of these places only. One that is there goes on with others."""
        if name in self.further:
            self.further[name].place_of, self._listeners[name].node_of = place_of, node_of
            return
        addresses = self.further[name] = ListenerAddresses(self.nodes, place_of)
        self._listeners[name] = replace(self._services, addresses=addresses, name=name, node_of=node_of)

    def end_listener(self, name: ListenerName, grace: float) -> None:
        """Its connections end as at a stop, those of other listeners go on. grace: seconds that answers have."""
        del self.further[name]
        self._listeners[name].has_ended = True
        for client in list(self.listener.connections.values()):
            if client.listener_name != name:
                continue
            if client.is_busy:
                asyncio.get_running_loop().call_later(grace, client.close)
            else:
                client.close()

    # The end

    def begin_stop(self, grace: float) -> None:
        self._ending.begin(grace)

    async def drained(self) -> None:
        await self._ending.drained()

    def drain(self) -> None:
        """Nothing is kept here that could be let go of before the connections are."""

    def close_connections(self) -> None:
        self.listener.close()

    async def closed(self) -> None:
        tasks = [each for each in (self._watching, self._cleaning) if each is not None]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        if self.topologies is not None:
            await self.topologies.close()


def served_without(refused: Collection[ApiKey], *, is_bare: bool) -> Mapping[ApiKey, tuple[int, int]]:
    """What passes through a relay that refuses these."""
    served = {key: (each.lowest, each.highest) for key, each in RELAYED_APIS.items() if key not in refused}
    if is_bare:  # the tokens that follow a handshake of version 0 are no requests
        served[ApiKey.SASL_HANDSHAKE] = (1, RELAYED_APIS[ApiKey.SASL_HANDSHAKE].highest)
    return served


def advertised_without(refused: Collection[ApiKey]) -> Mapping[ApiKey, tuple[int, int]]:
    """What ApiVersions lists at most, through a relay that refuses these."""
    return {key: each for key, each in ADVERTISED_APIS.items() if key not in refused}
