"""Services shared by the connections of a router that chooses by connection, until their route is chosen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from mesh.listener.client_transport import ClientTransport
from mesh.listener.listener import Listener
from mesh.listener.requests import Requests
from mesh.routing.names import RouteName
from mesh.routing.spi import Client, Undecided
from mesh.wire.apis import ApiKey, Versions


class RouteConnection(Protocol):
    """The connection of a client at the target of a route: an asyncio.Protocol or an asyncio.BufferedProtocol."""

    @property
    def client(self) -> ClientTransport: ...


@dataclass(frozen=True, slots=True)
class ChosenRoute:
    """The route of a connection. accept: makes the target's connection, which takes over the transport. ready: set when
    that may happen; None: at once."""

    route: RouteName
    accept: Callable[[], RouteConnection]
    ready: asyncio.Event | None = None


class ConnectionRouterServices(Protocol):
    """The services that a connection needs until its route is chosen. requests: handles the requests of clients that
    authenticate before the choice."""

    @property
    def listener(self) -> Listener: ...

    @property
    def requests(self) -> Requests: ...

    @property
    def is_stopping(self) -> bool: ...

    def node_of(self, transport: asyncio.BaseTransport) -> int | None:
        """Returns the node that a client named in its TLS handshake, by the id that clients see."""

    def choose(self, client: Client, node: int | None) -> ChosenRoute | Undecided | str:
        """Chooses the route of a client. Returns a reason, as text, if the client is refused. node: the id of the node
        that the client connected to, as clients see it; COORDINATOR for the coordinators of pools, None for another
        address that is no node's."""

    def route_chosen(self, route: RouteName, client: ClientTransport) -> None:
        """Notes the route of a connection, which this client transport is about to take over."""

    def served(self) -> Mapping[ApiKey, Versions]:
        """The APIs that all routes serve."""
