"""PLAIN (RFC 4616): name and password in the clear, in one message. Use it on TLS listeners."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mesh.security.principals import user
from mesh.security.sasl import Failure, Slow, Step, Success

LONGEST: Final = 1_024
"""The most bytes of a name or a password."""


class PlainExchange:
    """An authentication by PLAIN (RFC 4616). verify: checks the password of a name; it is slow, also for an unknown
    name."""

    def __init__(self, verify: Callable[[str, str], bool]) -> None:
        self._verify = verify

    def step(self, message: bytes) -> Step:
        parts = message.split(b"\0")
        if len(parts) != 3 or any(len(part) > LONGEST for part in parts):
            return Failure("malformed", "not [authorization id] NUL name NUL password")
        try:
            authzid, name, password = (part.decode() for part in parts)
        except UnicodeDecodeError:
            return Failure("malformed", "the message is no UTF-8")
        if not name or not password:
            return Failure("malformed", "the name or the password is empty")
        if authzid not in ("", name):
            return Failure("malformed", "an authorization id that is not the name", name)
        return Slow(lambda: self._check(name, password))

    def _check(self, name: str, password: str) -> Success | Failure:
        return Success(user(name)) if self._verify(name, password) else Failure("wrong_credentials", name=name)
