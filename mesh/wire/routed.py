"""The requests of one client of a union that are passed on to the broker of its connection. No IO, no clock.

Unlike in a relay, a request is read as a whole before any part of it is passed on: once some partitions have been sent
upstream, a partition of another cluster could only be refused by closing the connection. A Produce of a single
partition with acks passes as it arrives. A request that concerns only the connection's own broker is passed on with the
names of its cluster. The mesh answers any other request itself, and later requests wait for its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from mesh.wire.addresses import NodeAddresses
from mesh.wire.answer_walker import AnswerWalker
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ProtocolError
from mesh.wire.fetched_topics import FetchedTopics
from mesh.wire.messages import Buffer
from mesh.wire.one_partition import LARGEST_BEGINNING, OnePartition, OnePartitionReader
from mesh.wire.passing import AnswerHead, Piece, RequestHead
from mesh.wire.relaying import RelayedConnection, RelayedRequest, Room

_LENGTH: Final = 4
LARGEST_TAKEN: Final = 16 << 20
"""The largest request without records, in bytes."""


class PassedRequest(NamedTuple):
    """A request for the broker, with its length in front. is_answered: False for a Produce with acks=0. check: looks at
    the answer, as the client gets it."""

    frame: Sequence[Buffer]
    is_answered: bool
    check: FetchedTopics | None = None


class Translation(Protocol):
    """Translates the requests and answers of a connection."""

    def request(self, head: RequestHead, frame: memoryview) -> PassedRequest | None:
        """Translates a request that passes; returns None if the mesh must answer it. frame: with its length. Raises
        ProtocolError."""

    def passes_unchanged(self, produced: OnePartition) -> bool:
        """Returns True if `request` passes this Produce without a change before its records. False does not exclude
        that."""

    def may_change_records(self, beginning: memoryview, size: int) -> bool:
        """Returns True if `request` may change the records of a partition in a Produce. beginning: the first bytes of
        the records. size: the bytes of all records."""

    def walker(self, api_key: ApiKey, version: int, size: int) -> AnswerWalker | None:
        """Returns the walker that changes an answer of this size in chunks; None if the answer must be complete
        first."""

    def is_changed(self, api_key: ApiKey, version: int, *, is_plain: bool) -> bool:
        """Returns True if an answer of this version may have to change. is_plain: whether it contains only offsets and
        names, as found by `mesh.wire.plain_answers`."""

    def answer(self, api_key: ApiKey, version: int, answer: memoryview) -> Sequence[Buffer]:
        """Translates an answer for the client. answer: without its length; the result has it in front. Raises
        ProtocolError."""


class _PassedOn(RelayedRequest):
    """A request that was passed to the broker. translation: the one that it passed with. check: looks at the answer."""

    __slots__ = ("check", "translation")

    def __init__(self, head: RequestHead, began: float, translation: Translation) -> None:
        super().__init__(head, began, is_local=False)
        self.translation: Final = translation
        self.check: FetchedTopics | None = None


class RoutedConnection(RelayedConnection):
    """The requests of one client of a union on their way to a broker, and the answers on their way back.

    The parameters are those of `RelayedConnection`, and translation, which translates all that passes. `local` also has
    the requests that the translation does not pass; they do not count as requests of the APIs in the parameter `local`.
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
        """The translation of later requests and of their answers; it may be replaced."""
        self._taken: RequestHead | None = None
        self._may_be_one_partition = False
        """True while the request that is being read may be a Produce of a single partition."""
        self._one_partition: Final = OnePartitionReader()
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
        self._may_be_one_partition, self._next_read_at = head.api_key == ApiKey.PRODUCE, 0

    def _hold(self, piece: Piece[RequestHead], now: float, passed: list[Buffer]) -> None:
        head, held = self._taken, self._held
        if head is None or held is None:
            super()._hold(piece, now, passed)
            return
        looks = self._may_be_one_partition and (piece.is_whole or not piece.is_last)
        if looks and self._pass_early(head, held, piece, now, passed):
            return
        if piece.is_whole:
            frame = piece.buffer
        else:
            held += piece.buffer
            if not piece.is_last:
                return
            frame = memoryview(held)
        self._end_taking()
        self._pass(_PassedOn(head, now, self.translation), self.translation.request(head, frame), frame, passed)

    def _pass_early(
        self, head: RequestHead, held: bytearray, piece: Piece[RequestHead], now: float, passed: list[Buffer]
    ) -> bool:
        """Passes a request on if the fields before its records suffice, and returns whether it did. The records need
        not have arrived."""
        if len(held) + len(piece.buffer) < self._next_read_at:
            return False
        beginning = memoryview(held + piece.buffer) if held else piece.buffer
        self._next_read_at = 2 * len(beginning)  # limits how often a beginning that arrives byte by byte is read
        found = self._one_partition.read(head.api_version, beginning, _LENGTH + head.length)
        if found == "incomplete":
            self._may_be_one_partition = len(beginning) < LARGEST_BEGINNING
            return False
        self._may_be_one_partition = False
        if found is None or not found.acks:
            return False  # without an answer, a move of the topic cannot tell whether the whole request has passed
        if self.translation.may_change_records(beginning[found.records_at :], found.size):
            return False
        if self.translation.passes_unchanged(found):
            translated = PassedRequest((beginning,), is_answered=True)
        elif piece.is_whole:
            return False
        else:
            short = self.translation.request(head, memoryview(found.without_records(beginning)))
            if short is None:
                return False
            translated = PassedRequest(found.with_records(short.frame, beginning), is_answered=True)
        self._end_taking()
        self._pass(_PassedOn(head, now, self.translation), translated, beginning, passed)
        return True

    def _end_taking(self) -> None:
        self._taken = self._held = None
        if self._room is not None:
            self._room.give_back()

    def _pass(
        self, request: _PassedOn, translated: PassedRequest | None, frame: memoryview, passed: list[Buffer]
    ) -> None:
        if translated is None:
            request.is_local = True
            self.local.append(bytes(frame))
            self._unanswered = request
        else:
            passed += translated.frame
            request.check = translated.check
            if not translated.is_answered:
                self._answered(request)
                return
        self._expected.append(request)

    def _continue_answer(self, piece: Piece[AnswerHead], sent: list[Buffer]) -> None:
        request, before = self._answering, len(sent)
        super()._continue_answer(piece, sent)
        if isinstance(request, _PassedOn) and request.check is not None:
            for buffer in sent[before:]:
                request.check.feed(buffer)

    def _may_change(self, request: RelayedRequest) -> bool:
        return self._translation_of(request).is_changed(request.api_key, request.api_version, is_plain=self._is_plain)

    def _walker_of(self, request: RelayedRequest) -> AnswerWalker | None:
        return self._translation_of(request).walker(request.api_key, request.api_version, self._answer_size)

    def _rewritten(self, request: RelayedRequest, answer: memoryview) -> Sequence[Buffer]:
        return self._translation_of(request).answer(request.api_key, request.api_version, answer)

    def _translation_of(self, request: RelayedRequest) -> Translation:
        # A client knows a topic by the id and the partitions that it asked for, even if the topic has moved since.
        return request.translation if isinstance(request, _PassedOn) else self.translation
