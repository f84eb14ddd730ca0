"""Holds some frames between a client and the rest of its connection: requests until it is decided what happens to them,
and answers until they are changed. No IO, no clock.

Both streams of a connection are cut into frames. Most requests and their answers pass in pieces, as they arrive. A
request that has to be examined is kept until it is complete, and later requests wait. The same applies to the answers
of such requests.

Requests behind a request of an authentication wait for its answer. So each request is examined when it is known whether
the client is authenticated, even if the client sends all requests at once.

Requests pass with correlation ids of the mesh, and their answers come back with those ids. A client chooses its own
ids, perhaps the same one for all requests. With those ids, an answer that the broker repeats, leaves out or sends too
early could pass in place of another one, and so pass unchanged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple, Protocol

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ProtocolError
from mesh.wire.fetched_topics import FetchedTopics
from mesh.wire.messages import Buffer
from mesh.wire.passed_authentication import OF_AUTHENTICATION
from mesh.wire.passing import AnswerCutter, AnswerHead, Piece, RequestCutter, RequestHead
from mesh.wire.produce_head import acks_of
from mesh.wire.reader import INT32
from mesh.wire.relaying import LARGEST_ANSWER, LARGEST_COLLECTED, LARGEST_PRODUCE_HEAD

_PROBE: Final = Struct(">ihhihi?")
"""A Metadata v4 for no topics: length, key, version, correlation id, client id (null), number of topics, and whether
topics may be created."""
_PROBE_VERSION: Final = 4
_REQUEST_ID_AT: Final = 8
"""The position of the correlation id in a request, which begins with its length."""
_ANSWER_ID_AT: Final = 4
_LARGEST_ID: Final = (1 << 31) - 1


class AnswerChange(Protocol):
    """Changes the answer to a request."""

    async def changed(self, answer: memoryview) -> Sequence[Buffer] | FollowUp:
        """Returns the answer for the client, or a further request. Frames have their length in front. Raises
        ProtocolError."""


class FollowUp(NamedTuple):
    """A further request to the broker, sent before the client gets an answer, in place of a request that holds up later
    ones. It has the correlation id of that request's frame. frame: with its length. change: changes its answer."""

    frame: Sequence[Buffer]
    change: AnswerChange


class Decision(NamedTuple):
    """The decision about a request. frame: the frame to pass on, with its length; None to pass nothing on. answer: the
    answer if nothing is passed on; None for no answer. change: changes the answer of the broker; None if it stays.
    check: looks at an answer that stays, before it passes. is_answered: False for a Produce with acks=0. is_alone:
    whether later requests wait until the client has its answer, so that a `FollowUp` is possible."""

    frame: Sequence[Buffer] | None
    answer: Sequence[Buffer] | None = None
    change: AnswerChange | None = None
    check: FetchedTopics | None = None
    is_answered: bool = True
    is_alone: bool = False


@dataclass(slots=True, eq=False)
class _Expected:
    """A request that waits for its answer. passed_id: the correlation id with which it passed. client_id: the one that
    the client chose. answer: the answer if the broker gives none. is_probe: True for a request of the mesh, whose
    answer the client does not get."""

    passed_id: int
    client_id: int
    change: AnswerChange | None = None
    check: FetchedTopics | None = None
    answer: Sequence[Buffer] | None = None
    is_probe: bool = False


