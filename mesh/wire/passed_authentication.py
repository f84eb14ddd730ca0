"""Follows an authentication that passes through to the broker, and finds out whether the broker has admitted the
client.

A client that authenticates at the cluster is admitted when the broker has accepted its last token; the mechanism
determines the number of tokens. With an unknown mechanism, the first answer to any other request shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mesh.wire.apis import ApiKey, has_tagged_response_header, is_flexible
from mesh.wire.frames import with_length
from mesh.wire.messages import Buffer
from mesh.wire.reader import INT16, Cursor

_REQUEST_START: Final = 12
"""The bytes of length, key, version and correlation id."""
_ANSWER_START: Final = 8
"""The bytes of length and correlation id."""
TOKENS: Final[Mapping[str, int]] = {"PLAIN": 1, "OAUTHBEARER": 1, "SCRAM-SHA-256": 2, "SCRAM-SHA-512": 2}
"""The number of tokens that a client sends, by mechanism."""
OF_AUTHENTICATION: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})


class PassedAuthentication:
    """The authentication of a client, as far as it has passed. is_done: whether the broker has admitted the client."""

    __slots__ = ("_accepted", "_is_bearer", "_needed", "is_done")

    def __init__(self) -> None:
        self.is_done = False
        self._needed: int | None = None
        self._accepted = 0
        self._is_bearer = False

    def requested(self, api_key: ApiKey, version: int, frame: bytes) -> Buffer:
        """Takes a request, and returns the frame to pass on, in which nothing is after the name of a mechanism. frame:
        a request of `OF_AUTHENTICATION`, with its length. Raises ProtocolError."""
        if api_key is ApiKey.SASL_HANDSHAKE:
            cursor = Cursor(frame, _REQUEST_START)
            cursor.nullable_string()
            if is_flexible(api_key, version):
                cursor.skip_tagged_fields()
            mechanism = cursor.nullable_string() or ""
            self._needed, self._accepted, self._is_bearer = TOKENS.get(mechanism), 0, mechanism == "OAUTHBEARER"
            return with_length([frame[: cursor.position]])
        return frame

    def answered(self, api_key: ApiKey, version: int, frame: bytes) -> None:
        """Takes an answer that passes. frame: the answer to a request of `OF_AUTHENTICATION`, with its length. Raises
        ProtocolError."""
        if api_key is not ApiKey.SASL_AUTHENTICATE:
            return
        cursor = Cursor(frame, _ANSWER_START)
        if has_tagged_response_header(api_key, version):
            cursor.skip_tagged_fields()
        (error,) = cursor.unpack(INT16)
        if is_flexible(api_key, version):
            cursor.compact_nullable_string()
            token = cursor.compact_byte_string()
        else:
            cursor.nullable_string()
            token = cursor.byte_string()
        if self._is_bearer and token:  # it says why the token is refused; the next answer has the error
            return
        self._accepted += not error
        self.is_done = self.is_done or (self._needed is not None and not error and self._accepted >= self._needed)

    def answered_other(self, api_key: ApiKey) -> None:
        """Notes an answer to a request of another API. Brokers answer ApiVersions before a client is admitted."""
        self.is_done = self.is_done or api_key is not ApiKey.API_VERSIONS
