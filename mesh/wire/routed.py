"""The wire side of one client of a union of clusters, and of the broker that its connection leads to. No IO, no clock.

It is a relayed connection whose requests are taken whole and looked at before anything of them is passed on: once some
partitions of a request are upstream, one that belongs to another cluster could only be refused by closing the
connection. A request of which all is for the connection's own broker is passed on, as its cluster calls things. Any
other is answered here, as authentication is: nothing that follows one is passed on before it is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from mesh.wire.addresses import NodeAddresses
from mesh.wire.answer_walker import AnswerWalker
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import Buffer
from mesh.wire.passing import Piece, RequestHead
from mesh.wire.relaying import RelayedConnection, RelayedRequest, Room

LARGEST_TAKEN: Final = 16 << 20
"""Bytes of a request without records."""


class PassedRequest(NamedTuple):
    """A request as the broker is to have it, its length in front. is_answered: False for a Produce without acks."""

    frame: Sequence[Buffer]
    is_answered: bool


class Translation(Protocol):
    """What the requests and answers of a connection become on their way."""

    def request(self, head: RequestHead, frame: memoryview) -> PassedRequest | None:
        """None: it is to be answered here. frame: with its length. Raises ProtocolError."""

    def leaf_of_nodes(self, api_key: ApiKey, version: int) -> int | None:
        """For an answer that may stream: what `AnswerWalker` puts into node ids; None if it must be whole."""

    def is_changed(self, api_key: ApiKey, version: int, *, is_plain: bool) -> bool:
        """Whether something may have to be changed in the answer of this version. is_plain: nothing but offsets and
        names stand in it, as `mesh.wire.plain_answers` says."""

    def answer(self, api_key: ApiKey, version: int, answer: memoryview) -> Sequence[Buffer]:
        """The answer as the client is to have it, its length in front. answer: without. Raises ProtocolError."""


class RoutedConnection(RelayedConnection):
    """The requests of one client of a union on their way to a broker, and the answers on their way back.

    As `RelayedConnection`, and translation: of all that passes. `local` has the requests that it does not let pass,
    too; those are not counted as what `local_apis` names.
    """

    def __init__(
        self,
        served: Mapping[ApiKey, tuple[int, int]],
        local: Collection[ApiKey],
        addresses: NodeAddresses,
        translation: Translation,
        answered: Callable[[RelayedRequest], None],
        limit: int,
        guard: Callable[[int], None] | None = None,
        room: Room | None = None,
    ) -> None:
        super().__init__(served, served, local, addresses, answered, limit, guard)
        self.translation = translation
        """May be replaced: for requests that come, and for answers, from now on."""
        self._taken: RequestHead | None = None
        self._room = room

    def _begin_request(self, head: RequestHead, now: float) -> None:
        if head.api_key in self._local:
            super()._begin_request(head, now)
            return
        if self._guard is not None:
            self._guard(head.api_key)
        self._check_served(head)
        if head.api_key != ApiKey.PRODUCE and head.length > LARGEST_TAKEN:
            raise ProtocolError("frame_size", f"a frame of {head.length} bytes; up to {LARGEST_TAKEN} are allowed")
        self._taken, self._held = head, bytearray()

    def _hold(self, piece: Piece[RequestHead], now: float, passed: list[Buffer]) -> None:
        head, held = self._taken, self._held
        if head is None or held is None:
            super()._hold(piece, now, passed)
            return
        if piece.is_whole:
            frame = piece.buffer
        else:
            held += piece.buffer
            if not piece.is_last:
                return
            frame = memoryview(held)
        self._taken = self._held = None
        if self._room is not None:
            self._room.give_back()
        translated = self.translation.request(head, frame)
        request = RelayedRequest(head, now, is_local=translated is None)
        if translated is None:
            self.local.append(bytes(frame))
            self._unanswered = request
        else:
            passed += translated.frame
            if not translated.is_answered:
                self._answered(request)
                return
        self._expected.append(request)

    def _is_looked_at(self, request: RelayedRequest) -> bool:
        return self.translation.is_changed(request.api_key, request.api_version, is_plain=self._is_plain)

    def _walker_of(self, request: RelayedRequest) -> AnswerWalker | None:
        leaf = self.translation.leaf_of_nodes(request.api_key, request.api_version)
        if leaf is None:
            return None
        return AnswerWalker(request.api_key, request.api_version, self._answer_size, leaf)

    def _rewritten(self, request: RelayedRequest, answer: memoryview) -> Sequence[Buffer]:
        return self.translation.answer(request.api_key, request.api_version, answer)
