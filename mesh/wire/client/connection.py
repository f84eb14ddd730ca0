"""The client side of one connection: requests in, bytes out; bytes in, responses out. No IO.

Brokers answer in the order of the requests, so any number of requests may be in flight. Requests have encoded bodies,
and responses stay undecoded, so that code can relay APIs that it does not know.

Responses are received in place: the next bytes belong into `buffer`, and `received` takes their number. The buffer of a
response is as large as the response, and is allocated when its length is known and allowed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Final

from mesh.wire.errors import ProtocolError
from mesh.wire.messages import Buffer

MAX_RESPONSE_BYTES: Final = 128 << 20
"""In bytes. A Fetch answer has at least one batch, however large: brokers accept batches up to message.max.bytes, 1 MiB
by default."""
_LENGTH: Final = Struct(">i")
_REQUEST_START: Final = Struct(">ihhih")
_NULL_CLIENT: Final = -1


@dataclass(frozen=True, slots=True, eq=False)
class ClientRequest:
    """A request to be sent. Compared by identity: it identifies its response.

    is_flexible: whether this version has tagged fields in its request header (and, except for ApiVersions, in its
    response header).
    has_response: False only for a Produce with acks=0.
    """

    api_key: int
    api_version: int
    is_flexible: bool
    body: tuple[Buffer, ...]
    has_response: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class ClientResponse:
    """An undecoded response of a broker. frame: the whole response without its length. body: the position in the frame
    at which the header ends."""

    request: ClientRequest
    frame: memoryview
    body: int


class ClientConnection:
    """The client side of one connection. allocate: returns a writable buffer of at least this size."""

    def __init__(
        self,
        client_id: str | None,
        allocate: Callable[[int], bytearray] = bytearray,
        limit: int = MAX_RESPONSE_BYTES,
    ) -> None:
        self._client_id: Final = None if client_id is None else client_id.encode()
        self._allocate: Final = allocate
        self._limit: Final = limit
        self._next_id = 0
        self._unanswered: deque[tuple[int, ClientRequest]] = deque()
        self._start: Final = bytearray(_LENGTH.size)
        self._target = memoryview(self._start)
        self._filled = 0
        self._in_frame = False

    @property
    def unanswered(self) -> int:
        """The number of requests that were sent and not answered yet."""
        return len(self._unanswered)

    def send(self, request: ClientRequest) -> list[Buffer]:
        """Returns the bytes of a request. They must be sent before those of the next request."""
        correlation_id, self._next_id = self._next_id, (self._next_id + 1) & 0x7FFFFFFF
        client = self._client_id
        named = client or b""
        tail = b"\0" if request.is_flexible else b""
        length = _REQUEST_START.size - _LENGTH.size + len(named) + len(tail) + sum(map(len, request.body))
        start = _REQUEST_START.pack(
            length,
            request.api_key,
            request.api_version,
            correlation_id,
            _NULL_CLIENT if client is None else len(client),
        )
        if request.has_response:
            self._unanswered.append((correlation_id, request))
        return [start + named + tail, *request.body]

    def buffer(self) -> memoryview:
        """Returns the buffer for the next bytes; it is never empty."""
        return self._target[self._filled :]

    def received(self, count: int) -> ClientResponse | None:
        """Takes the number of bytes received into `buffer`, and returns the response that they complete, if any. Raises
        ProtocolError."""
        self._filled += count
        if self._filled < len(self._target):
            return None
        frame, self._filled = self._target, 0
        if self._in_frame:
            self._in_frame, self._target = False, memoryview(self._start)
            return self._response(frame)
        (length,) = _LENGTH.unpack_from(self._start)
        if not _LENGTH.size <= length <= self._limit:
            raise ProtocolError("frame_size", f"a response of {length} bytes; 4 to {self._limit} are allowed")
        self._in_frame, self._target = True, memoryview(self._allocate(length))[:length]
        return None

    def _response(self, frame: memoryview) -> ClientResponse:
        (correlation_id,) = _LENGTH.unpack_from(frame)
        if not self._unanswered:
            raise ProtocolError("unexpected_response", f"response {correlation_id}, and no request was sent")
        expected, request = self._unanswered.popleft()
        if correlation_id != expected:
            raise ProtocolError("unexpected_response", f"response {correlation_id} instead of {expected}")
        body = _LENGTH.size
        if request.is_flexible and request.api_key != _API_VERSIONS:
            if len(frame) <= body or frame[body]:
                raise ProtocolError("unexpected_response", "a response header with tagged fields, of which none exists")
            body += 1
        return ClientResponse(request, frame, body)


_API_VERSIONS: Final = 18
