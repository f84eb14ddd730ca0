"""Connections to brokers over which the requests of static routes pass undecoded. Each is for one client and one route.

The requests pass in pieces, as in a relay, whatever is in them. Node ids and addresses in responses are changed where
Produce, Fetch, ShareFetch and ShareAcknowledge may name a new leader. Other APIs with nodes in them have no static
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
from mesh.runtime.entity_router.leaves import Leaves, RouterLeaf
from mesh.runtime.relay.leg_opener import LINGER, LegOpener
from mesh.upstream.links.leg import Leg
from mesh.wire.answer_queue import Ticket
from mesh.wire.answer_walker import AnswerWalker
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.entities.fields import Field
from mesh.wire.entities.kinds import EntityKind
from mesh.wire.entities.layouts import layout
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import Buffer
from mesh.wire.one_partition import OnePartition
from mesh.wire.passing import AnswerCutter, Piece, RequestHead
from mesh.wire.relayed_apis import RELAYED_APIS
from mesh.wire.relaying import LARGEST_ANSWER, RelayedConnection, RelayedRequest
from mesh.wire.routed import PassedRequest, RoutedConnection

_LEADERS_IN_ANSWERS: Final = frozenset({ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE})
_NAMES_NODES: Final = frozenset(
    {EntityKind.NODE, EntityKind.HOST, EntityKind.RESOURCE_NAME, EntityKind.KEY, EntityKind.COORDINATOR_KEY}
)
_OF_FOLLOWERS: Final = "replica_id"
"""The field with the broker id of a follower; a client sends -1 in it."""
MOST_HELD: Final = 1 << 20
"""The most bytes of responses that wait for earlier ones. Above it, their broker is not read."""


def routable(api_key: ApiKey) -> bool:
    """True if an API may have a static route."""
    if api_key in _LEADERS_IN_ANSWERS:
        return True
    if api_key in LISTENER_TABLE or api_key not in RELAYED_APIS:
        return False
    sides = (layout(api_key, RELAYED_APIS[api_key].highest, side) for side in Direction)
    return not any(_has_nodes(fields) for fields in sides)


def _has_nodes(fields: Collection[Field]) -> bool:
    return any(
        (field.kind in _NAMES_NODES and field.name != _OF_FOLLOWERS) or _has_nodes(field.fields) for field in fields
    )


class StaticOwner(Protocol):
    """The connection of a client. The leg reports its events to it."""

    @property
    def client(self) -> ClientTransport: ...

    def expect(self) -> Ticket: ...

    def answered(self, ticket: Ticket, parts: Sequence[Buffer], *, is_last: bool) -> bool:
        """Takes parts of a response. Returns True if they were sent at once, and False if they wait for earlier
        responses."""

    def leg_changed(self) -> None:
        """Called when a leg becomes ready, or full, or has nothing in flight any more."""

    def leg_ended(self, *, is_within_answer: bool) -> None: ...


class _AsItIs:
    """A translation under which requests pass unread; node ids in responses are translated. Implements
    `mesh.wire.routed.Translation`."""

    def __init__(self, answers: LeafTranslation) -> None:
        self._answers = answers

    def request(self, head: RequestHead, frame: memoryview) -> PassedRequest | None:
        raise AssertionError("no request is taken whole")

    def passes_unchanged(self, produced: OnePartition) -> bool:
        return False

    def may_change_records(self, beginning: memoryview, size: int) -> bool:
        return False

    def walker(self, api_key: ApiKey, version: int, size: int) -> AnswerWalker | None:
        return self._answers.walker(api_key, version, size)

    def is_changed(self, api_key: ApiKey, version: int, *, is_plain: bool) -> bool:
        return api_key in _LEADERS_IN_ANSWERS and self._answers.is_changed(api_key, version, is_plain=is_plain)

    def answer(self, api_key: ApiKey, version: int, answer: memoryview) -> Sequence[Buffer]:
        return self._answers.answer(api_key, version, answer)


class _StaticWire(RoutedConnection):
    """The wire of a static route: requests pass in pieces, as in a relay, and responses have the node ids of a
    union."""

    _begin_request = RelayedConnection._begin_request
    _hold = RelayedConnection._hold


class StaticLeg:
    """The leg of one static route. node: the node of the leaf, by the id that its cluster gave it; None for any."""

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
            leaf.services.largest_request(),
        )
        self._cutter = AnswerCutter(LARGEST_ANSWER)
        self._tickets: deque[Ticket] = deque()
        self._leg = Leg(self, leaf.services.chunks)
        self._opener = LegOpener(leaf.services, id)
        self._opener.set_node(node, is_named=False)
        self._opener.open(self, self._leg)
        self._traffic = leaf.services.traffic.of(-1)
        self._unsent: list[Buffer] = []
        self._held: deque[Ticket] = deque()
        """Responses that have arrived, and wait for earlier ones."""
        self._is_leg_full = False

    @property
    def is_full(self) -> bool:
        """True if no more requests of the client may pass now."""
        return self._is_leg_full or bool(self._unsent)

    @property
    def is_session_over(self) -> bool:
        return self._opener.is_session_over

    @property
    def held(self) -> int:
        """The number of bytes of responses that wait for earlier ones."""
        return sum(len(part) for ticket in self._held for part in ticket.waiting)

    def request(self, piece: Piece[RequestHead]) -> None:
        """Takes the next bytes of a request. Raises ProtocolError."""
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
        """Called when responses were sent, and when the client starts or stops reading."""
        while self._held and not self._held[0].waiting:
            self._held.popleft()
        if self._owner is not None:
            self._leg.pause(is_paused=self._owner.client.is_writing_paused or self.held > MOST_HELD)

    def close(self) -> None:
        self._owner = None
        self._opener.release()
        try:
            self._wire.end()
        finally:
            self._leg.close(linger=LINGER)

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

    def leg_full(self, *, is_full: bool) -> None:
        self._is_leg_full = is_full
        if self._owner is not None:
            self._owner.leg_changed()

    def leg_failed(self, problem: BaseException) -> None:
        owner = self._owner
        self.close()
        if owner is not None:
            owner.client.failed(problem)

    def leg_lost(self, reason: str) -> None:
        self._opener.lost("closed" if not self._wire.in_flight else "closed_in_flight", reason)
        self._end(is_within_answer=self._wire.has_unfinished_answer)

    # Called by the opener of its leg

    def leg_reached(self, node: int) -> None:
        self._traffic = self._services.traffic.of(node)

    def not_reached(self) -> None:
        self._end(is_within_answer=True)

    def session_ended(self) -> None:
        if self._owner is not None:
            self._owner.leg_changed()

    # Internals

    def _receive(self, piece: memoryview, *, is_last: bool) -> None:
        parts = self._wire.receive_answers(piece)  # raises for an answer without a request
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
