"""The fuzz itself, and that it would notice: it reaches every refusal, and anything but ProtocolError ends it."""

from __future__ import annotations

from typing import get_args

import pytest

from mesh.wire.errors import Reason
from tests.wire import fuzz

NOT_OF_THE_DECODER = {
    "produce",
    "trailing_bytes",
    "unauthenticated",
    "session_expired",
    "authentication_timeout",
    "unexpected_response",
    "no_route",
}
"""Errors of handlers, of a connection's gate, and of clients of brokers."""


def test_hostile_requests_end_in_protocol_errors_only() -> None:
    child = fuzz.in_child(seed=3, requests=100_000)
    assert child.returncode == 0, child.stderr[-4_000:]
    assert child.stdout.startswith("100000 requests, ")
    for reason in set(get_args(Reason)) - NOT_OF_THE_DECODER:
        assert f"  {reason}: " in child.stdout


def test_the_same_seed_makes_the_same_requests() -> None:
    first, second = fuzz.run(seed=5, requests=300), fuzz.run(seed=5, requests=300)
    assert (first.decoded, first.refused) == (second.decoded, second.refused)
    assert first.decoded > 0


def test_any_other_exception_ends_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(stream: bytes) -> int:
        raise IndexError(len(stream))

    monkeypatch.setattr(fuzz, "receive", broken)
    with pytest.raises(IndexError):
        fuzz.run(seed=5, requests=1)
    assert "request 0 of seed 5: " in capsys.readouterr().err
