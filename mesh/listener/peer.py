"""A client as admission, authentication and the audit log see it."""

from __future__ import annotations

from typing import Protocol

from mesh.apis.answers import ConnectionId
from mesh.config.listeners import ListenerName
from mesh.listener.limits import Admitted
from mesh.security.session import Session


class Peer(Protocol):
    """The client at the other end of a connection. admitted: None before the client was admitted."""

    @property
    def id(self) -> ConnectionId: ...

    @property
    def client_host(self) -> str: ...

    @property
    def listener_name(self) -> ListenerName:
        """The name of the listener that the client connected to."""

    @property
    def session(self) -> Session: ...

    @property
    def admitted(self) -> Admitted | None: ...

    @property
    def is_open(self) -> bool: ...

    @property
    def is_busy(self) -> bool:
        """True if the client waits for an answer."""

    def established(self) -> None:
        """Notes that the client's identity is known, for the first time or again."""

    def refresh_access(self) -> None:
        """Has the client's permissions checked again."""

    def stop_serving(self) -> None:
        """Handles no further requests: the connection is about to be closed."""

    def close(self) -> None:
        """Closes the connection when all responses are sent."""

    def abort(self) -> None:
        """Closes the connection at once. Unsent data is lost."""
