"""Opens and counts the leg of a client's connection to a broker, and ends it when the session of the mesh's credentials
ends.

Any failure on the way ends that client's connection only. A bug does so, too, and is logged as an error.
"""

from __future__ import annotations

import asyncio
import math
from functools import partial
from traceback import format_exception
from typing import Final, Protocol

from mesh.apis.answers import ConnectionId
from mesh.runtime.relay.nodes import RelayNode
from mesh.runtime.relay.services import RelayServices
from mesh.tasks import OwnedTask, TaskName, begin, guarded
from mesh.telemetry.logs import get_logger
from mesh.upstream.links.handshake import Unreachable
from mesh.upstream.links.leg import Leg
from mesh.wire.errors import ProtocolError

log = get_logger(__name__)

LINGER: Final = 10.0
"""Seconds that a broker has to read what a client sent before it left."""
_BUG: Final = "internal_error"


class OpenerOwner(Protocol):
    """The connection that owns an opener of legs."""

    def leg_reached(self, node: int) -> None: ...

    def not_reached(self) -> None: ...

    def session_ended(self) -> None: ...


class LegOpener:
    """Opens the connection to a broker for one client, counts it at its node, and reports the end of its session.

    connection: the id of the client's connection. References to its owner are dropped when the leg is released.
    """

    def __init__(self, services: RelayServices, connection: ConnectionId) -> None:
        self.is_session_over = False
        self._services = services
        self._task = OwnedTask(TaskName.LEG, services.listener.name)
        self._connection = connection
        self._node: int | None = None
        self._is_named = False
        self._is_open = False
        self._reached: RelayNode | None = None
        self._opening: asyncio.Task[None] | None = None
        self._session: asyncio.TimerHandle | None = None

    def set_node(self, node: int | None, *, is_named: bool) -> None:
        """Sets the node to connect to. node: None for any node. is_named: True if the client named the node in its TLS
        handshake, and did not connect to an address of the node."""
        self._node, self._is_named = node, is_named

    def open(self, owner: OpenerOwner, leg: Leg) -> None:
        self._services.listener.admission.count_broker_connections(1)
        self._is_open = True
        self._opening = begin(self._task, partial(self._open, owner, leg), owner.not_reached)

    def release(self) -> None:
        """Stops counting the leg, and reports nothing more."""
        if self._is_open:
            self._services.listener.admission.count_broker_connections(-1)
            self._is_open = False
        if self._reached is not None:
            self._reached.legs -= 1
            self._reached = None
        for waiting in (self._opening, self._session):
            if waiting is not None:
                waiting.cancel()
        self._opening = self._session = None

    # Failures

    def failed(self, problem: Exception) -> None:
        """Counts and logs that the leg could not be opened."""
        if isinstance(problem, Unreachable):
            self.lost("unreachable", str(problem))
            return
        log.error(
            "connection closed: bug in kafka-mesh",
            virtual_cluster=self._services.listener.name,
            connection=self._connection,
            traceback="".join(format_exception(problem)),
        )
        self.lost(_BUG, repr(problem))

    def lost(self, kind: str, reason: str) -> None:
        """Counts a leg that was lost, or could not be opened."""
        node = self.node
        if node is None or (self._is_named and node not in self._services.nodes.known):
            node = -1  # clients may name any number
        self._services.traffic.leg_lost(node, kind)
        log.debug(
            "broker connection lost",
            virtual_cluster=self._services.listener.name,
            connection=self._connection,
            node=node,
            reason=reason,
        )

    def answered_badly(self, problem: ProtocolError) -> None:
        self.lost(problem.reason, str(problem))
        log.warning(
            "connection closed: unreadable broker response",
            virtual_cluster=self._services.listener.name,
            connection=self._connection,
            node=self.node,
            reason=problem.reason,
            detail=str(problem),
        )

    # Internals

    @property
    def node(self) -> int | None:
        """The node that was reached; before that, the node that the client connected to."""
        return self._reached.id if self._reached is not None else self._node

    async def _open(self, owner: OpenerOwner, leg: Leg) -> None:
        services = self._services
        try:
            reached, ends_at = await services.nodes.open_leg(
                self._node, leg, passes_authentication=services.passes_authentication
            )
        except Exception as problem:  # noqa: BLE001 - see the module
            self._opening = None
            self.failed(problem)
            owner.not_reached()
            return
        if not self._is_open:  # the leg was released when it opened
            return
        self._opening = None
        self._reached = reached
        reached.legs += 1
        if ends_at < math.inf:
            end_session = guarded(self._task, self._end_session, owner.not_reached)
            self._session = asyncio.get_running_loop().call_at(ends_at, end_session, owner)
        owner.leg_reached(reached.id)

    def _end_session(self, owner: OpenerOwner) -> None:
        """Ends the session. A broker closes the connection at the next request after the session of its credentials has
        ended (KIP-368). So no further request is read, and the connection is closed when the earlier ones are
        answered."""
        self.is_session_over = True
        owner.session_ended()
