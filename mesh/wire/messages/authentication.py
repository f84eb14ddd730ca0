"""The messages of SASL authentication (KIP-43, KIP-152, KIP-368)."""

from __future__ import annotations

from dataclasses import dataclass

from mesh.wire.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslHandshakeRequest:
    mechanism: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslHandshakeResponse:
    error_code: ErrorCode = ErrorCode.NONE
    mechanisms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslAuthenticateRequest:
    auth_bytes: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslAuthenticateResponse:
    """The response of SaslAuthenticate. session_lifetime_ms: since v1; 0 if the session does not end."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0
