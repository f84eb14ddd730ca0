"""The requests of one client that are passed on to a broker, and the broker's answers. No IO, no clock.

Bytes of all APIs pass unchanged, except for answers that contain addresses of brokers (`addresses`) and for
ApiVersions, which lists only what is served here. An answer that is complete in one chunk is rewritten with its length.
Incomplete Fetch and ShareFetch answers pass through `AnswerWalker`; other incomplete answers are collected, up to
`LARGEST_COLLECTED`.

The mesh answers some requests itself, such as authentication. These are complete frames in `local`. Later requests are
passed on only after such a request has been answered, and its answer waits for those of earlier requests.
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
"""The largest answer that is rewritten, in bytes; it is collected first."""
LARGEST_ANSWER: Final = (1 << 31) - 1
"""The largest answer that passes through, in bytes: nothing of it is kept."""
MOST_IN_FLIGHT: Final = 1_000
"""The most unanswered requests of a connection. Above it nothing is passed on until some are answered."""
LARGEST_LOCAL: Final = 64 << 10
"""The largest request that the mesh answers itself, in bytes: such a request may contain a SASL token."""
LARGEST_PRODUCE_HEAD: Final = 128 << 10
"""The most bytes before the acks of a Produce request: two strings of at most 32 KiB, and tagged fields."""
_LENGTH: Final = 4
_FRAME_LENGTH: Final = Struct(">i")
_STREAMED: Final = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH})
_API_KEYS: Final[Mapping[int, ApiKey]] = {int(key): key for key in ApiKey}
"""The same as a call of `ApiKey`, in a twentieth of the time; each request needs it."""


class Room(Protocol):
    """Memory for the one request of a connection that is being read as a whole."""

    def take(self, size: int) -> bool:
        """Returns True if there is memory for a request of this size. If not, a callback follows when there is."""

    def give_back(self) -> None:
        """Called when the request is complete, or when the connection has ended."""


class RelayedRequest:
    """A request that waits for its answer. began: when it was passed on, by the caller's clock. size, answer_size:
    bytes after the length field; answer_size is None without an answer of the broker. error: the error code that
    `mesh.wire.first_errors` finds in the answer."""

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

    served: the versions of each API that pass. advertised: the highest versions that ApiVersions lists. local: the APIs
    that the mesh answers itself. addresses: the addresses of brokers for clients. answered: called for each answer that
    has been sent. limit: the size of the largest request, in bytes. guard: called with the API key of each request that
    passes; raises ProtocolError if the client may not send it now. authentication: follows an authentication that
    passes through; its requests and answers are then read as a whole. raise_versions: the additional versions in
    ApiVersions, as in `limited`.
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
        """Memory for requests that are read as a whole; a relay reads none."""
        self._watched: Collection[ApiKey] = OF_AUTHENTICATION if authentication is not None else ()
        self.problem: ProtocolError | None = None
        """The error that ended the stream of requests. Earlier requests are answered; then the connection is closed."""
        self._has_ended = False
        """True after a problem, or the end of the connection. No further byte passes."""
        self._requests = RequestCutter(limit)
        self._answers = AnswerCutter(LARGEST_ANSWER)
        self._expected: deque[RelayedRequest] = deque()
        self.local: list[bytes] = []
        """Frames with their lengths that the mesh has to answer. The caller removes them."""
        self._waiting: deque[Piece[RequestHead]] = deque()
        """Data after a request that the mesh answers itself and has not answered yet."""
        self._unanswered: RelayedRequest | None = None
        self._held: bytearray | None = None
        """An incomplete local request, or the beginning of a Produce request whose acks have not arrived."""
        self._produce: RequestHead | None = None
        self._next_read_at = 0
        """The length of the beginning at which it is read again."""
        self._is_local = False
        self._answering: RelayedRequest | None = None
        self._answer_size = 0
        self._is_plain = False
        """True if the current answer contains only offsets and topic names."""
        self._walker: AnswerWalker | None = None
        self._collected: list[memoryview] | None = None

    # State

    @property
    def in_flight(self) -> int:
        """The number of requests that wait for their answers."""
        return len(self._expected)

    def under_way(self, apis: Collection[ApiKey]) -> list[RelayedRequest]:
        """Returns the requests of these APIs that have been passed on, and whose answers have not been sent."""
        return [each for each in self._expected if each.api_key in apis and not each.is_local]

    @property
    def is_blocked(self) -> bool:
        """True if a request must be answered, by the mesh or the broker, before the next one is passed on."""
        return self._unanswered is not None or bool(self._waiting)

    @property
    def has_unfinished_frame(self) -> bool:
        return self._requests.is_unfinished

    @property
    def has_unfinished_answer(self) -> bool:
        return self._answers.is_unfinished

    def change(self, *, local: Collection[ApiKey] | None = None, limit: int | None = None) -> None:
        """Changes settings for later requests."""
        if local is not None:
            self._local = local
        if limit is not None:
            self._requests.limit = limit

    def end(self) -> None:
        """Stops passing data on and calling functions, so that no reference cycle remains."""
        self._has_ended = True
        if self._room is not None:
            self._room.give_back()
            self._room = None
        self._answered, self._guard = _ignore, None
        self._waiting.clear()
        self._held = self._walker = self._collected = None

    # From the client

    def receive_requests(self, chunk: memoryview, now: float) -> list[Buffer]:
        """Takes bytes of the client, and returns the bytes to pass on. `problem` has the error that ended the stream
        after them, if any. Bytes after that error never pass: they may be the rest of a refused request."""
        if self._has_ended:
            return []
        is_passing = self._held is None and not self._waiting
        if is_passing and self._requests.skip_if_within_frame(chunk):
            return [chunk]  # most bytes of producers take this path
        self._waiting += self._requests.cut(chunk)
        return self.pass_on(now)

    @property
    def unread(self) -> int:
        """The bytes of the current request that have not arrived and will pass without being read; 0 if something holds
        them back."""
        is_held = self._held is not None or self._waiting or self.problem is not None
        return 0 if is_held else self._requests.left

    def passed(self, count: int) -> None:
        """Notes that this many bytes of `unread` have passed elsewhere."""
        self._requests.skip(count)

    def pass_on(self, now: float) -> list[Buffer]:
        """Returns the received bytes that may be passed on now, like `receive_requests`."""
        if self._has_ended:
            return []
        passed: list[Buffer] = []
        try:
            self._pass_on(now, passed)
        except ProtocolError as problem:
            self.problem = problem.with_traceback(None)  # a traceback would keep the chunk alive through its frames
            self._waiting.clear()
        if not self._waiting:
            self.problem = self.problem or self._requests.problem
        self._has_ended = self.problem is not None
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
            self._held, self._produce, self._next_read_at = bytearray(), head, 0
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
        """Checks the size of a request that is kept until it is complete."""
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
        if len(begin) < self._next_read_at and not piece.is_last:
            self._held = bytearray(begin)
            return
        self._next_read_at = 2 * len(begin)  # limits how often a beginning that arrives byte by byte is read
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
                frame = self._authentication.requested(request.api_key, request.api_version, bytes(held))
            except ProtocolError:
                self._expected.pop()  # it is not passed on, so no answer comes
                raise
            self._held = None
            passed.append(frame)

    def answer(self, answer: list[Buffer]) -> list[Buffer]:
        """Takes the answer to the last request in `local`, with its length. Returns the bytes that may be sent now."""
        request, self._unanswered = self._unanswered, None
        assert request is not None
        request.answer = answer
        return self._ready_answers()

    # From the broker

    def receive_answers(self, chunk: memoryview) -> list[Buffer]:
        """Takes bytes of the broker, and returns the bytes to send to the client. Raises ProtocolError."""
        sent: list[Buffer] = []
        pieces = self._answers.cut(chunk)
        for piece in pieces:
            if piece.head is not None:
                self._begin_answer(piece.head, piece)
            self._continue_answer(piece, sent)
            if piece.is_last:
                self._end_answer()
                if self._expected and self._expected[0].answer is not None:
                    sent += self._ready_answers()
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
        elif piece.head is None or not self._may_change(request):
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
        self._collected.append(memoryview(bytes(piece.buffer)))  # a slice would keep the memory of the whole chunk
        if piece.is_last:
            whole = memoryview(b"".join(self._collected))
            self._collected = None
            sent += self._rewritten(request, whole[_LENGTH:])

    def _may_change(self, request: RelayedRequest) -> bool:
        key = request.api_key
        if self._is_plain:
            return False
        return key is ApiKey.API_VERSIONS or key in self._watched or carries_addresses(key, request.api_version)

    def _walker_of(self, request: RelayedRequest) -> AnswerWalker | None:
        """Returns the walker for an answer that passes through in chunks, if there is one."""
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

    def _ready_answers(self) -> list[Buffer]:
        """Returns answers of the mesh that no longer wait for an earlier answer."""
        sent: list[Buffer] = []
        expected = self._expected
        while expected and expected[0].answer is not None:
            request = expected.popleft()
            sent += request.answer or ()
            request.answer = None
            self._answered(request)
        return sent


def _ignore(request: RelayedRequest) -> None: ...


def _not_served(key: int) -> str:
    return f"{ApiKey(key).name} is not served here" if key in KNOWN_APIS else f"API {key} is not known"
