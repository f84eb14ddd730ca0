"""Connections to brokers over which the requests of static routes pass, undecoded, each for one client and one route.

They pass as those of a relay do, in pieces, whatever is in them. In answers node ids and addresses are changed where
Produce, Fetch, ShareFetch and ShareAcknowledge may name a new leader; other APIs with nodes in them have no static
routes (`routable`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import Final, Protocol

from mesh.apis.answers import ConnectionId
from mesh.apis.listener_table import LISTENER_TABLE
from mesh.listener.client_transport import ClientTransport
from mesh.routing.translation import LeafTranslation
from mesh.runtime.relay.leg_opener import LINGER, LegOpener
from mesh.runtime.router.leaves import Leaves, RouterLeaf
from mesh.upstream.links.leg import Leg
from mesh.wire.answer_queue import Ticket
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Side
from mesh.wire.entities.fields import Field
from mesh.wire.entities.kinds import Kind
from mesh.wire.entities.layouts import layout
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import Buffer
from mesh.wire.passing import AnswerCutter, Piece, RequestHead
from mesh.wire.relayed_apis import RELAYED_APIS
from mesh.wire.relaying import LARGEST_ANSWER, RelayedConnection, RelayedRequest
from mesh.wire.routed import PassedRequest, RoutedConnection

_LEADERS_IN_ANSWERS: Final = frozenset({ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE})
_NAMES_NODES: Final = frozenset({Kind.NODE, Kind.HOST, Kind.RESOURCE_NAME, Kind.KEY, Kind.COORDINATOR_KEY})
_OF_FOLLOWERS: Final = "replica_id"
"""What brokers say of themselves; a client's is -1."""
MOST_HELD: Final = 1 << 20
"""Bytes of answers that wait for others before them; then no more is read of that broker."""


def routable(api_key: ApiKey) -> bool:
    """Whether an API may have a static route."""
    if api_key in _LEADERS_IN_ANSWERS:
        return True
    if api_key in LISTENER_TABLE or api_key not in RELAYED_APIS:
        return False
    sides = (layout(api_key, RELAYED_APIS[api_key].highest, side) for side in Side)
    return not any(_has_nodes(fields) for fields in sides)


def _has_nodes(fields: Collection[Field]) -> bool:
    return any(
        (field.kind in _NAMES_NODES and field.name != _OF_FOLLOWERS) or _has_nodes(field.fields) for field in fields
    )


class StaticOwner(Protocol):
    """The connection of a client. It is told of what comes of a leg."""

    @property
    def client(self) -> ClientTransport: ...

    def expect(self) -> Ticket: ...

    def answered(self, ticket: Ticket, parts: Sequence[Buffer], *, is_last: bool) -> bool:
        """Whether they have left."""

    def leg_changed(self) -> None:
        """It takes more again, or no more, or has nothing under way any more."""

    def leg_ended(self, *, is_within_answer: bool) -> None: ...


class _AsItIs:
    """Requests pass unread; what of answers names nodes is translated. Implements `mesh.wire.routed.Translation`."""

    def __init__(self, answers: LeafTranslation) -> None:
        self._answers = answers

    def request(self, head: RequestHead, frame: memoryview) -> PassedRequest | None:
        raise AssertionError("no request is taken whole")

    def leaf_of_nodes(self, api_key: ApiKey, version: int) -> int | None:
        return self._answers.leaf_of_nodes(api_key, version)

    def is_changed(self, api_key: ApiKey, version: int, *, is_plain: bool) -> bool:
        return api_key in _LEADERS_IN_ANSWERS and self._answers.is_changed(api_key, version, is_plain=is_plain)

    def answer(self, api_key: ApiKey, version: int, answer: memoryview) -> Sequence[Buffer]:
        return self._answers.answer(api_key, version, answer)


class _StaticWire(RoutedConnection):
    """The wire of a static route: requests pass in pieces, as a relay's do, and answers have the nodes of a union."""

    _begin_request = RelayedConnection._begin_request
    _hold = RelayedConnection._hold


