from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.security.plain import LONGEST, PlainExchange
from mesh.security.sasl import Failure, Slow, Success


def exchange() -> PlainExchange:
    return PlainExchange(lambda name, password: (name, password) == ("alice", "sesam"))


@pytest.mark.parametrize("message", [b"\0alice\0sesam", b"alice\0alice\0sesam"])
def test_the_right_password(message: bytes) -> None:
    step = exchange().step(message)
    assert isinstance(step, Slow)
    assert step.check() == Success(step.check().principal)  # type: ignore[union-attr]
    assert isinstance(step.check(), Success)


@pytest.mark.parametrize("message", [b"\0alice\0sesame", b"\0bob\0sesam", b"\0Alice\0sesam"])
def test_anything_else_is_wrong(message: bytes) -> None:
    step = exchange().step(message)
    assert isinstance(step, Slow)
    found = step.check()
    assert isinstance(found, Failure)
    assert found.reason == "wrong_credentials"


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"alice\0sesam",
        b"\0alice\0sesam\0",
        b"\0\0sesam",
        b"\0alice\0",
        b"bob\0alice\0sesam",
        b"\0\xff\0sesam",
        b"\0alice\0" + b"x" * (LONGEST + 1),
    ],
)
def test_what_is_no_message_of_plain(message: bytes) -> None:
    step = exchange().step(message)
    assert isinstance(step, Failure)
    assert step.reason == "malformed"


@given(st.binary(max_size=40))
def test_whatever_is_sent_nobody_gets_in_without_the_password(message: bytes) -> None:
    step = exchange().step(message)
    assert isinstance(step.check() if isinstance(step, Slow) else step, Failure)
