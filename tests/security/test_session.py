from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mesh.security.principals import ANONYMOUS, Principal, user
from mesh.security.sasl import Challenge, Failure, Mechanism, Slow, Step, Success
from mesh.security.session import Authenticated, Handshake, Session

PLAIN, SCRAM = Mechanism.PLAIN, Mechanism.SCRAM_SHA_256


class Told:
    """An exchange whose messages say their results: ?, slow NAME, NAME, NAME until SECOND; all others fail."""

    def step(self, message: bytes) -> Step:
        words = message.decode().split()
        match words:
            case ["?"]:
                return Challenge(b"!")
            case ["slow", name]:
                return Slow(lambda: Success(user(name)))
            case [name, "until", second]:
                return Success(user(name), expires_at=float(second))
            case [name]:
                return Success(user(name))
        return Failure("wrong_credentials")


def session(longest: float | None = None) -> Session:
    return Session(lambda: {PLAIN: Told, SCRAM: Told}, longest)


def established(longest: float | None = None, message: bytes = b"alice") -> Session:
    found = session(longest)
    assert found.handshake("PLAIN") is Handshake.ACCEPTED
    assert isinstance(found.authenticate(message, 0.0, 1_000.0), Authenticated)
    return found


def test_without_sasl_it_is_established_from_the_beginning() -> None:
    for found, principal in ((Session(), ANONYMOUS), (Session(principal=user("CN=x")), user("CN=x"))):
        assert (found.principal, found.refusal(1e9), found.offered) == (principal, None, ())
        assert found.handshake("PLAIN") is Handshake.ILLEGAL_STATE
        assert found.authenticate(b"alice", 0.0, 0.0) == "illegal state"


def test_nothing_is_admitted_before_it_is_known_who_asks() -> None:
    found = session()
    assert (found.refusal(0.0), found.principal) == ("unauthenticated", None)
    assert found.authenticate(b"alice", 0.0, 0.0) == "illegal state"
    found.handshake("PLAIN")
    assert found.authenticate(b"?", 0.0, 0.0) == Challenge(b"!")
    assert found.refusal(0.0) == "unauthenticated"
    assert found.authenticate(b"alice", 0.0, 0.0) == Authenticated(user("alice"), b"", None, False)
    assert (found.refusal(1e9), found.principal, found.mechanism) == (None, user("alice"), PLAIN)


def test_a_slow_step_is_settled_later() -> None:
    found = session()
    found.handshake("PLAIN")
    step = found.authenticate(b"slow alice", 0.0, 0.0)
    assert isinstance(step, Slow)
    assert found.principal is None
    assert isinstance(found.settle(step.check(), 0.0, 0.0), Authenticated)
    assert found.principal == user("alice")


@pytest.mark.parametrize(
    ("longest", "message", "ends"),
    [(60.0, b"alice", 60.0), (60.0, b"alice until 1030", 30.0), (None, b"alice until 1030", 30.0)],
)
def test_it_ends_and_can_be_renewed(longest: float | None, message: bytes, ends: float) -> None:
    found = established(longest, message)
    assert found.refusal(ends - 0.1) is None
    assert found.refusal(ends) == "session_expired"
    assert found.handshake("PLAIN") is Handshake.ACCEPTED, "late, but it may"
    assert found.principal == user("alice")
    assert found.refusal(0.0) == "unauthenticated", "nothing else in between"
    assert found.authenticate(b"alice", 100.0, 1_100.0) == Authenticated(user("alice"), b"", longest, True)
    assert found.refusal(100.0) is None


def test_nobody_becomes_somebody_else() -> None:
    found = established()
    found.handshake("PLAIN")
    step = found.authenticate(b"bob", 1.0, 1.0)
    assert isinstance(step, Failure)
    assert step.reason == "changed"
    found = established()
    assert found.handshake("SCRAM-SHA-256") is Handshake.ACCEPTED, "Kafka says so at the next message, too"
    step = found.authenticate(b"alice", 1.0, 1.0)
    assert isinstance(step, Failure)
    assert step.reason == "changed"


class Sessions(RuleBasedStateMachine):
    """After any messages in any order, a client is admitted only after a success, and no longer than that lasts."""

    @initialize(longest=st.none() | st.floats(1, 20))
    def begin(self, longest: float | None) -> None:
        self.session, self.longest = session(longest), longest
        self.now = 0.0
        self.ends_at: float | None = None
        self.known: Principal | None = None
        self.exchanging = False

    @rule(seconds=st.floats(0, 15))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(name=st.sampled_from(["PLAIN", "GSSAPI", ""]))
    def handshake(self, name: str) -> None:
        if self.session.handshake(name) is Handshake.ACCEPTED:
            assert name == "PLAIN" and not self.exchanging
            self.exchanging = True

    @rule(message=st.sampled_from([b"?", b"alice", b"bob", b"alice until 1005", b"1 2 3 4", b""]))
    def authenticate(self, message: bytes) -> None:
        step = self.session.authenticate(message, self.now, 1_000 + self.now)
        assert (step == "illegal state") is (not self.exchanging)
        if isinstance(step, Authenticated):
            assert self.known in (None, step.principal)
            self.exchanging, self.known = False, step.principal
            self.ends_at = None if step.seconds is None else self.now + step.seconds
            assert self.longest is None or (step.seconds is not None and step.seconds <= self.longest)

    @invariant()
    def admits_only_who_is_known(self) -> None:
        if not hasattr(self, "session"):
            return
        refusal = self.session.refusal(self.now)
        if self.known is None or self.exchanging:
            assert refusal == "unauthenticated"
        else:
            is_over = self.ends_at is not None and self.now >= self.ends_at
            assert refusal == ("session_expired" if is_over else None)
        assert self.session.principal == self.known


TestSessions = Sessions.TestCase
