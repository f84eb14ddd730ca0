"""The runtime of a relay: every API of one cluster, through the addresses of the mesh."""

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
from mesh.runtime.relay.graceful_stop import GracefulStop, StatelessTarget, close_clients
from mesh.runtime.relay.listener_addresses import AdvertisedAddress, ListenerAddresses, NodeOf
from mesh.runtime.relay.local_requests import LocalRequests
from mesh.runtime.relay.nodes import RelayNodes
from mesh.runtime.relay.services import RelayServices
from mesh.runtime.relay.status import status_of
from mesh.runtime.relay.topologies import CleanUp
from mesh.runtime.relay.traffic import Traffic
from mesh.runtime.topologies.topologies import Topologies
from mesh.runtime.topologies.topology_samples import status_of as status_of_topologies
from mesh.tasks import OwnedTask, TaskName, keep
from mesh.upstream.links.chunks import Chunks
from mesh.wire.apis import ApiKey
from mesh.wire.relayed_apis import ADVERTISED_APIS, RELAYED_APIS
from mesh.wire.transaction_levels import of_first_protocol

LARGEST_REQUEST = 100 << 20
"""The largest request in bytes, unless configured: socket.request.max.bytes of a broker."""


class RelayRuntime(StatelessTarget):
    """The runtime of one virtual cluster with a relay behind it. Implements `mesh.listener.target.Target`.

    refused: APIs that are not served. passes_authentication: True if clients authenticate at the cluster itself.
    node_of: returns the node that a client named in its TLS handshake. interceptors: None if the virtual cluster has
    none. topologies: None if no topology descriptions are served.
    """

    def __init__(
        self,
        listener: Listener,
        nodes: RelayNodes,
        refused: Collection[ApiKey],
        node_of: Callable[[asyncio.BaseTransport], int | None],
        *,
        passes_authentication: bool,
        interceptors: Interceptors | None = None,
        topologies: Topologies | None = None,
    ) -> None:
        self.name = listener.name
        self.listener = listener
        self.nodes = nodes
        self.traffic = Traffic()
        self.topologies = topologies
        self.graceful_stop = GracefulStop(listener)
        self._is_dropping = interceptors is not None and interceptors.selection.may_drop_produced
        """True if interceptors may drop records of producers."""
        self._services = RelayServices(
            listener,
            nodes,
            self.traffic,
            Chunks(),
            Requests(listener, LocalRequests()),
            self._limited(served_without(refused, passes_authentication=passes_authentication)),
            self._limited(advertised_without(refused)),
            lambda: listener.admission.limits.request or LARGEST_REQUEST,
            passes_authentication,
            node_of,
            self.graceful_stop,
            nodes,
            interceptors=interceptors,
            topologies=topologies,
        )
        self._listeners = {FIRST: self._services}
        """The services of all listeners, closed ones included: a handshake that is under way may still bring a client
        to one."""
        self.further: dict[ListenerName, ListenerAddresses] = {}
        self._cleaning: asyncio.Task[None] | None = None
        if topologies is not None:
            task = OwnedTask(TaskName.TOPOLOGIES, self.name, nodes.cluster)
            self._cleaning = keep(task, CleanUp(topologies, nodes).run)
        self._watching = keep(OwnedTask(TaskName.BROKERS, self.name, nodes.cluster), nodes.watch)

    def accept(self, node: int | None = None, listener: ListenerName = FIRST) -> RelayConnection:
        return RelayConnection(self._listeners[listener], node)

    def status(self) -> dict[str, Any]:
        status = status_of(self.nodes, self.traffic, self.further)
        if self.topologies is not None:
            status["streams"] = status_of_topologies(self.topologies)
        return status

    def refuse(self, refused: Collection[ApiKey]) -> None:
        """Refuses these APIs, and no others, to connections that begin from now on."""
        for services in self._listeners.values():
            services.served = self._limited(
                served_without(refused, passes_authentication=services.passes_authentication)
            )
            services.advertised = self._limited(advertised_without(refused))

    def _limited(self, apis: Mapping[ApiKey, tuple[int, int]]) -> Mapping[ApiKey, tuple[int, int]]:
        """The APIs without transaction.version 2 (KIP-890): a transaction whose records are all dropped could not be
        committed, since its coordinator would not know of it."""
        return of_first_protocol(apis) if self._is_dropping else apis

    # Further listeners

    def begin_listener(self, name: ListenerName, advertised_address: AdvertisedAddress, node_of: NodeOf) -> None:
        """Begins a listener with these addresses of nodes. A listener that exists continues with them."""
        if name in self.further:
            self.further[name].advertised_address, self._listeners[name].node_of = advertised_address, node_of
            return
        addresses = self.further[name] = ListenerAddresses(self.nodes, advertised_address)
        self._listeners[name] = replace(self._services, addresses=addresses, name=name, node_of=node_of)

    def end_listener(self, name: ListenerName, grace: float) -> None:
        """Ends a listener: its connections end as at a stop, and those of other listeners stay. grace: seconds in which
        requests may still be answered."""
        del self.further[name]
        self._listeners[name].has_ended = True
        close_clients(self.listener, name, grace)

    # Stop

    async def closed(self) -> None:
        tasks = [each for each in (self._watching, self._cleaning) if each is not None]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        if self.topologies is not None:
            await self.topologies.close()


def served_without(refused: Collection[ApiKey], *, passes_authentication: bool) -> Mapping[ApiKey, tuple[int, int]]:
    """The APIs that pass through a relay which refuses these."""
    served = {key: (each.lowest, each.highest) for key, each in RELAYED_APIS.items() if key not in refused}
    if passes_authentication:  # the tokens that follow a SaslHandshake v0 are not Kafka requests
        served[ApiKey.SASL_HANDSHAKE] = (1, RELAYED_APIS[ApiKey.SASL_HANDSHAKE].highest)
    return served


def advertised_without(refused: Collection[ApiKey]) -> Mapping[ApiKey, tuple[int, int]]:
    """The APIs that ApiVersions lists at most, through a relay which refuses these."""
    return {key: each for key, each in ADVERTISED_APIS.items() if key not in refused}
