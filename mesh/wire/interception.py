"""The frames between one client and the rest of its connection, of which some are held up: requests until it is decided
what is passed on, and answers until they are as the client is to have them. No IO, no clock.

It stands between a client and what carries its requests, whatever that is, and cuts both streams. Requests that are not
taken pass in pieces, as they come, and so do their answers. A request that is taken is kept until it is whole; what
follows it waits. The same goes for the answers that somebody wants to see.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import Buffer
from mesh.wire.passing import AnswerCutter, AnswerHead, Piece, RequestCutter, RequestHead
from mesh.wire.produce_head import acks_of
from mesh.wire.relaying import LARGEST_ANSWER, LARGEST_COLLECTED, LARGEST_PRODUCE_HEAD


class AnswerChange(Protocol):
    """The change of the answer to a request."""

    async def changed(self, answer: memoryview) -> Sequence[Buffer] | FollowUp:
        """As the client is to have it; both with their length in front. Raises ProtocolError."""


class FollowUp(NamedTuple):
    """A further request in the place of one that holds up what follows it, before its client has an answer. It has the
    same correlation id. frame: with its length. change: of its answer."""

    frame: Sequence[Buffer]
    change: AnswerChange


class Decision(NamedTuple):
    """The decision about a request that was taken. frame: what is passed on, with its length; None: nothing is. answer:
    to a request of which nothing is passed on; None: it has none. change: of the answer, if anybody wants to see it.
    is_answered: False for a Produce without acks. is_alone: nothing that follows is passed on before the client has its
    answer; so there may be a `FollowUp`."""

    frame: Sequence[Buffer] | None
    answer: Sequence[Buffer] | None = None
    change: AnswerChange | None = None
    is_answered: bool = True
    is_alone: bool = False


@dataclass(slots=True, eq=False)
class _Expected:
    """A request that waits for its answer. answer: made here."""

    correlation_id: int
    change: AnswerChange | None = None
    answer: Sequence[Buffer] | None = None


class InterceptedFrames:
    """The requests of a client and their answers.

    is_taken: whether a request is looked at; asked for each. What is to be passed on and sent is left in `passed` and
    `sent`, from which the owner takes it. undecided: a request, until `decide` is called; unseen: an answer with its
    change, until `see` is.
    """

    def __init__(self, is_taken: Callable[[RequestHead], bool], limit: Callable[[], int]) -> None:
        """limit: bytes of the largest request."""
        self.passed: list[Buffer] = []
        self.sent: list[Buffer] = []
        self.undecided: tuple[RequestHead, memoryview] | None = None
        self.unseen: tuple[AnswerChange, memoryview] | None = None
        self.problem: ProtocolError | None = None
        """What ended the stream of requests."""
        self._is_taken: Final = is_taken
        self._limit: Final = limit
        self._requests: Final = RequestCutter(limit())
        self._answers: Final = AnswerCutter(LARGEST_ANSWER)
        self._waiting: deque[Piece[RequestHead]] = deque()
        self._coming: deque[Piece[AnswerHead]] = deque()
        self._expected: deque[_Expected] = deque()
        self._head: RequestHead | None = None
        """Of the request that is kept."""
        self._held = bytearray()
        self._is_kept = False
        """Whether it is kept until it is whole, or only until its acks are there."""
        self._collected: bytearray | None = None
        self._alone: _Expected | None = None
        """The request that holds up what follows it."""
        self._seen: _Expected | None = None
        """The request whose answer is unseen, or was last."""

    # State

    @property
    def is_holding(self) -> bool:
        """Whether a request or an answer waits for a decision."""
        return self.undecided is not None or self.unseen is not None

    @property
    def has_waiting_requests(self) -> bool:
        return self.undecided is not None or bool(self._waiting)

    @property
    def has_unfinished_frame(self) -> bool:
        return self._requests.is_unfinished

    # Requests

    def receive_requests(self, chunk: memoryview) -> None:
        self._requests.limit = self._limit()
        self._waiting += self._requests.cut(chunk)
        self._go_on()
        if not self._waiting:
            self.problem = self._requests.problem

    def decide(self, decision: Decision) -> None:
        """About the request that is undecided."""
        assert self.undecided is not None
        (head, _), self.undecided = self.undecided, None
        if decision.frame is not None:
            self.passed += decision.frame
            if decision.is_answered:
                self._expected.append(_Expected(head.correlation_id, decision.change))
                if decision.is_alone:
                    self._alone = self._expected[-1]
        elif decision.answer is not None:
            self._expected.append(_Expected(head.correlation_id, answer=decision.answer))
            self._leave()

    def go_on(self) -> None:
        """With what waited for a decision."""
        self._go_on()

    def _go_on(self) -> None:
        while self._waiting and self.undecided is None and self._alone is None:
            piece = self._waiting.popleft()
            if piece.head is not None:
                self._begin(piece.head)
            if self._head is None:
                self.passed.append(piece.buffer)
            elif self._is_kept:
                self._keep(piece)
            else:
                self._hold_produce(piece)

    def _begin(self, head: RequestHead) -> None:
        if self._is_taken(head):
            self._head, self._is_kept = head, True
        elif head.api_key == ApiKey.PRODUCE:
            self._head, self._is_kept = head, False
        else:
            self._expected.append(_Expected(head.correlation_id))

    def _keep(self, piece: Piece[RequestHead]) -> None:
        self._held += piece.buffer
        if piece.is_last:
            assert self._head is not None
            self.undecided = self._head, memoryview(self._held)
            self._head, self._held = None, bytearray()

    def _hold_produce(self, piece: Piece[RequestHead]) -> None:
        """Until it is known whether it will have an answer."""
        head = self._head
        assert head is not None
        self._held += piece.buffer
        try:
            acks = acks_of(head.api_version, self._held)
        except ProtocolError:
            acks = 0  # what carries it on refuses it
        if acks is None and not piece.is_last and len(self._held) <= LARGEST_PRODUCE_HEAD:
            return
        if acks:
            self._expected.append(_Expected(head.correlation_id))
        self.passed.append(self._held)
        self._head, self._held = None, bytearray()

    # Answers

    def receive_answers(self, buffers: Sequence[Buffer]) -> None:
        """Raises ProtocolError."""
        for buffer in buffers:
            self._coming += self._answers.cut(memoryview(buffer))
            if self._answers.problem is not None:
                raise self._answers.problem
        self._send()

    def see(self, answer: Sequence[Buffer] | FollowUp) -> None:
        """The answer that was unseen, as the client is to have it. Raises ProtocolError, of those that follow."""
        assert self.unseen is not None
        self.unseen = None
        alone = self._alone if self._seen is self._alone else None
        if isinstance(answer, FollowUp):
            assert alone is not None, "only a request that holds up what follows it has another one in its place"
            alone.change = answer.change
            self._expected.appendleft(alone)
            self.passed += answer.frame
            return
        if alone is not None:
            self._alone = None
        self.sent += answer
        self._leave()
        self._send()
        self._go_on()

    def _send(self) -> None:
        while self._coming and self.unseen is None:
            piece = self._coming.popleft()
            if piece.head is not None:
                self._begin_answer(piece.head)
            if self._collected is None:
                self.sent.append(piece.buffer)
            else:
                self._collected += piece.buffer
            if piece.is_last:
                self._end_answer()

    def _begin_answer(self, head: AnswerHead) -> None:
        if not self._expected or self._expected[0].correlation_id != head.correlation_id:
            raise ProtocolError("unexpected_response", f"response {head.correlation_id} is not expected")
        if self._expected[0].change is not None:
            if head.length > LARGEST_COLLECTED:
                raise ProtocolError("frame_size", f"an answer of {head.length} bytes that an interceptor wants to see")
            self._collected = bytearray()

    def _end_answer(self) -> None:
        expected = self._expected.popleft()
        if self._collected is not None:
            assert expected.change is not None
            self.unseen, self._seen = (expected.change, memoryview(self._collected)), expected
            self._collected = None
        else:
            self._leave()

    def _leave(self) -> None:
        """Answers made here for which no earlier one is missing."""
        if self.unseen is not None or self._collected is not None:
            return
        while self._expected and self._expected[0].answer is not None:
            self.sent += self._expected.popleft().answer or ()
