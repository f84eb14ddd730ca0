"""A client at the other end of a connection, as those see it who let it in, authenticate it and write about it."""

from __future__ import annotations

from typing import Protocol

from mesh.apis.answers import ConnectionId
from mesh.config.listeners import ListenerName
from mesh.listener.limits import Admitted
from mesh.security.session import Session


class Peer(Protocol):
    """A client at the other end of a connection. admitted: None before it was let in."""

    @property
    def id(self) -> ConnectionId: ...

    @property
    def client_host(self) -> str: ...

    @property
    def listener_name(self) -> ListenerName:
        """To whose address it came."""

    @property
    def session(self) -> Session: ...

    @property
    def admitted(self) -> Admitted | None: ...

    @property
    def is_open(self) -> bool: ...

    @property
    def is_busy(self) -> bool:
        """Whether the client waits for an answer."""

    def established(self) -> None:
        """It is known who the client is, for the first time or again."""

    def refresh_access(self) -> None:
        """What the client may do has to be looked at again."""

    def stop_serving(self) -> None:
        """Take up no request any more: it is about to be closed."""

    def close(self) -> None:
        """What was answered is still sent."""

    def abort(self) -> None:
        """At once; what was not sent is lost."""
