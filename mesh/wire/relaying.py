"""The wire side of one client whose requests are passed on to a broker, and of the broker's answers. No IO, no clock.

Bytes pass unchanged, whatever API they are of, but for answers in which a broker's address stands (`addresses`) and for
ApiVersions, which lists nothing that is not served here. An answer that is whole in one chunk is rewritten with its
length. Fetch and ShareFetch answers that are not stream through `AnswerWalker`; others are collected, up to
`LARGEST_COLLECTED`.

Some requests are answered here (authentication, say). They are handed out whole, in `local`; nothing that follows one
is passed on before it is answered, and its answer waits for those of the requests before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from struct import Struct
from typing import Final, Protocol

from mesh.wire.addresses import NodeAddresses, carries_addresses, with_addresses
from mesh.wire.answer_walker import AnswerWalker
from mesh.wire.api_versions_filter import Raise, limited
from mesh.wire.apis import KNOWN_APIS, ApiKey
from mesh.wire.errors import ProtocolError
from mesh.wire.first_errors import first_error
from mesh.wire.messages import Buffer
from mesh.wire.passed_authentication import OF_AUTHENTICATION, PassedAuthentication
from mesh.wire.passing import AnswerCutter, AnswerHead, Piece, RequestCutter, RequestHead
from mesh.wire.plain_answers import is_plain_produce_answer
from mesh.wire.produce_head import acks_of

LARGEST_COLLECTED: Final = 128 << 20
"""Bytes of an answer that is rewritten, and so collected first."""
LARGEST_ANSWER: Final = (1 << 31) - 1
"""Bytes of an answer that passes: nothing of it is kept."""
MOST_IN_FLIGHT: Final = 1_000
"""Requests of a connection that wait for their answers; beyond it nothing is passed on, until some are answered."""
LARGEST_LOCAL: Final = 64 << 10
"""Bytes of a request that is answered here: the largest holds a token."""
LARGEST_PRODUCE_HEAD: Final = 128 << 10
"""Bytes in front of a Produce request's acks: two texts of at most 32 KiB, and tagged fields."""
_LENGTH: Final = 4
_FRAME_LENGTH: Final = Struct(">i")
_STREAMED: Final = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH})
_API_KEYS: Final[Mapping[int, ApiKey]] = {int(key): key for key in ApiKey}
"""The same as to call `ApiKey`, in a twentieth of the time; each request asks."""


class Room(Protocol):
    """Memory for the request of one connection that is being taken as a whole."""

    def take(self, size: int) -> bool:
        """Whether there is room for a request of so many bytes. If not, the connection is told of it when there is."""

    def give_back(self) -> None:
        """The request is whole, or the connection has ended."""


class RelayedRequest:
    """A request that waits for its answer. began: when it was passed on, by the clock of the caller. size, answer_size:
    bytes, without the four of their lengths; answer_size is None for one without an answer of its broker. error: as
    `mesh.wire.first_errors` says."""

    __slots__ = (
        "answer",
        "answer_size",
        "api_key",
        "api_version",
        "began",
        "correlation_id",
        "error",
        "is_local",
        "size",
    )

    def __init__(self, head: RequestHead, began: float, *, is_local: bool) -> None:
        self.api_key = _API_KEYS[head.api_key]
        self.api_version = head.api_version
        self.correlation_id = head.correlation_id
        self.size = head.length
        self.began = began
        self.is_local = is_local
        self.answer: list[Buffer] | None = None
        self.answer_size: int | None = None
        self.error = 0


