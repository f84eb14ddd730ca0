"""The server side of one connection: bytes in, requests out; responses in, bytes out. No IO.

Answers leave strictly in the order of the requests: one that is given early waits for those before it. After a
ProtocolError the connection is to be closed; what it has still to send does not matter any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from functools import lru_cache
from struct import Struct
from typing import Final

from mesh.wire.apis import KNOWN_APIS, ApiKey, has_tagged_response_header, is_flexible
from mesh.wire.decoder import decode_request
from mesh.wire.encoder import encode_response
from mesh.wire.errors import ErrorCode, ProtocolError
from mesh.wire.frames import MAX_REQUEST_BYTES, FrameSplitter
from mesh.wire.messages import ApiVersion, ApiVersionsResponse, Buffer, RequestMessage, ResponseMessage
from mesh.wire.reader import Cursor

LARGEST_KEPT: Final = 16 * 1024
"""Bytes of a Fetch that is remembered; some hundred partitions."""
_REQUEST_START: Final = Struct(">hhi")
_RESPONSE_START: Final = Struct(">ii")
_RESPONSE_START_TAGGED: Final = Struct(">iib")


class LastFetch:
    """The last Fetch of a connection: a client that waits for records asks the same again and again, and there are many
    that wait. A tenth of what a parked Fetch costs is to decode it."""

    __slots__ = ("_content", "_message", "_version")

    def __init__(self) -> None:
        self._version = -1
        self._content = b""
        self._message: RequestMessage | None = None

    def decode(self, version: int, frame: bytes, body: int) -> RequestMessage:
        """Raises ProtocolError."""
        content = frame[body:]
        if self._message is not None and version == self._version and content == self._content:
            return self._message
        message = decode_request(ApiKey.FETCH, version, Cursor(frame, body))
        is_kept = len(content) <= LARGEST_KEPT
        self._version, self._content, self._message = version, content if is_kept else b"", message if is_kept else None
        return message


class Request:
    """One request, its body undecoded; also the ticket under which its answer is given. Compared by identity.

    frame: all of it as it came, without its length.
    """

    __slots__ = ("_answer", "_body", "_last_fetch", "api_key", "api_version", "client_id", "correlation_id", "frame")

    def __init__(
        self,
        api_key: ApiKey,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        frame: bytes,
        body: int,
        last_fetch: LastFetch | None = None,
    ) -> None:
        """body: where in the frame the header ends. last_fetch: of its connection."""
        self.api_key: Final = api_key
        self.api_version: Final = api_version
        self.correlation_id: Final = correlation_id
        self.client_id: Final = client_id
        self.frame: Final = frame
        self._body: Final = body
        self._last_fetch: Final = last_fetch
        self._answer: list[Buffer] | None = None

    def __repr__(self) -> str:
        return f"<Request {self.api_key.name} v{self.api_version} {self.correlation_id} of {self.client_id!r}>"

    @property
    def body(self) -> memoryview:
        """What is behind the header, undecoded and not copied; also what may be behind the body itself."""
        return memoryview(self.frame)[self._body :]

    def decode(self) -> RequestMessage:
        """The body, in a version of `mesh.wire.apis.APIS`; what is behind it is ignored. Raises ProtocolError."""
        if self.api_key is ApiKey.FETCH and self._last_fetch is not None:
            return self._last_fetch.decode(self.api_version, self.frame, self._body)
        return decode_request(self.api_key, self.api_version, Cursor(self.frame, self._body))


class ServerConnection:
    """One downstream connection.

    served: the lowest and the highest version of each API that is served here, whether its bodies can be decoded or
        not. ApiVersions in any other version is answered at once, with UNSUPPORTED_VERSION and this table in a v0 body
        (KIP-511); other APIs and versions are a ProtocolError.
    """

    __slots__ = (
        "_empty",
        "_frames",
        "_last_fetch",
        "_pending",
        "_refusal",
        "_served",
        "_to_send",
        "_unanswered",
        "refused_versions",
    )

    def __init__(self, served: Mapping[ApiKey, tuple[int, int]], limit: int = MAX_REQUEST_BYTES) -> None:
        self._served, self._refusal = _what_is_served(tuple(served.items()))
        self._frames: Final = FrameSplitter(limit)
        self._last_fetch: Final = LastFetch()
        self._empty: tuple[ResponseMessage | None, int, list[Buffer]] = (None, 0, [])
        """The last answer to a Fetch without records, its version and its bytes."""
        self._pending: Final[deque[Request]] = deque()
        self._to_send: list[Buffer] = []
        self._unanswered = 0
        self.refused_versions = 0
        """How many requests were answered here, for their version of ApiVersions is not known."""

    @property
    def pending(self) -> int:
        """How many requests have been received and are still to be answered."""
        return self._unanswered

    @property
    def held(self) -> int:
        """How many requests are kept: still to be answered, or answered while one before them is not."""
        return len(self._pending)

    @property
    def has_unfinished_frame(self) -> bool:
        return self._frames.is_unfinished

    @property
    def oldest(self) -> Request | None:
        """The unanswered request that everything behind it waits for."""
        return self._pending[0] if self._pending else None

    def limit_frames(self, limit: int) -> None:
        """The largest request from now on, in bytes: less before it is known who sends it."""
        self._frames.limit = limit

    def receive_data(self, data: Buffer) -> list[Request]:
        """The requests that these bytes complete, in order. Raises ProtocolError."""
        received = [self._receive_frame(frame) for frame in self._frames.receive_data(data)]
        return [request for request in received if request is not None]

    def answer(self, request: Request, response: ResponseMessage) -> None:
        """Raises ValueError for a value that this version has no room for, and for a second answer."""
        known, version, body = self._empty
        if response is not known or request.api_version != version:
            body = encode_response(request.api_key, request.api_version, response)
            if request.api_key is ApiKey.FETCH and len(body) == 1:
                self._empty = response, request.api_version, body
        self.answer_raw(request, body)

    def answer_raw(self, request: Request, body: Iterable[Buffer]) -> None:
        """Answers with a body that is already encoded; its buffers are passed on as they are."""
        body = list(body)
        length = sum(map(len, body)) + _RESPONSE_START.size - 4
        if has_tagged_response_header(request.api_key, request.api_version):
            start = _RESPONSE_START_TAGGED.pack(length + 1, request.correlation_id, 0)
        else:
            start = _RESPONSE_START.pack(length, request.correlation_id)
        self._settle(request, [start, *body])
        self._release()

    def no_response(self, request: Request) -> None:
        """Leaves a request unanswered for good, as a broker does with a Produce without acks: nothing waits for it.

        Raises ValueError for one that has been answered.
        """
        self._settle(request, [])
        self._pending.remove(request)
        self._release()

    def data_to_send(self) -> list[Buffer]:
        """What may leave now; each buffer is handed out once."""
        to_send, self._to_send = self._to_send, []
        return to_send

    def _receive_frame(self, frame: bytes) -> Request | None:
        cursor = Cursor(frame)
        key, version, correlation_id = cursor.unpack(_REQUEST_START)
        if key not in self._served:
            raise ProtocolError("unknown_api", _not_served(key))
        api_key = ApiKey(key)
        lowest, highest = self._served[key]
        if not lowest <= version <= highest:
            if api_key is not ApiKey.API_VERSIONS:
                raise ProtocolError("unsupported_version", f"{api_key.name} v{version} is not in v{lowest}-{highest}")
            # Neither header nor body of a version that we do not know can be read, only what all of them begin with.
            self._refuse_version(self._enqueue(Request(api_key, 0, correlation_id, None, b"", 0)))
            return None
        client_id = cursor.nullable_string()
        if is_flexible(api_key, version):
            cursor.skip_tagged_fields()
        return self._enqueue(
            Request(api_key, version, correlation_id, client_id, frame, cursor.position, self._last_fetch)
        )

    def _enqueue(self, request: Request) -> Request:
        self._pending.append(request)
        self._unanswered += 1
        return request

    def _refuse_version(self, request: Request) -> None:
        self.refused_versions += 1
        self.answer_raw(request, list(self._refusal))

    def _settle(self, request: Request, answer: list[Buffer]) -> None:
        if request._answer is not None:
            raise ValueError(f"{request} has been answered, or left unanswered")
        request._answer = answer
        self._unanswered -= 1

    def _release(self) -> None:
        """Lets out what waits for no answer before it any more."""
        while self._pending and (ready := self._pending[0]._answer) is not None:
            # Whoever keeps the request must not keep its record buffers: they are used again once they have left.
            self._pending.popleft()._answer = []
            self._to_send += ready


def _not_served(key: int) -> str:
    return f"{ApiKey(key).name} is not served here" if key in KNOWN_APIS else f"API {key} is not known"


@lru_cache(maxsize=16)
def _what_is_served(
    served: tuple[tuple[ApiKey, tuple[int, int]], ...],
) -> tuple[Mapping[int, tuple[int, int]], tuple[Buffer, ...]]:
    """For all connections of a listener: its versions by number, and the answer to an ApiVersions of another one,
    which says in which to ask again (KIP-511). franz-go takes a longer list for all that is served."""
    for api_key, (lowest, highest) in served:
        known = KNOWN_APIS[api_key]
        if not known.lowest <= lowest <= highest <= known.highest:
            raise ValueError(f"{api_key.name} v{lowest}-{highest} cannot be served: {known}")
    own = ((key, each) for key, each in served if key is ApiKey.API_VERSIONS)
    keys = tuple(ApiVersion(api_key=int(key), min_version=low, max_version=high) for key, (low, high) in own)
    response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=keys)
    refusal = encode_response(ApiKey.API_VERSIONS, 0, response)
    return {int(api_key): versions for api_key, versions in served}, tuple(refusal)
