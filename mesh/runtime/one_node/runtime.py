"""The runtime of a cluster that clients see as one node."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

from mesh.config.listeners import FIRST, ListenerName
from mesh.listener.listener import Listener
from mesh.listener.requests import Requests
from mesh.memory import RequestMemory
from mesh.routing.one_node.rewriting import VisibleNodes
from mesh.runtime.entity_router.leaf_nodes import LeafNodes
from mesh.runtime.interception.client import Interceptors
from mesh.runtime.one_node.brokers import ClusterBrokers
from mesh.runtime.one_node.cluster import OneNodeCluster
from mesh.runtime.one_node.services import OneNodeServices
from mesh.runtime.relay.graceful_stop import GracefulStop, StatelessTarget, close_clients
from mesh.runtime.relay.local_requests import LocalRequests
from mesh.runtime.relay.runtime import LARGEST_REQUEST
from mesh.runtime.relay.status import status_of
from mesh.runtime.relay.traffic import Traffic
from mesh.runtime.request_router.connection import RequestRouterConnection
from mesh.tasks import OwnedTask, TaskName, keep
from mesh.wire.apis import ApiKey

REQUEST_TIMEOUT = 30.0
"""Seconds that a broker has to answer, beyond the wait that a request asks for."""


class OneNodeRuntime(StatelessTarget):
    """The runtime of one virtual cluster in front of a cluster that clients see as one node. Implements
    `mesh.listener.target.Target`."""

    def __init__(
        self,
        listener: Listener,
        nodes: LeafNodes,
        shown: Mapping[ListenerName, VisibleNodes],
        refused: Collection[ApiKey],
        memory: RequestMemory,
        interceptors: Interceptors | None = None,
    ) -> None:
        """shown: the nodes that clients see at each listener. memory: a limit for requests that are read as a whole.
        interceptors: None if the virtual cluster has none."""
        self.name = listener.name
        self.listener = listener
        self.nodes = nodes
        self.traffic = Traffic()
        self.graceful_stop = GracefulStop(listener)
        cluster = OneNodeCluster(ClusterBrokers(nodes, self.traffic), REQUEST_TIMEOUT)
        services = OneNodeServices(
            listener,
            Requests(listener, LocalRequests()),
            nodes,
            self.traffic,
            cluster,
            shown[FIRST],
            refused,
            self.graceful_stop,
            lambda: listener.admission.limits.request or LARGEST_REQUEST,
            memory,
            interceptors,
        )
        self._listeners = {FIRST: services}
        """The services of all listeners, closed ones included: a handshake that is under way may still bring a client
        to one."""
        self.change(shown, refused)
        self._watching = (
            keep(OwnedTask(TaskName.BROKERS, self.name, nodes.cluster), nodes.watch),
            keep(OwnedTask(TaskName.LEADERS, self.name, nodes.cluster), cluster.watch),
        )

    def accept(self, node: int | None = None, listener: ListenerName = FIRST) -> RequestRouterConnection:
        return RequestRouterConnection(self._listeners[listener], node)

    def status(self) -> dict[str, Any]:
        """The status of a relay, with brokers that clients do not see."""
        return status_of(self.nodes, self.traffic, {})

    def change(self, shown: Mapping[ListenerName, VisibleNodes], refused: Collection[ApiKey]) -> None:
        """Shows these nodes and APIs to new connections, and begins the listeners that are new."""
        for name, each in shown.items():
            known = self._listeners.get(name)
            if known is None or known.has_ended:
                known = self._listeners[name] = self._listeners[FIRST].for_listener(name)
            known.shown = each
        for services in self._listeners.values():
            services.refused = refused

    def end_listener(self, name: ListenerName, grace: float) -> None:
        """Ends the connections of a listener as at a stop; those of other listeners stay. grace: seconds in which
        requests may still be answered."""
        self._listeners[name].has_ended = True
        close_clients(self.listener, name, grace)

    def drop_gone(self) -> None:
        """Fails requests that wait for brokers which the cluster no longer has."""
        self._listeners[FIRST].drop_gone()

    # Stop

    async def closed(self) -> None:
        for task in self._watching:
            task.cancel()
        await asyncio.wait(self._watching)
