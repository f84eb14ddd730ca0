"""A client at the other end of a connection, as those see it who let it in, authenticate it and write about it."""

from __future__ import annotations

from typing import Protocol

from mesh.listener.limits import Admitted
from mesh.pool.common.ids import ConnectionId
from mesh.security.session import Session
from mesh.wire.connection import Request


class Peer(Protocol):
    """admitted: None before it was let in. in_work: the request that is being answered."""

    @property
    def id(self) -> ConnectionId: ...

    @property
    def client_host(self) -> str: ...

    @property
    def session(self) -> Session: ...

    @property
    def admitted(self) -> Admitted | None: ...

    @property
    def in_work(self) -> Request | None: ...

    def established(self) -> None:
        """It is known who the client is, for the first time or again."""

    def close(self) -> None:
        """What was answered is still sent."""

    def abort(self) -> None:
        """At once; what was not sent is lost."""
