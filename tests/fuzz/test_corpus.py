"""The corpus and seeded mutations of it, through the fuzzed code; and a planted finding."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from structlog.testing import capture_logs

from mesh.listener.client_transport import ClientTransport
from mesh.runtime.pool.connection import PoolConnection
from tests.fuzz.corpus import inputs
from tests.fuzz.targets import TARGETS, Server, decode, step, steps
from tests.wire.entities import ALL_VERSIONS, header_and_body
from tests.wire.fuzz import mutated

MUTATIONS = {"decode": 20, "server": 2}


@pytest.fixture(autouse=True)
def logs() -> Iterator[None]:
    with capture_logs():
        yield


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_and_mutations_of_it_find_nothing(name: str) -> None:
    random, target, frames = Random(7), TARGETS[name](), 0
    kept = inputs(name)
    for data in kept:
        frames += target(data)
        for _ in range(MUTATIONS[name]):
            frames += target(mutated(random, data))
    assert frames > 10 * len(kept) / 5


def test_a_script_plays_alike_every_time() -> None:
    target = Server()
    for data in inputs("server")[:5]:
        assert target(data) == target(data)


def test_a_bug_in_a_decoder_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise IndexError("oh")

    monkeypatch.setattr("mesh.wire.connection.decode_request", broken)
    with pytest.raises(IndexError):
        decode(bytes((0,)) + header_and_body(*ALL_VERSIONS[0])[1])


@pytest.mark.parametrize("where", ["taking up", "a timer"])
def test_a_bug_in_the_server_is_a_finding(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise IndexError("oh")

    owner, method = {"taking up": (PoolConnection, "handle_next"), "a timer": (ClientTransport, "_check_timeouts")}[
        where
    ]
    monkeypatch.setattr(owner, method, broken)
    with pytest.raises(IndexError):
        Server()(step(4, 0, b"\0\0") + step(6, 0, choice=7) + step(6, 0, choice=7))


def test_what_is_no_script_is_played_too() -> None:
    assert steps(b"") == steps(b"\0\0\0") == []
    assert steps(b"\0\1\xff\xff\7") == [(0, 0, 1, b"\7")]
