"""What the connections of a router that chooses by connection share, as long as they are not led anywhere."""

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


class LedConnection(Protocol):
    """The protocol of what is behind a route, an asyncio.Protocol or an asyncio.BufferedProtocol."""

    @property
    def client(self) -> ClientTransport: ...


@dataclass(frozen=True, slots=True)
class Led:
    """The route that a connection is led. accept: makes what takes it there. ready: when that may be; None: at once."""

    route: RouteName
    accept: Callable[[], LedConnection]
    ready: asyncio.Event | None = None


class ChoiceServices(Protocol):
    """The services of connections that are not led yet. requests: answer those of clients that authenticate before they
    are led."""

    @property
    def listener(self) -> Listener: ...

    @property
    def requests(self) -> Requests: ...

    @property
    def is_stopping(self) -> bool: ...

    def node_of(self, transport: asyncio.BaseTransport) -> int | None:
        """The node that a client named in its TLS handshake, as clients call it."""

    def choose(self, client: Client, node: int | None) -> Led | Undecided | str:
        """node: whose address it came to, as clients call it; None for one that is no node's. A text: why it is led
        nowhere."""

    def led(self, route: RouteName, client: ClientTransport) -> None:
        """This one takes over."""

    def served(self) -> Mapping[ApiKey, Versions]:
        """What all routes serve."""
