"""How a client's connection to a broker comes about and is counted, and when the session of our credentials ends.

Whatever goes wrong on the way ends that client's connection, and nothing else: also a bug, which is told loudly.
"""

from __future__ import annotations

import asyncio
import math
from traceback import format_exception
from typing import Final, Protocol

from mesh.apis.answers import ConnectionId
from mesh.runtime.relay.nodes import RelayNode
from mesh.runtime.relay.services import RelayServices
from mesh.telemetry.logs import get_logger
from mesh.upstream.links.handshake import Unreachable
from mesh.upstream.links.leg import Leg
from mesh.wire.errors import ProtocolError

log = get_logger(__name__)

LINGER: Final = 10.0
"""Seconds in which a broker takes what its client had sent before it left."""
_BUG: Final = "internal_error"


class OpenerOwner(Protocol):
    """What has legs opened for it."""

    def leg_reached(self, node: int) -> None: ...

    def not_reached(self) -> None: ...

    def session_ended(self) -> None: ...


class LegOpener:
    """Opens the connection to a broker for one client, counts it at its node, and tells when its session ends.

    connection: the client's. It keeps no owner: what names one is cancelled when the leg is released.
    """

    def __init__(self, services: RelayServices, connection: ConnectionId) -> None:
        self.is_session_over = False
        self._services = services
        self._connection = connection
        self._node: int | None = None
        self._is_named = False
        self._reached: RelayNode | None = None
        self._opening: asyncio.Task[None] | None = None
        self._session: asyncio.TimerHandle | None = None

    def aim(self, node: int | None, *, is_named: bool) -> None:
        """node: whose address the client came to; None for any. is_named: whether it named it, and did not come to its
        address."""
        self._node, self._is_named = node, is_named

    def open(self, owner: OpenerOwner, leg: Leg) -> None:
        self._opening = asyncio.get_running_loop().create_task(self._open(owner, leg), name="open a leg")

    def release(self) -> None:
        """The leg is not counted any more, and nobody is told of anything."""
        for waiting in (self._opening, self._session):
            if waiting is not None:
                waiting.cancel()
        self._opening = self._session = None
        if self._reached is not None:
            self._reached.legs -= 1
            self._reached = None

    # What went wrong

    def failed(self, problem: Exception) -> None:
        """The leg could not be opened."""
        if isinstance(problem, Unreachable):
            self.lost("unreachable", str(problem))
            return
        log.error(
            "a connection was closed: kafka-mesh has a bug",
            virtual_cluster=self._services.listener.name,
            connection=self._connection,
            traceback="".join(format_exception(problem)),
        )
        self.lost(_BUG, repr(problem))

    def lost(self, kind: str, reason: str) -> None:
        """It was lost, or there was none."""
        node = self.place
        if node is None or (self._is_named and node not in self._services.nodes.known):
            node = -1  # clients may name any
        self._services.traffic.leg_lost(node, kind)
        log.debug(
            "a connection to a broker was lost",
            virtual_cluster=self._services.listener.name,
            connection=self._connection,
            node=node,
            reason=reason,
        )

    def answered_badly(self, problem: ProtocolError) -> None:
        self.lost(problem.reason, str(problem))
        log.warning(
            "a connection was closed: its broker's answer is none",
            virtual_cluster=self._services.listener.name,
            connection=self._connection,
            node=self.place,
            reason=problem.reason,
            detail=str(problem),
        )

    # How

    @property
    def place(self) -> int | None:
        """The node that was reached, or else whose address the client came to."""
        return self._reached.id if self._reached is not None else self._node

    async def _open(self, owner: OpenerOwner, leg: Leg) -> None:
        services = self._services
        try:
            reached, ends_at = await services.nodes.open_leg(self._node, leg, is_bare=services.is_bare)
        except Exception as problem:  # noqa: BLE001 - see the module
            self._opening = None
            self.failed(problem)
            owner.not_reached()
            return
        self._opening = None
        self._reached = reached
        reached.legs += 1
        if ends_at < math.inf:
            self._session = asyncio.get_running_loop().call_at(ends_at, self._end_session, owner)
        owner.leg_reached(reached.id)

    def _end_session(self, owner: OpenerOwner) -> None:
        """The broker closes the connection at the next request after the session of our credentials has ended
        (KIP-368). So no further request is read from now on, and the connection is closed when those before are
        answered."""
        self.is_session_over = True
        owner.session_ended()
