"""The common part of the SASL mechanisms: their names, and the steps that follow a client's message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, Protocol, TypeAlias

from mesh.security.principals import Principal


class Mechanism(Enum):
    """A SASL mechanism, by the registered name that clients send."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


FailureReason: TypeAlias = Literal[
    "malformed", "wrong_credentials", "invalid_token", "expired_token", "unknown_key", "changed", "busy"
]
"""Reasons of failures; they are also labels of a counter."""

MESSAGES: Final[dict[FailureReason, str]] = {
    "malformed": "Authentication failed: the message is not one of this SASL mechanism",
    "wrong_credentials": "Authentication failed: Invalid username or password",
    "invalid_token": "Authentication failed: the token is not valid here",
    "expired_token": "Authentication failed: the token has expired or is not valid yet",
    "unknown_key": "Authentication failed: the token is not valid here",
    "changed": "Authentication failed: neither the principal nor the mechanism may change at a re-authentication",
    "busy": "Authentication failed: too many authentications at the same time, try again",
}
"""Messages for the client. They do not help to guess: neither whether name or password was wrong, nor which key."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """A message to send; another message from the client must follow. failure: the exchange has failed already, and the
    client learns it later."""

    token: bytes
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Success:
    """The end of an exchange that succeeded. token: the mechanism's last message. expires_at: seconds since the epoch,
    None for never."""

    principal: Principal
    token: bytes = b""
    expires_at: float | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """The end of an exchange that failed. detail, name: for the log only; name is the claimed one. is_known: whether
    the failure came with an earlier challenge."""

    reason: FailureReason
    detail: str = ""
    name: str = ""
    is_known: bool = False


@dataclass(frozen=True, slots=True)
class Slow:
    """A check that takes milliseconds of a processor: run `check` in a thread; its result is the step."""

    check: Callable[[], Success | Failure]


Step: TypeAlias = Challenge | Success | Failure | Slow


class Exchange(Protocol):
    """One authentication by one mechanism."""

    def step(self, message: bytes) -> Step:
        """Handles the next message of the client."""
