"""The session of a connection: the client's principal, once it is known, and how long it is valid.

    Unauthenticated --handshake--> Exchanging --success--> Established --handshake--> Exchanging (again, KIP-368) ...
       after a failure, or a request that is not allowed, the caller closes the connection

A connection without SASL is established from the beginning: with the principal of its certificate, or as anonymous. As
in Kafka, a client that must authenticate again but does not is disconnected at its next request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypeAlias

from mesh.security.principals import ANONYMOUS, Principal
from mesh.security.sasl import Challenge, Exchange, Failure, Mechanism, Slow, Step, Success

Begin: TypeAlias = Callable[[], Exchange]
Mechanisms: TypeAlias = Mapping[Mechanism, Begin]
"""The enabled mechanisms of a listener, each with the start of an authentication, in the order in which clients see
them."""


@dataclass(frozen=True, slots=True)
class Unauthenticated:
    """The first state of a session: the client has not yet begun to authenticate."""


@dataclass(frozen=True, slots=True)
class Established:
    """The state of a session after authentication. mechanism: None without SASL. ends_at: the latest time for the next
    authentication, on the caller's clock."""

    principal: Principal
    mechanism: Mechanism | None = None
    ends_at: float | None = None


@dataclass(frozen=True, slots=True)
class Exchanging:
    """The state of a session during an authentication. before: the identity before a re-authentication."""

    mechanism: Mechanism
    exchange: Exchange
    before: Established | None


State: TypeAlias = Unauthenticated | Established | Exchanging


class Handshake(Enum):
    """The answer to a SaslHandshake."""

    ACCEPTED = "accepted"
    UNSUPPORTED_MECHANISM = "unsupported mechanism"
    UNSUPPORTED_VERSION = "unsupported version"
    ILLEGAL_STATE = "illegal state"


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The end of an authentication that succeeded. seconds: for how long it is valid, None for no limit. token: the
    message to send. is_again: whether it was a re-authentication."""

    principal: Principal
    token: bytes
    seconds: float | None
    is_again: bool


AuthenticationResult: TypeAlias = Challenge | Authenticated | Failure | Slow | Literal["illegal state"]


class Session:
    """The authentication of one connection. mechanisms: returns those enabled when the next authentication begins; None
    for a listener without SASL.

    longest: seconds after which a client must authenticate again, None for never. Times are seconds: `now` of a
    monotonic clock, `wall` since the epoch.
    """

    __slots__ = ("_longest", "_mechanisms", "_state")

    def __init__(
        self,
        mechanisms: Callable[[], Mechanisms] | None = None,
        longest: float | None = None,
        principal: Principal = ANONYMOUS,
    ) -> None:
        self._mechanisms = mechanisms
        self._longest = longest
        self._state: State = Established(principal) if mechanisms is None else Unauthenticated()

    @property
    def principal(self) -> Principal | None:
        """The client's principal; None before it is known. During a re-authentication it is still the earlier one."""
        match self._state:
            case Established(principal) | Exchanging(before=Established(principal)):
                return principal
            case _:
                return None

    @property
    def mechanism(self) -> Mechanism | None:
        """The mechanism of the current or last authentication; None without SASL or before the first one."""
        return None if isinstance(self._state, Unauthenticated) else self._state.mechanism

    @property
    def is_established(self) -> bool:
        return isinstance(self._state, Established)

    @property
    def offered(self) -> tuple[Mechanism, ...]:
        return tuple(self._mechanisms()) if self._mechanisms is not None else ()

    def refusal(self, now: float) -> Literal["unauthenticated", "session_expired"] | None:
        """Returns the reason why a request closes the connection, None if it may be answered. Not asked for requests of
        an authentication, or for versions."""
        if not isinstance(self._state, Established):
            return "unauthenticated"
        ends_at = self._state.ends_at
        return "session_expired" if ends_at is not None and now >= ends_at else None

    def handshake(self, name: str) -> Handshake:
        """Handles a SaslHandshake, in which the client names its mechanism, for the first time or again."""
        before = self._state if isinstance(self._state, Established) else None
        if self._mechanisms is None or isinstance(self._state, Exchanging):
            return Handshake.ILLEGAL_STATE
        mechanisms = self._mechanisms()
        mechanism = next((each for each in mechanisms if each.value == name), None)
        if mechanism is None:
            return Handshake.UNSUPPORTED_MECHANISM
        self._state = Exchanging(mechanism, mechanisms[mechanism](), before)
        return Handshake.ACCEPTED

    def authenticate(self, message: bytes, now: float, wall: float) -> AuthenticationResult:
        """Handles the next message of the mechanism. After `Slow`, pass its result to `settle`."""
        state = self._state
        if not isinstance(state, Exchanging):
            return "illegal state"
        if state.before is not None and state.before.mechanism is not state.mechanism:
            return Failure("changed", f"from {state.before.mechanism} to {state.mechanism}", state.before.principal)
        return self.settle(state.exchange.step(message), now, wall)

    def settle(self, step: Step, now: float, wall: float) -> Challenge | Authenticated | Failure | Slow:
        """Returns the result of a step of the mechanism."""
        state = self._state
        assert isinstance(state, Exchanging)
        if not isinstance(step, Success):
            return step
        before = state.before
        if before is not None and before.principal != step.principal:
            return Failure("changed", f"from {before.principal} to {step.principal}", before.principal)
        limits = [] if self._longest is None else [self._longest]
        if step.expires_at is not None:
            # A token that expired within the tolerated clock skew is valid for a moment.
            limits.append(max(step.expires_at - wall, 0.001))
        seconds = min(limits, default=None)
        self._state = Established(step.principal, state.mechanism, None if seconds is None else now + seconds)
        return Authenticated(step.principal, step.token, seconds, before is not None)
