"""The server side of one connection: bytes in, requests out; responses in, bytes out. No IO.

Answers are sent in the order of the requests: an early answer waits for those before it. After a ProtocolError the
connection should be closed; unsent data can be dropped then.
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
from mesh.wire.errors import ProtocolError
from mesh.wire.frames import MAX_REQUEST_BYTES, FrameSplitter
from mesh.wire.messages import Buffer, RequestMessage, ResponseMessage
from mesh.wire.reader import Cursor

LARGEST_KEPT: Final = 16 * 1024
"""The largest Fetch body that is remembered, in bytes: some hundred partitions."""
_REQUEST_START: Final = Struct(">hhi")
_RESPONSE_START: Final = Struct(">ii")
_RESPONSE_START_TAGGED: Final = Struct(">iib")


class LastFetch:
    """Remembers the last Fetch of a connection in decoded form. A client that waits for records repeats the same Fetch,
    and many clients wait; decoding is a tenth of the cost of a parked Fetch."""

    __slots__ = ("_content", "_message", "_version")

    def __init__(self) -> None:
        self._version = -1
        self._content = b""
        self._message: RequestMessage | None = None

    def decode(self, version: int, frame: bytes, body: int) -> RequestMessage:
        """Returns a decoded Fetch. Raises ProtocolError."""
        content = frame[body:]
        if self._message is not None and version == self._version and content == self._content:
            return self._message
        message = decode_request(ApiKey.FETCH, version, Cursor(frame, body))
        is_kept = len(content) <= LARGEST_KEPT
        self._version, self._content, self._message = version, content if is_kept else b"", message if is_kept else None
        return message


class FramedRequest:
    """A request with an undecoded body. It also identifies the answer. Compared by identity.

    frame: the whole request as received, without its length. is_version_unknown: true for an ApiVersions in a version
    that is not served; its api_version is 0, in which it is answered.
    """

    __slots__ = (
        "_answer",
        "_body",
        "_last_fetch",
        "api_key",
        "api_version",
        "client_id",
        "correlation_id",
        "frame",
        "is_version_unknown",
    )

    def __init__(
        self,
        api_key: ApiKey,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        frame: bytes,
        body: int,
        last_fetch: LastFetch | None = None,
        is_version_unknown: bool = False,
    ) -> None:
        """body: the position in the frame at which the header ends. last_fetch: the last Fetch of the connection."""
        self.api_key: Final = api_key
        self.api_version: Final = api_version
        self.correlation_id: Final = correlation_id
        self.client_id: Final = client_id
        self.frame: Final = frame
        self.is_version_unknown: Final = is_version_unknown
        self._body: Final = body
        self._last_fetch: Final = last_fetch
        self._answer: list[Buffer] | None = None

    def __repr__(self) -> str:
        return f"<Request {self.api_key.name} v{self.api_version} {self.correlation_id} of {self.client_id!r}>"

    @property
    def body(self) -> memoryview:
        """The bytes after the header, undecoded and not copied, including any trailing bytes."""
        return memoryview(self.frame)[self._body :]

    def decode(self) -> RequestMessage:
        """Returns the decoded body, in a version of `mesh.wire.apis.APIS`; ignores trailing bytes. Raises
        ProtocolError."""
        if self.api_key is ApiKey.FETCH and self._last_fetch is not None:
            return self._last_fetch.decode(self.api_version, self.frame, self._body)
        return decode_request(self.api_key, self.api_version, Cursor(self.frame, self._body))


class ServerConnection:
    """The server side of the connection of one client.

    served: the lowest and highest version of each API that is served here, whether its bodies can be decoded or not.
    ApiVersions in any other version becomes a request of v0 that says so (KIP-511). Other APIs and versions are a
    ProtocolError.
    """

    __slots__ = (
        "_empty",
        "_frames",
        "_last_fetch",
        "_pending",
        "_served",
        "_to_send",
        "_unanswered",
    )

    def __init__(self, served: Mapping[ApiKey, tuple[int, int]], limit: int = MAX_REQUEST_BYTES) -> None:
        self._served: Final = _versions_by_key(tuple(served.items()))
        self._frames: Final = FrameSplitter(limit)
        self._last_fetch: Final = LastFetch()
        self._empty: tuple[ResponseMessage | None, int, list[Buffer]] = (None, 0, [])
        """The last answer to a Fetch that had no records, its version and its bytes."""
        self._pending: Final[deque[FramedRequest]] = deque()
        self._to_send: list[Buffer] = []
        self._unanswered = 0

    @property
    def pending(self) -> int:
        """The number of received requests that are not answered yet."""
        return self._unanswered

    @property
    def held(self) -> int:
        """The number of requests that are kept: not answered yet, or answered while an earlier one is not."""
        return len(self._pending)

    @property
    def has_unfinished_frame(self) -> bool:
        return self._frames.is_unfinished

    @property
    def oldest(self) -> FramedRequest | None:
        """The first unanswered request, for which all later answers wait."""
        return self._pending[0] if self._pending else None

    def limit_frames(self, limit: int) -> None:
        """Limits the size of later requests, in bytes. The limit is lower until the client is authenticated."""
        self._frames.limit = limit

    def receive_data(self, data: Buffer) -> list[FramedRequest]:
        """Returns the requests that these bytes complete, in order. Raises ProtocolError."""
        return [self._receive_frame(frame) for frame in self._frames.receive_data(data)]

    def answer(self, request: FramedRequest, response: ResponseMessage) -> None:
        """Answers a request. Raises ValueError for a value that this version cannot encode, and for a second answer."""
        known, version, body = self._empty
        if response is not known or request.api_version != version:
            body = encode_response(request.api_key, request.api_version, response)
            if request.api_key is ApiKey.FETCH and len(body) == 1:
                self._empty = response, request.api_version, body
        self.answer_raw(request, body)

    def answer_raw(self, request: FramedRequest, body: Iterable[Buffer]) -> None:
        """Answers with a body that is already encoded; its buffers are passed on without a copy."""
        body = list(body)
        length = sum(map(len, body)) + _RESPONSE_START.size - 4
        if has_tagged_response_header(request.api_key, request.api_version):
            start = _RESPONSE_START_TAGGED.pack(length + 1, request.correlation_id, 0)
        else:
            start = _RESPONSE_START.pack(length, request.correlation_id)
        self._settle(request, [start, *body])
        self._release()

    def no_response(self, request: FramedRequest) -> None:
        """Leaves a request without an answer, like a broker after a Produce with acks=0. Later answers do not wait for
        it.

        Raises ValueError for a request that has been answered.
        """
        self._settle(request, [])
        self._pending.remove(request)
        self._release()

    def data_to_send(self) -> list[Buffer]:
        """Returns the buffers to send now; each is returned once."""
        to_send, self._to_send = self._to_send, []
        return to_send

    def _receive_frame(self, frame: bytes) -> FramedRequest:
        cursor = Cursor(frame)
        key, version, correlation_id = cursor.unpack(_REQUEST_START)
        if key not in self._served:
            raise ProtocolError("unknown_api", _not_served(key))
        api_key = ApiKey(key)
        lowest, highest = self._served[key]
        if not lowest <= version <= highest:
            if api_key is not ApiKey.API_VERSIONS:
                raise ProtocolError("unsupported_version", f"{api_key.name} v{version} is not in v{lowest}-{highest}")
            # The header and body of an unknown version cannot be read, only the fields with which all versions begin.
            return self._enqueue(FramedRequest(api_key, 0, correlation_id, None, b"", 0, is_version_unknown=True))
        client_id = cursor.nullable_string()
        if is_flexible(api_key, version):
            cursor.skip_tagged_fields()
        return self._enqueue(
            FramedRequest(api_key, version, correlation_id, client_id, frame, cursor.position, self._last_fetch)
        )

    def _enqueue(self, request: FramedRequest) -> FramedRequest:
        self._pending.append(request)
        self._unanswered += 1
        return request

    def _settle(self, request: FramedRequest, answer: list[Buffer]) -> None:
        if request._answer is not None:
            raise ValueError(f"{request} has been answered, or left unanswered")
        request._answer = answer
        self._unanswered -= 1

    def _release(self) -> None:
        """Releases answers that no longer wait for earlier ones."""
        while self._pending and (ready := self._pending[0]._answer) is not None:
            # A caller may keep the request, but not the record buffers of its answer: they are reused after sending.
            self._pending.popleft()._answer = []
            self._to_send += ready


def _not_served(key: int) -> str:
    return f"{ApiKey(key).name} is not served here" if key in KNOWN_APIS else f"API {key} is not known"


@lru_cache(maxsize=16)
def _versions_by_key(served: tuple[tuple[ApiKey, tuple[int, int]], ...]) -> Mapping[int, tuple[int, int]]:
    """Returns the versions of a listener by API key: the same for all its connections."""
    for api_key, (lowest, highest) in served:
        known = KNOWN_APIS[api_key]
        if not known.lowest <= lowest <= highest <= known.highest:
            raise ValueError(f"{api_key.name} v{lowest}-{highest} cannot be served: {known}")
    return {int(api_key): versions for api_key, versions in served}
