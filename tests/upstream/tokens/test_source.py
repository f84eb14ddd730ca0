"""When a token is fetched, kept and discarded, and the answers to callers that wait for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from structlog.testing import capture_logs

from mesh.security.oauthbearer_client import Token, TokenRefused
from mesh.upstream.tokens.source import BACKOFF, LEAST_AGE, TokenSource, TokenUnavailable

LIFETIME = 100.0


@dataclass(slots=True)
class Bench:
    """A source, its clock, and its issuer. set_by: seconds by which somebody has set the time."""

    now: float = 1_000.0
    set_by: float = 0.0
    fetched: int = 0
    problem: Exception | None = None
    lifetime: float = LIFETIME
    open: threading.Event = field(default_factory=threading.Event)

    def fetch(self) -> Token:
        assert self.open.wait(10)
        self.fetched += 1
        if self.problem is not None:
            raise self.problem
        return Token(f"token-{self.fetched}", self.wall() + self.lifetime, "mesh", {"a": "b"})

    def wall(self) -> float:
        return self.now + self.set_by

    def source(self) -> TokenSource:
        return TokenSource("eu", self.fetch, lambda: self.now, self.wall)


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    bench.open.set()
    yield bench
    bench.open.set()


def taken(source: TokenSource) -> str:
    return source.request().result(10).value


def test_it_is_fetched_once_and_again_before_it_ends(bench: Bench) -> None:
    source = bench.source()
    assert [taken(source) for _ in range(3)] == ["token-1"] * 3
    bench.now += 0.74 * LIFETIME
    assert taken(source) == "token-1"
    bench.now += 0.02 * LIFETIME
    assert [taken(source) for _ in range(3)] == ["token-2"] * 3


def test_all_waiting_connections_share_one_fetch(bench: Bench) -> None:
    bench.open.clear()
    source = bench.source()
    waiting = [source.request() for _ in range(5)]
    assert not any(each.cancel() for each in waiting), "one that goes takes it from nobody"
    bench.open.set()
    assert {each.result(10).value for each in waiting} == {"token-1"}
    assert bench.fetched == 1


def test_while_none_can_be_fetched_the_old_one_is_used_until_it_ends(bench: Bench) -> None:
    source = bench.source()
    assert taken(source) == "token-1"
    bench.problem = OSError("refused")
    bench.now += 0.8 * LIFETIME
    with capture_logs() as told:
        assert taken(source) == "token-1"
        bench.now += 0.3 * LIFETIME
        with pytest.raises(TokenUnavailable, match="no token: refused"):
            taken(source)
        bench.problem = None
        bench.now += 2 * BACKOFF
        assert taken(source) == "token-4"
    assert [(each["event"], each["cluster"]) for each in told] == [
        ("token cannot be fetched", "eu"),
        ("tokens fetched again", "eu"),
    ]


def test_an_issuer_that_fails_is_not_asked_at_once_again(bench: Bench) -> None:
    bench.problem = TokenRefused("invalid_client")
    source = bench.source()
    times = []
    while bench.now < 1_100:
        before = bench.fetched
        with pytest.raises(TokenUnavailable, match="invalid_client"):
            taken(source)
        if bench.fetched > before:
            times.append(bench.now - 1_000)
        bench.now += 0.5
    assert times == [0, 1, 3, 7, 15, 31, 61, 91]


def test_a_token_that_has_ended_is_none(bench: Bench) -> None:
    bench.lifetime = -7
    with pytest.raises(TokenUnavailable, match="the token ended 7 s ago"):
        taken(bench.source())


def test_whatever_goes_wrong_is_told(bench: Bench) -> None:
    bench.problem = ZeroDivisionError()
    with pytest.raises(TokenUnavailable, match="ZeroDivisionError"):
        taken(bench.source())


def test_one_that_a_broker_refuses_is_given_up_unless_it_is_new(bench: Bench) -> None:
    source = bench.source()
    first = source.request().result(10)
    source.refused(first)
    assert taken(source) == "token-1", "or an issuer would be asked without end"
    bench.now += LEAST_AGE
    source.refused(first)
    assert taken(source) == "token-2"
    source.refused(first)
    assert taken(source) == "token-2", "another one is meant"


def test_a_time_that_is_set_back_stops_no_renewal(bench: Bench) -> None:
    source = bench.source()
    assert taken(source) == "token-1"
    bench.set_by = -3_600
    bench.now += LEAST_AGE
    source.refused(source.request().result(10))
    assert taken(source) == "token-2"
    bench.problem = OSError("refused")
    bench.now += 0.8 * LIFETIME
    assert taken(source) == "token-2"
    bench.problem, bench.set_by = None, -7_200
    bench.now += BACKOFF
    assert taken(source) == "token-4", "it is tried again after the rest, whatever the time is"


def test_a_time_that_is_set_forward_ends_a_token(bench: Bench) -> None:
    source = bench.source()
    assert taken(source) == "token-1"
    bench.set_by = 3_600
    assert taken(source) == "token-2"


def test_librdkafka_is_given_the_same(bench: Bench) -> None:
    source = bench.source()
    assert source("") == ("token-1", 1_000 + LIFETIME, "mesh", {"a": "b"})
    assert taken(source) == "token-1"
    bench.problem = OSError("refused")
    bench.now += 2 * LIFETIME
    with pytest.raises(TokenUnavailable, match="refused"):
        source("")


def test_a_thread_that_cannot_start_is_a_fetch_that_failed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    source = bench.source()

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as planted, capture_logs():
        planted.setattr(threading.Thread, "start", start)
        with pytest.raises(TokenUnavailable, match="can't start new thread"):
            taken(source)
    bench.now += BACKOFF
    assert taken(source) == "token-1"