class InterceptedFrames:
    """The requests of a client and their answers.

    is_taken: whether a request is to be examined; called when the request would continue. None if that depends on
    whether the broker has admitted the client, which is not known yet. Then a request of the mesh goes to the broker
    first: a broker answers it only if the client is admitted. `is_taken` is called again after that answer.

    `passed` and `sent` have the data to pass on to the broker and to send to the client; the owner empties them.
    pending_request: a request that waits for `decide`: its head with the correlation id of the client, for an answer of
    the mesh, and its frame with the one of the mesh, to be passed on. pending_answer: an answer that waits for
    `answer_changed`, with its change. It has the correlation id of the client.
    """

    def __init__(self, is_taken: Callable[[RequestHead], bool | None], limit: Callable[[], int]) -> None:
        """limit: the size of the largest request, in bytes."""
        self.passed: list[Buffer] = []
        self.sent: list[Buffer] = []
        self.pending_request: tuple[RequestHead, memoryview] | None = None
        self.pending_answer: tuple[AnswerChange, memoryview] | None = None
        self.problem: ProtocolError | None = None
        """The error that ended the stream of requests."""
        self._is_taken: Final = is_taken
        self._limit: Final = limit
        self._requests: Final = RequestCutter(limit())
        self._answers: Final = AnswerCutter(LARGEST_ANSWER)
        self._waiting: deque[Piece[RequestHead]] = deque()
        self._coming: deque[Piece[AnswerHead]] = deque()
        self._expected: deque[_Expected] = deque()
        self._last_id = 0
        """The correlation id of the last request that began."""
        self._head: RequestHead | None = None
        """The head of the request that is held."""
        self._held = bytearray()
        self._is_kept = False
        """True if the request is held until it is complete; False if only until its acks are known."""
        self._collected: bytearray | None = None
        self._alone: _Expected | None = None
        """The request that holds up later ones."""
        self._authenticating: _Expected | None = None
        """The request of an authentication that is passing. It holds up later ones when it has passed."""
        self._answered_request: _Expected | None = None
        """The request whose answer comes next, or was the last one."""

    # State

    @property
    def is_holding(self) -> bool:
        """True if a request or an answer waits for a decision."""
        return self.pending_request is not None or self.pending_answer is not None

    @property
    def has_waiting_requests(self) -> bool:
        """True if later requests would have to wait, so that none need be read: also while a client authenticates."""
        is_authenticating = self._alone is not None and self._alone.change is None
        return self.pending_request is not None or is_authenticating or bool(self._waiting)

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
        """Takes the decision about the pending_request request."""
        assert self.pending_request is not None
        (head, _), self.pending_request = self.pending_request, None
        if decision.frame is not None:
            self.passed += decision.frame
            if decision.is_answered:
                self._expected.append(_Expected(self._last_id, head.correlation_id, decision.change, decision.check))
                if decision.is_alone:
                    self._alone = self._expected[-1]
        elif decision.answer is not None:
            self._expected.append(_Expected(self._last_id, head.correlation_id, answer=decision.answer))
            self._send_ready_answers()

    def go_on(self) -> None:
        """Continues with the requests that waited for a decision."""
        self._go_on()

    def _go_on(self) -> None:
        while self._waiting and self.pending_request is None and self._alone is None:
            piece = self._waiting.popleft()
            if piece.head is not None and not self._begin(piece.head):
                self._waiting.appendleft(piece)
                return
            buffer = piece.buffer if piece.head is None else _with_id(piece.buffer, _REQUEST_ID_AT, self._last_id)
            if self._head is None:
                self.passed.append(buffer)
                if piece.is_last:
                    self._alone, self._authenticating = self._authenticating, None
                continue
            self._held += buffer
            if self._is_kept:
                self._keep(piece)
            else:
                self._hold_produce(piece)

    def _begin(self, head: RequestHead) -> bool:
        """Begins a request. Returns False if the request waits for the answer to a probe."""
        is_taken = self._is_taken(head)
        self._last_id = self._last_id % _LARGEST_ID + 1
        if is_taken is None:
            self._probe(self._last_id)
            return False
        if is_taken:
            self._head, self._is_kept = head, True
        elif head.api_key == ApiKey.PRODUCE:
            self._head, self._is_kept = head, False
        else:
            self._expected.append(_Expected(self._last_id, head.correlation_id))
            if head.api_key in OF_AUTHENTICATION:
                self._authenticating = self._expected[-1]
        return True

    def _probe(self, correlation_id: int) -> None:
        """Sends a request that a broker answers only if it has admitted the client."""
        length = _PROBE.size - 4
        self.passed.append(_PROBE.pack(length, ApiKey.METADATA, _PROBE_VERSION, correlation_id, -1, 0, False))
        self._alone = _Expected(correlation_id, correlation_id, is_probe=True)
        self._expected.append(self._alone)

    def _keep(self, piece: Piece[RequestHead]) -> None:
        if piece.is_last:
            assert self._head is not None
            self.pending_request = self._head, memoryview(self._held)
            self._head, self._held = None, bytearray()

    def _hold_produce(self, piece: Piece[RequestHead]) -> None:
        """Holds a Produce until it is known whether it will have an answer."""
        head = self._head
        assert head is not None
        try:
            acks = acks_of(head.api_version, self._held)
        except ProtocolError:
            acks = 0  # the code that forwards the request refuses it
        if acks is None and not piece.is_last and len(self._held) <= LARGEST_PRODUCE_HEAD:
            return
        if acks:
            self._expected.append(_Expected(self._last_id, head.correlation_id))
        self.passed.append(self._held)
        self._head, self._held = None, bytearray()

    # Answers

    def receive_answers(self, buffers: Sequence[Buffer]) -> None:
        """Takes bytes of the broker's answers. Raises ProtocolError."""
        for buffer in buffers:
            self._coming += self._answers.cut(memoryview(buffer))
            if self._answers.problem is not None:
                raise self._answers.problem
        self._send()

    def answer_changed(self, answer: Sequence[Buffer] | FollowUp) -> None:
        """Takes the changed form of the pending_answer answer, or a further request in its place, and continues. Raises
        ProtocolError for an error in a later answer."""
        assert self.pending_answer is not None
        self.pending_answer = None
        alone = self._alone if self._answered_request is self._alone else None
        if isinstance(answer, FollowUp):
            assert alone is not None, "only a request that holds up what follows it has another one in its place"
            alone.change = answer.change
            self._expected.appendleft(alone)
            self.passed += answer.frame
            return
        if alone is not None:
            self._alone = None
        self.sent += answer
        self._send_ready_answers()
        self._send()
        self._go_on()

    def _send(self) -> None:
        while self._coming and self.pending_answer is None:
            piece = self._coming.popleft()
            buffer = piece.buffer
            if piece.head is not None:
                self._begin_answer(piece.head)
                buffer = _with_id(buffer, _ANSWER_ID_AT, self._expected[0].client_id)
            if (check := self._expected[0].check) is not None:
                check.feed(buffer)
            if self._collected is not None:
                self._collected += buffer
            elif not self._expected[0].is_probe:
                self.sent.append(buffer)
            if piece.is_last:
                self._end_answer()

    def _begin_answer(self, head: AnswerHead) -> None:
        if not self._expected or self._expected[0].passed_id != head.correlation_id:
            raise ProtocolError("unexpected_response", f"response {head.correlation_id} is not expected")
        if self._expected[0].change is not None:
            if head.length > LARGEST_COLLECTED:
                raise ProtocolError("frame_size", f"an answer of {head.length} bytes that an interceptor wants to see")
            self._collected = bytearray()

    def _end_answer(self) -> None:
        expected = self._expected.popleft()
        if self._collected is not None:
            assert expected.change is not None
            self.pending_answer, self._answered_request = (expected.change, memoryview(self._collected)), expected
            self._collected = None
            return
        self._send_ready_answers()
        if expected is self._alone:
            self._alone = None
            self._go_on()

    def _send_ready_answers(self) -> None:
        """Sends answers of the mesh that no longer wait for an earlier answer."""
        if self.pending_answer is not None or self._collected is not None:
            return
        while self._expected and self._expected[0].answer is not None:
            self.sent += self._expected.popleft().answer or ()


def _with_id(buffer: memoryview, at: int, correlation_id: int) -> memoryview:
    """Returns the beginning of a frame with another correlation id: the same memory, unless it is constant."""
    if buffer.readonly:
        buffer = memoryview(bytearray(buffer))
    INT32.pack_into(buffer, at, correlation_id)
    return buffer
