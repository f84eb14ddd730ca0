"""Who is at the other end of a connection: before it is known, while it is being found out, and for how long it holds.

    Opening --handshake--> Exchanging --success--> Established --handshake--> Exchanging (again, KIP-368) ...
       any failure, or a request that may not be made: closed by whoever is told so

A connection without SASL is established from its beginning: with the principal of its certificate, or as nobody. A
client that must authenticate again and does not is closed at its next request, as Kafka does.
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
"""What is enabled on a listener, and how an authentication by it begins; in the order in which clients are told."""


@dataclass(frozen=True, slots=True)
class FirstStep:
    """Nothing has been asked yet that says who it is."""


@dataclass(frozen=True, slots=True)
class Established:
    """A session of a client that has authenticated. mechanism: None without SASL. ends_at: when it must authenticate
    again at the latest, on the caller's clock."""

    principal: Principal
    mechanism: Mechanism | None = None
    ends_at: float | None = None


@dataclass(frozen=True, slots=True)
class Exchanging:
    """A session in the middle of an authentication. before: who it was, at a re-authentication."""

    mechanism: Mechanism
    exchange: Exchange
    before: Established | None


State: TypeAlias = FirstStep | Established | Exchanging


class Handshake(Enum):
    """What a SaslHandshake is answered with."""

    ACCEPTED = "accepted"
    UNSUPPORTED_MECHANISM = "unsupported mechanism"
    UNSUPPORTED_VERSION = "unsupported version"
    ILLEGAL_STATE = "illegal state"


@dataclass(frozen=True, slots=True)
class Lasting:
    """The client is who it says for so many seconds, None for as long as it likes; token: send this."""

    principal: Principal
    token: bytes
    seconds: float | None
    is_again: bool


AuthenticationResult: TypeAlias = Challenge | Lasting | Failure | Slow | Literal["illegal state"]


class Session:
    """The authentication of one connection. mechanisms: those enabled when the next authentication begins; None for a
    listener without SASL.

    longest: seconds after which a client must authenticate again, None for never. Times are seconds: `now` of a clock
    that only goes forward, `wall` since the epoch.
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
        self._state: State = Established(principal) if mechanisms is None else FirstStep()

    @property
    def principal(self) -> Principal | None:
        """None before it is known. At a re-authentication still the one it was."""
        match self._state:
            case Established(principal) | Exchanging(before=Established(principal)):
                return principal
            case _:
                return None

    @property
    def mechanism(self) -> Mechanism | None:
        """Of the authentication that is going on or was the last; None without SASL or before the first."""
        return None if isinstance(self._state, FirstStep) else self._state.mechanism

    @property
    def is_established(self) -> bool:
        return isinstance(self._state, Established)

    @property
    def offered(self) -> tuple[Mechanism, ...]:
        return tuple(self._mechanisms()) if self._mechanisms is not None else ()

    def refusal(self, now: float) -> Literal["unauthenticated", "session_expired"] | None:
        """Why a request that is none of an authentication, and does not ask for versions, closes the connection."""
        if not isinstance(self._state, Established):
            return "unauthenticated"
        ends_at = self._state.ends_at
        return "session_expired" if ends_at is not None and now >= ends_at else None

    def handshake(self, name: str) -> Handshake:
        """A client names the mechanism it will authenticate with, for the first time or again."""
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
        """The next message of the mechanism. After `Slow`, tell its result to `settle`."""
        state = self._state
        if not isinstance(state, Exchanging):
            return "illegal state"
        if state.before is not None and state.before.mechanism is not state.mechanism:
            return Failure("changed", f"from {state.before.mechanism} to {state.mechanism}", state.before.principal)
        return self.settle(state.exchange.step(message), now, wall)

    def settle(self, step: Step, now: float, wall: float) -> Challenge | Lasting | Failure | Slow:
        """What a step of the mechanism leads to."""
        state = self._state
        assert isinstance(state, Exchanging)
        if not isinstance(step, Success):
            return step
        before = state.before
        if before is not None and before.principal != step.principal:
            return Failure("changed", f"from {before.principal} to {step.principal}", before.principal)
        limits = [] if self._longest is None else [self._longest]
        if step.expires_at is not None:
            # A token that has expired within the skew of clocks that is tolerated is good for one moment.
            limits.append(max(step.expires_at - wall, 0.001))
        seconds = min(limits, default=None)
        self._state = Established(step.principal, state.mechanism, None if seconds is None else now + seconds)
        return Lasting(step.principal, step.token, seconds, before is not None)
