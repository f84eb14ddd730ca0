"""The client's side of OAUTHBEARER (RFC 7628), with Kafka's extensions (KIP-342)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import jwt

ACKNOWLEDGED: Final = b"\x01"
"""The client's answer to a refused token."""
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_LONGEST_REASON: Final = 500


class TokenRefused(Exception):
    """Raised for a text that is not a token, or for an expired token."""


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token. expires_at: seconds since the epoch. principal: its user according to its claims, for clients'
    logs. extensions: sent with it."""

    value: str = field(repr=False)
    expires_at: float
    principal: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict)


def token_of(text: str, expires_at: float | None, extensions: Mapping[str, str]) -> Token:
    """Returns a token with its expiry. expires_at: None to read it from the token, which then must be a JWT. Raises
    TokenRefused."""
    if _TOKEN.fullmatch(text) is None:
        raise TokenRefused("not a token: letters, digits and -._~+/ are allowed, with = at the end")
    claims = _claims(text)
    expiry = claims.get("exp")
    if expires_at is None:
        if not isinstance(expiry, int | float) or isinstance(expiry, bool):
            raise TokenRefused("it has no end: it is not a JWT with exp")
        expires_at = float(expiry)
    subject = claims.get("sub")
    return Token(text, expires_at, subject if isinstance(subject, str) else "", extensions)


def first_message(token: Token) -> bytes:
    pairs = "".join(f"{name}={value}\x01" for name, value in token.extensions.items())
    return f"n,,\x01auth=Bearer {token.value}\x01{pairs}\x01".encode()


def reason_in(challenge: bytes) -> str:
    """Returns the server's reason for refusing the token."""
    return challenge[:_LONGEST_REASON].decode(errors="replace")


def _claims(text: str) -> Mapping[str, object]:
    """Returns the claims of a token, unverified: the broker verifies them. Empty if the token is not a JWT."""
    try:
        found: Mapping[str, object] = jwt.decode(text, options={"verify_signature": False})
    except (jwt.PyJWTError, json.JSONDecodeError):
        return {}
    return found
