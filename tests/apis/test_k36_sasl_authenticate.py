from __future__ import annotations

from typing import Any

import pytest

from mesh.security.principals import user
from mesh.security.sasl import MESSAGES, Challenge, Failure, Mechanism, Step, Success
from mesh.security.session import Session
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.pool.apis.harness import Client, Mesh, versions
from tests.pool.apis.messages import response

VERSIONS = versions(ApiKey.SASL_AUTHENTICATE)


class Exchange:
    """Asks for a second message; `yes` is right, and valid for 100 s of a wall clock that does not move here."""

    def step(self, message: bytes) -> Step:
        match message:
            case b"first":
                return Challenge(b"more")
            case b"yes":
                return Success(user("alice"), b"welcome", expires_at=100.0)
            case b"for ever":
                return Success(user("alice"))
        return Failure("wrong_credentials", "not for the client", "alice")


def client(longest: float | None = None) -> Client:
    asked = Client(Mesh(), session=Session(lambda: {Mechanism.PLAIN: Exchange}, longest))
    asked.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
    return asked


def authenticate(asked: Client, version: int, message: bytes) -> Any:
    return asked.ask(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=message)


def answered(version: int, error: ErrorCode = ErrorCode.NONE, message: str | None = None, **values: Any) -> Any:
    lifetime = values.pop("session_lifetime", 0)
    values = {"auth_bytes": b"", "session_lifetime": lifetime, **values}
    return response(ApiKey.SASL_AUTHENTICATE, version, error_code=error, error_message=message, **values)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_whole_exchange(version: int) -> None:
    asked = client()
    assert authenticate(asked, version, b"first") == answered(version, auth_bytes=b"more")
    assert asked.session.principal is None
    assert authenticate(asked, version, b"yes") == answered(version, auth_bytes=b"welcome", session_lifetime=100_000)
    assert asked.session.principal == "User:alice"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("message", "longest", "lifetime"),
    [
        (b"yes", 30.0, 30_000),
        (b"yes", 300.0, 100_000),
        (b"for ever", 30.0, 30_000),
        (b"for ever", None, 0),
        (b"for ever", 0.0001, 1),
    ],
)
def test_how_long_it_lasts(version: int, message: bytes, longest: float | None, lifetime: int) -> None:
    answer = authenticate(client(longest), version, message)
    token = b"welcome" if message == b"yes" else b""
    assert answer == answered(version, auth_bytes=token, session_lifetime=lifetime)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_failure_says_nothing_that_helps_to_guess(version: int) -> None:
    asked = client()
    expected = answered(version, ErrorCode.SASL_AUTHENTICATION_FAILED, MESSAGES["wrong_credentials"])
    assert authenticate(asked, version, b"no") == expected
    assert asked.session.principal is None


@pytest.mark.parametrize("version", VERSIONS)
def test_without_a_handshake(version: int) -> None:
    for asked in (Client(Mesh()), Client(Mesh(), session=Session(lambda: {Mechanism.PLAIN: Exchange}))):
        assert authenticate(asked, version, b"yes").error_code == ErrorCode.ILLEGAL_SASL_STATE