class RelayedConnection:
    """The requests of one client on their way to a broker, and the answers on their way back.

    served: the versions of each API that is passed on. advertised: those that ApiVersions lists at most. local: APIs
    that are answered here. answered: told of each answer that has left. limit: bytes of the largest request. guard:
    told of the API of each request that is to be passed on; raises ProtocolError if its client may not ask yet, or any
    more. authentication: takes note of one that passes; its requests and answers are whole when they do.
    raise_versions: what ApiVersions lists besides, as in `limited`.
    """

    def __init__(
        self,
        served: Mapping[ApiKey, tuple[int, int]],
        advertised: Mapping[ApiKey, tuple[int, int]],
        local: Collection[ApiKey],
        addresses: NodeAddresses,
        answered: Callable[[RelayedRequest], None],
        limit: int,
        guard: Callable[[int], None] | None = None,
        authentication: PassedAuthentication | None = None,
        raise_versions: Raise | None = None,
    ) -> None:
        self._served = served
        self._raise_versions = raise_versions
        self._advertised = advertised
        self._local = local
        self._addresses = addresses
        self._answered = answered
        self._guard = guard
        self._authentication = authentication
        self._room: Room | None = None
        """Of requests that are taken as a whole; a relay takes none."""
        self._watched: Collection[ApiKey] = OF_AUTHENTICATION if authentication is not None else ()
        self.problem: ProtocolError | None = None
        """What ended the stream of requests. Those before it are answered; then the connection is to be closed."""
        self._requests = RequestCutter(limit)
        self._answers = AnswerCutter(LARGEST_ANSWER)
        self._expected: deque[RelayedRequest] = deque()
        self.local: list[bytes] = []
        """Frames, with their lengths, that are to be answered here; taken out by the caller."""
        self._waiting: deque[Piece[RequestHead]] = deque()
        """What came behind a request that is answered here and is not yet."""
        self._unanswered: RelayedRequest | None = None
        self._held: bytearray | None = None
        """A local request that is not whole yet, or the beginning of a Produce request whose acks have not come."""
        self._produce: RequestHead | None = None
        self._look_at = 0
        """How much there has to be of its beginning before it is looked at again."""
        self._is_local = False
        self._answering: RelayedRequest | None = None
        self._answer_size = 0
        self._is_plain = False
        """Whether the present answer is known to say nothing but offsets, and the names of topics."""
        self._walker: AnswerWalker | None = None
        self._collected: list[memoryview] | None = None

    # State

    @property
    def in_flight(self) -> int:
        """How many requests wait for their answers."""
        return len(self._expected)

    @property
    def is_blocked(self) -> bool:
        """Whether a request has to be answered, here or by the broker, before anything is passed on again."""
        return self._unanswered is not None or bool(self._waiting)

    @property
    def has_unfinished_frame(self) -> bool:
        return self._requests.is_unfinished

    @property
    def has_unfinished_answer(self) -> bool:
        return self._answers.is_unfinished

    def change(self, *, local: Collection[ApiKey] | None = None, limit: int | None = None) -> None:
        """From the next request on."""
        if local is not None:
            self._local = local
        if limit is not None:
            self._requests.limit = limit

    def end(self) -> None:
        """Nothing passes any more, and nobody is told of anything: no cycle may stay."""
        self._answered, self._guard = _told_to_nobody, None
        self._waiting.clear()
        self._held = self._walker = self._collected = None
        if self._room is not None:
            self._room.give_back()
            self._room = None

    # From the client

    def receive_requests(self, chunk: memoryview, now: float) -> list[Buffer]:
        """What is to be passed on of these bytes. `problem` tells what ended the stream behind that."""
        is_passing = self._held is None and not self._waiting
        if is_passing and self._requests.is_within_frame(chunk):
            return [chunk]  # most of the bytes that are produced
        self._waiting += self._requests.cut(chunk)
        return self.pass_on(now)

    def pass_on(self, now: float) -> list[Buffer]:
        """What may be passed on now, of what has come; as `receive_requests`."""
        passed: list[Buffer] = []
        try:
            self._pass_on(now, passed)
        except ProtocolError as problem:
            self.problem = problem.with_traceback(None)  # whose frames have the chunk
            self._waiting.clear()
        if not self._waiting:
            self.problem = self.problem or self._requests.problem
        return passed

    def _pass_on(self, now: float, passed: list[Buffer]) -> None:
        waiting = self._waiting
        while waiting and self._unanswered is None and len(self._expected) <= MOST_IN_FLIGHT:
            if self._room is not None and (head := waiting[0].head) is not None and not self._room.take(head.length):
                break
            piece = waiting.popleft()
            if piece.head is not None:
                self._begin_request(piece.head, now)
            if self._held is None:
                passed.append(piece.buffer)
            else:
                self._hold(piece, now, passed)

    def _begin_request(self, head: RequestHead, now: float) -> None:
        if head.api_key in self._local:
            self._check_size(head)
            self._held, self._is_local = bytearray(), True
            self._expected.append(RelayedRequest(head, now, is_local=True))
            return
        if self._guard is not None:
            self._guard(head.api_key)
        self._check_served(head)
        if head.api_key == ApiKey.PRODUCE:
            self._held, self._produce, self._look_at = bytearray(), head, 0
        else:
            if head.api_key in self._watched:
                self._check_size(head)
                self._held = bytearray()
            self._expected.append(RelayedRequest(head, now, is_local=False))

    def _check_served(self, head: RequestHead) -> None:
        served = self._served.get(head.api_key)  # type: ignore[call-overload]  # an IntEnum's member equals its number
        if served is None:
            raise ProtocolError("unknown_api", _not_served(head.api_key))
        if not served[0] <= head.api_version <= served[1] and head.api_key != ApiKey.API_VERSIONS:
            name, (lowest, highest) = ApiKey(head.api_key).name, served
            raise ProtocolError("unsupported_version", f"{name} v{head.api_version} is not in v{lowest}-{highest}")

    def _check_size(self, head: RequestHead) -> None:
        """Of a request that is kept until it is whole."""
        if head.length > LARGEST_LOCAL:
            raise ProtocolError("frame_size", f"a frame of {head.length} bytes; up to {LARGEST_LOCAL} are allowed")

    def _hold(self, piece: Piece[RequestHead], now: float, passed: list[Buffer]) -> None:
        held = self._held
        assert held is not None
        if self._is_local:
            held += piece.buffer
            if piece.is_last:
                self.local.append(bytes(held))
                self._unanswered = self._expected[-1]
                self._held, self._is_local = None, False
            return
        head = self._produce
        if head is None:
            self._hold_authentication(piece, passed)
            return
        begin = piece.buffer if not held else held + piece.buffer
        if len(begin) < self._look_at and not piece.is_last:
            self._held = bytearray(begin)
            return
        self._look_at = 2 * len(begin)  # a beginning that comes byte by byte is not read as often
        acks = acks_of(head.api_version, begin)
        if acks is None:
            if piece.is_last or len(begin) > LARGEST_PRODUCE_HEAD:
                raise ProtocolError("truncated", "a Produce request that ends before its acks")
            self._held = bytearray(begin)
            return
        request = RelayedRequest(head, now, is_local=False)
        self._held = self._produce = None
        passed.append(begin)
        if acks:
            self._expected.append(request)
        else:
            self._answered(request)

    def _hold_authentication(self, piece: Piece[RequestHead], passed: list[Buffer]) -> None:
        held, request = self._held, self._expected[-1]
        assert held is not None and self._authentication is not None
        held += piece.buffer
        if piece.is_last:
            try:
                self._authentication.requested(request.api_key, request.api_version, bytes(held))
            except ProtocolError:
                self._expected.pop()  # it is not passed on, so nobody answers it
                raise
            self._held = None
            passed.append(held)

    def answer(self, answer: list[Buffer]) -> list[Buffer]:
        """The answer to the request of `local` that was handed out last, with its length; what may leave now."""
        request, self._unanswered = self._unanswered, None
        assert request is not None
        request.answer = answer
        return self._leave()

    # From the broker

    def receive_answers(self, chunk: memoryview) -> list[Buffer]:
        """What the client is to be sent of these bytes. Raises ProtocolError."""
        sent: list[Buffer] = []
        pieces = self._answers.cut(chunk)
        for piece in pieces:
            if piece.head is not None:
                self._begin_answer(piece.head, piece)
            self._continue_answer(piece, sent)
            if piece.is_last:
                self._end_answer()
                if self._expected and self._expected[0].answer is not None:
                    sent += self._leave()
        if self._answers.problem is not None:
            raise self._answers.problem
        return sent

    def _begin_answer(self, head: AnswerHead, piece: Piece[AnswerHead]) -> None:
        if not self._expected:
            raise ProtocolError("unexpected_response", f"response {head.correlation_id}, and no request waits")
        request = self._expected[0]
        if request.correlation_id != head.correlation_id or request.is_local:
            detail = f"response {head.correlation_id}, {request.correlation_id} is expected"
            raise ProtocolError("unexpected_response", detail)
        request.answer_size = self._answer_size = head.length
        self._answering, key = request, request.api_key
        self._is_plain = (
            key is ApiKey.PRODUCE and piece.is_whole and is_plain_produce_answer(request.api_version, piece.buffer)
        )
        if not self._is_plain:
            request.error = first_error(key, request.api_version, piece.buffer)

    def _continue_answer(self, piece: Piece[AnswerHead], sent: list[Buffer]) -> None:
        request = self._answering
        assert request is not None
        if self._walker is not None:
            sent += self._walker.feed(piece.buffer)
        elif self._collected is not None:
            self._collect(piece, request, sent)
        elif piece.head is None or not self._is_looked_at(request):
            sent.append(piece.buffer)
        elif piece.is_whole:
            sent += self._rewritten(request, piece.buffer[_LENGTH:])
        elif (walker := self._walker_of(request)) is not None:
            self._walker = walker
            sent.append(piece.buffer[:_LENGTH])
            sent += walker.feed(piece.buffer[_LENGTH:])
        else:
            if self._answer_size > LARGEST_COLLECTED:
                raise ProtocolError("frame_size", f"a {request.api_key.name} answer of {self._answer_size} bytes")
            self._collected = []
            self._collect(piece, request, sent)

    def _collect(self, piece: Piece[AnswerHead], request: RelayedRequest, sent: list[Buffer]) -> None:
        assert self._collected is not None
        self._collected.append(memoryview(bytes(piece.buffer)))  # a chunk that waits would hold all of its memory
        if piece.is_last:
            whole = memoryview(b"".join(self._collected))
            self._collected = None
            sent += self._rewritten(request, whole[_LENGTH:])

    def _is_looked_at(self, request: RelayedRequest) -> bool:
        key = request.api_key
        if self._is_plain:
            return False
        return key is ApiKey.API_VERSIONS or key in self._watched or carries_addresses(key, request.api_version)

    def _walker_of(self, request: RelayedRequest) -> AnswerWalker | None:
        """For an answer that is to stream."""
        if request.api_key not in _STREAMED:
            return None
        return AnswerWalker(request.api_key, request.api_version, self._answer_size)

    def _rewritten(self, request: RelayedRequest, answer: memoryview) -> Sequence[Buffer]:
        if request.api_key in self._watched:
            assert self._authentication is not None
            frame = _FRAME_LENGTH.pack(len(answer)) + bytes(answer)
            self._authentication.answered(request.api_key, request.api_version, frame)
            return [frame]
        if request.api_key is ApiKey.API_VERSIONS:
            return limited(request.api_version, answer, self._advertised, self._raise_versions)
        return with_addresses(request.api_key, request.api_version, answer, self._addresses)

    def _end_answer(self) -> None:
        if self._walker is not None and not self._walker.is_done:
            raise ProtocolError("truncated", "a Fetch answer that ends before its end")
        self._walker = None
        request, self._answering = self._expected.popleft(), None
        if self._authentication is not None and request.api_key not in self._watched:
            self._authentication.answered_other(request.api_key)
        self._answered(request)

    def _leave(self) -> list[Buffer]:
        """Answers made here for which no earlier one is missing."""
        sent: list[Buffer] = []
        expected = self._expected
        while expected and expected[0].answer is not None:
            request = expected.popleft()
            sent += request.answer or ()
            request.answer = None
            self._answered(request)
        return sent


def _told_to_nobody(request: RelayedRequest) -> None: ...


def _not_served(key: int) -> str:
    return f"{ApiKey(key).name} is not served here" if key in KNOWN_APIS else f"API {key} is not known"
