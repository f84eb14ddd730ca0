"""An authentication that passes through: whether the broker has let the client in, as far as the bytes say.

A client that authenticates at the cluster itself is nobody's until the broker has accepted its last token, and how many
there are its mechanism says. Of mechanisms that are not known here, the first answer to any other request says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mesh.wire.apis import ApiKey, has_tagged_response_header, is_flexible
from mesh.wire.reader import INT16, Cursor

_REQUEST_START: Final = 12
"""Length, key, version and correlation id."""
_ANSWER_START: Final = 8
"""Length and correlation id."""
TOKENS: Final[Mapping[str, int]] = {"PLAIN": 1, "OAUTHBEARER": 1, "SCRAM-SHA-256": 2, "SCRAM-SHA-512": 2}
"""Tokens that a client sends, by mechanism."""
OF_AUTHENTICATION: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})


class PassedAuthentication:
    """What has passed of a client's authentication. is_done: the broker has let the client in."""

    __slots__ = ("_accepted", "_is_bearer", "_needed", "is_done")

    def __init__(self) -> None:
        self.is_done = False
        self._needed: int | None = None
        self._accepted = 0
        self._is_bearer = False

    def requested(self, api_key: ApiKey, version: int, frame: bytes) -> None:
        """frame: of `OF_AUTHENTICATION`, with its length. Raises ProtocolError."""
        if api_key is ApiKey.SASL_HANDSHAKE:
            cursor = Cursor(frame, _REQUEST_START)
            cursor.nullable_string()
            if is_flexible(api_key, version):
                cursor.skip_tagged_fields()
            mechanism = cursor.nullable_string() or ""
            self._needed, self._accepted, self._is_bearer = TOKENS.get(mechanism), 0, mechanism == "OAUTHBEARER"

    def answered(self, api_key: ApiKey, version: int, frame: bytes) -> None:
        """frame: the answer to a request of `OF_AUTHENTICATION`, with its length. Raises ProtocolError."""
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
        if self._is_bearer and token:  # why the token is refused; the error comes with the next answer
            return
        self._accepted += not error
        self.is_done = self.is_done or (self._needed is not None and not error and self._accepted >= self._needed)

    def answered_other(self, api_key: ApiKey) -> None:
        """A request of another API was answered; brokers tell their versions to everybody."""
        self.is_done = self.is_done or api_key is not ApiKey.API_VERSIONS
