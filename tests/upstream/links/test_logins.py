"""Logins that nodes of a cluster refuse: when that is reported, with which reason, and when it is over."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mesh.tasks import OwnedTask, TaskName
from mesh.upstream.links import logins as logins_module
from mesh.upstream.links.connection_settings import connection_settings_of
from mesh.upstream.links.handshake import Unreachable, connect
from mesh.upstream.links.logins import MOST_NODES, Address, LoginOutcome, LoginRefusal, Logins, LoginWatch
from mesh.upstream.problems import UpstreamProblem
from tests.integration.security.certificates import Authority, Pair
from tests.planted import Planting, plants
from tests.upstream.harness import TIMEOUT, run

FIRST, SECOND = ("first", 1), ("second", 1)
EXPIRED = LoginOutcome(1.0, UpstreamProblem.ENCRYPTION, "certificate expired")
DOWN = LoginOutcome(1.0, UpstreamProblem.UNREACHABLE, "no route")
ACCEPTED = LoginOutcome(1.0)


def test_what_no_node_accepts_is_refused() -> None:
    logins = Logins()
    assert logins.refusal() is None
    logins.note(FIRST, DOWN)
    assert logins.refusal() is None, "a node that is down refuses nothing"
    logins.note(SECOND, EXPIRED)
    reason = "no node accepts the login; second:1: certificate expired"
    assert logins.refusal() == LoginRefusal(UpstreamProblem.ENCRYPTION, reason)
    logins.note(FIRST, ACCEPTED)
    assert logins.refusal() is None
    logins.note(FIRST, EXPIRED)
    assert logins.refusal() is not None


def test_the_oldest_addresses_are_forgotten() -> None:
    logins = Logins()
    logins.note(FIRST, ACCEPTED)
    for port in range(MOST_NODES):
        logins.note(("node", port), EXPIRED)
    assert len(logins.older_than(2.0)) == MOST_NODES
    assert logins.refusal() is not None


class Nodes:
    """Two nodes, each of which answers every login with its outcome."""

    def __init__(self) -> None:
        self.logins = Logins()
        self.outcomes = {FIRST: ACCEPTED, SECOND: ACCEPTED}
        self.tried: list[Address] = []
        self.first_tried = asyncio.Event()
        self.reported: asyncio.Queue[LoginRefusal | None] = asyncio.Queue()
        self.watch = LoginWatch("eu", self.logins, self.attempt, self.reported.put_nowait)

    async def attempt(self, address: Address) -> None:
        self.tried.append(address)
        if address == FIRST:
            self.first_tried.set()
        self.logins.note(address, self.outcomes[address])

    def connect(self, address: Address) -> None:
        """A connection of a client."""
        self.logins.note(address, self.outcomes[address])

    async def next(self) -> LoginRefusal | None:
        async with asyncio.timeout(TIMEOUT):
            return await self.reported.get()


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins_module, "CONFIRMED_AFTER", 0.0)
    monkeypatch.setattr(logins_module, "INTERVAL", 0.0)


@pytest.mark.usefixtures("soon")
def test_other_nodes_are_tried_before_a_refusal_is_reported() -> None:
    async def test() -> None:
        nodes = Nodes()
        nodes.connect(FIRST)
        nodes.outcomes[SECOND] = EXPIRED
        nodes.connect(SECOND)
        async with asyncio.timeout(TIMEOUT):
            await nodes.first_tried.wait()
        assert nodes.reported.empty(), "the other node accepts it"
        nodes.outcomes[FIRST] = DOWN
        while nodes.reported.empty():
            nodes.connect(SECOND)  # clients come again and again
            await asyncio.sleep(0)
        refusal = await nodes.next()
        assert refusal is not None and refusal.problem is UpstreamProblem.ENCRYPTION
        nodes.outcomes[SECOND] = LoginOutcome(1.0, UpstreamProblem.CREDENTIALS, "wrong password")
        refusal = await nodes.next()
        assert refusal is not None and refusal.reason.endswith("wrong password")
        nodes.outcomes[SECOND] = ACCEPTED
        assert await nodes.next() is None
        nodes.watch.close()

    run(test)


@pytest.mark.usefixtures("soon")
def test_a_watch_that_was_closed_tries_nothing() -> None:
    async def test() -> None:
        nodes = Nodes()
        nodes.outcomes = dict.fromkeys(nodes.outcomes, EXPIRED)
        nodes.connect(SECOND)
        assert await nodes.next() is not None
        nodes.watch.close()
        await asyncio.sleep(0)
        nodes.tried.clear()
        nodes.connect(SECOND)
        await asyncio.sleep(0)
        assert not nodes.tried

    run(test)


@asynccontextmanager
async def guarded(authority: Authority) -> AsyncIterator[int]:
    """A TLS server that requires a certificate of the authority, and answers nothing: its port."""
    server = authority.issue("server")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.certificate)
    context.load_cert_chain(server.certificate, server.key)
    context.verify_mode = ssl.CERT_REQUIRED
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    listening = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    async with listening:
        yield listening.sockets[0].getsockname()[1]


def properties_of(authority: Authority, pair: Pair) -> dict[str, str]:
    return {
        "security.protocol": "ssl",
        "ssl.ca.location": str(authority.certificate),
        "ssl.certificate.location": str(pair.certificate),
        "ssl.key.location": str(pair.key),
    }


def test_a_connection_notes_the_problem_of_its_login(tmp_path: Path) -> None:
    """An authority that the mesh does not trust, and a node that is down."""
    authority, other = Authority(tmp_path / "one"), Authority(tmp_path / "other")

    async def test() -> None:
        settings = connection_settings_of(properties_of(other, authority.issue("mesh")))
        async with guarded(authority) as port:
            with pytest.raises(Unreachable, match="certificate verify failed") as raised:
                await connect("localhost", port, settings)
        assert raised.value.problem is UpstreamProblem.ENCRYPTION
        refusal = settings.logins.refusal()
        assert refusal is not None and "certificate verify failed" in refusal.reason
        with pytest.raises(Unreachable) as raised:
            await connect("localhost", port, settings)
        assert raised.value.problem is UpstreamProblem.UNREACHABLE
        assert settings.logins.refusal() is None

    run(test)


def test_a_bare_connection_accepts_nothing(tmp_path: Path) -> None:
    """With TLS 1.3 a broker refuses a certificate after the handshake."""
    authority = Authority(tmp_path)

    async def test() -> None:
        settings = connection_settings_of(properties_of(authority, authority.issue("mesh")))
        async with guarded(authority) as port:
            (await connect("localhost", port, settings, is_bare=True)).fail("done")
        assert not settings.logins.older_than(float("inf"))

    run(test)


@plants(TaskName.LOGINS)
@pytest.mark.usefixtures("soon")
def test_the_next_refusal_begins_again_after_a_failure(planting: Planting) -> None:
    async def test() -> None:
        nodes = Nodes()
        nodes.outcomes = dict.fromkeys(nodes.outcomes, EXPIRED)
        with planting.into_task() as told:
            nodes.connect(FIRST)
            assert nodes.watch._task is not None
            await asyncio.wait([nodes.watch._task])
            ((task, _, _),) = told.failures
            assert task == OwnedTask(TaskName.LOGINS, cluster="eu")
            nodes.connect(SECOND)
            assert await nodes.next() is not None
        nodes.watch.close()

    run(test)