class StaticLeg:
    """The leg of one route. node: of the leaf, by the id that its cluster gave it; None for any."""

    def __init__(
        self, owner: StaticOwner, leaves: Leaves, leaf: RouterLeaf, node: int | None, id: ConnectionId
    ) -> None:
        self._owner: StaticOwner | None = owner
        self._services = leaf.services
        self._listener = leaf.services.listener
        self._wire = _StaticWire(
            leaf.services.served,
            (),
            leaf.nodes,
            _AsItIs(leaves.translation(leaf)),
            self._passed,
            leaf.services.limit(),
        )
        self._cutter = AnswerCutter(LARGEST_ANSWER)
        self._tickets: deque[Ticket] = deque()
        self._leg = Leg(self, leaf.services.chunks)
        self._opener = LegOpener(leaf.services, id)
        self._opener.aim(node, is_named=False)
        self._opener.open(self, self._leg)
        self._traffic = leaf.services.traffic.of(-1)
        self._unsent: list[Buffer] = []
        self._held: deque[Ticket] = deque()
        """Answers that have come, and wait for those of others."""
        self._is_leg_full = False

    @property
    def is_full(self) -> bool:
        """Whether no more of what the client asks may pass now."""
        return self._is_leg_full or bool(self._unsent)

    @property
    def is_session_over(self) -> bool:
        return self._opener.is_session_over

    @property
    def held(self) -> int:
        """Bytes of answers that wait for those of others."""
        return sum(len(part) for ticket in self._held for part in ticket.waiting)

    def request(self, piece: Piece[RequestHead]) -> None:
        """The next bytes of a request. Raises ProtocolError."""
        assert self._owner is not None
        under_way = self._wire.in_flight
        passed = self._wire.receive_requests(piece.buffer, self._listener.now())
        if self._wire.in_flight > under_way:
            self._tickets.append(self._owner.expect())
        if self._wire.problem is not None:
            raise self._wire.problem
        if self._leg.is_open and not self._unsent:
            self._leg.send(passed)
        else:
            self._unsent += passed

    def pace(self) -> None:
        """Answers have left, or the client reads again, or no more."""
        while self._held and not self._held[0].waiting:
            self._held.popleft()
        if self._owner is not None:
            self._leg.pause(is_paused=self._owner.client.is_writing_paused or self.held > MOST_HELD)

    def close(self) -> None:
        self._owner = None
        self._wire.end()
        self._leg.close(linger=LINGER)
        self._opener.release()

    # Called by its leg

    def leg_opened(self) -> None:
        unsent, self._unsent = self._unsent, []
        self._leg.send(unsent)
        self.pace()
        if self._owner is not None:
            self._owner.leg_changed()

    def leg_received(self, chunk: memoryview) -> None:
        try:
            for piece in self._cutter.cut(chunk):
                self._receive(piece.buffer, is_last=piece.is_last)
            if self._cutter.problem is not None:
                raise self._cutter.problem
        except ProtocolError as problem:
            self._opener.answered_badly(problem)
            self._end(is_within_answer=True)
            return
        if self._owner is not None:
            self._owner.leg_changed()

    def leg_paused(self, *, is_paused: bool) -> None:
        self._is_leg_full = is_paused
        if self._owner is not None:
            self._owner.leg_changed()

    def leg_lost(self, reason: str) -> None:
        self._opener.lost("closed" if not self._wire.in_flight else "closed_in_flight", reason)
        self._end(is_within_answer=self._wire.has_unfinished_answer)

    # Called by what opens it

    def leg_reached(self, node: int) -> None:
        self._traffic = self._services.traffic.of(node)

    def not_reached(self) -> None:
        self._end(is_within_answer=True)

    def session_ended(self) -> None:
        if self._owner is not None:
            self._owner.leg_changed()

    # How

    def _receive(self, piece: memoryview, *, is_last: bool) -> None:
        parts = self._wire.receive_answers(piece)  # raises for an answer that nobody waits for
        ticket = self._tickets[0]
        if is_last:
            self._tickets.popleft()
        if self._owner is not None and not self._owner.answered(ticket, parts, is_last=is_last):
            if not self._held or self._held[-1] is not ticket:
                self._held.append(ticket)
            if self.held > MOST_HELD:
                self.pace()

    def _passed(self, request: RelayedRequest) -> None:
        self._traffic.add(request, self._listener.now())

    def _end(self, *, is_within_answer: bool) -> None:
        owner = self._owner
        self.close()
        if owner is not None:
            owner.leg_ended(is_within_answer=is_within_answer)
