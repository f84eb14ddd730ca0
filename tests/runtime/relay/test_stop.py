"""The end of a relay: waiting clients get their answers, and no other client delays it."""

from __future__ import annotations

import asyncio
import threading
from struct import pack
from types import SimpleNamespace
from typing import cast

import pytest

from mesh.listener.listener import Listener
from mesh.listener.peer import Peer
from mesh.runtime.relay.graceful_stop import GracefulStop
from mesh.security.credentials import Credentials
from mesh.telemetry.metrics import Metrics
from mesh.wire.apis import ApiKey
from tests.fake_time import in_fake_time
from tests.runtime.relay.frames import produce, request
from tests.runtime.relay.harness import Asked, World, echo, world
from tests.runtime.relay.loops import PATIENCE, anyhow, everywhere, until
from tests.runtime.relay.test_authentication import authenticate, token, with_sasl

GRACE = 1_000.0


def answer_all(made: World, waiting: list[Asked]) -> None:
    for asked in waiting:
        echo(made.broker, made.broker.leg, asked)
    waiting.clear()


@everywhere
async def test_idle_connections_close_at_once_others_with_their_answers() -> None:
    waiting: list[Asked] = []
    async with world() as made:
        idle, new = await made.client(), await made.client()
        assert await idle.ask(ApiKey.HEARTBEAT, 3)
        busy = await made.client()
        made.broker.script = lambda broker, leg, asked: waiting.append(asked)
        busy.send(*[request(ApiKey.HEARTBEAT, 3, id, bytes(300_000)) for id in range(3)])
        await until(lambda: len(waiting) == 3)
        made.runtime.begin_stop(GRACE)
        assert await idle.rest() == await new.rest() == b""
        answer_all(made, waiting[:1])
        assert (await busy.frame())[:4] == pack(">i", 0)
        answer_all(made, waiting[1:])
        for id in (1, 2):
            assert (await busy.frame())[:4] == pack(">i", id)
        assert await busy.rest() == b""
        await made.runtime.drained()
        assert not made.listener.connections


@everywhere
async def test_a_client_that_never_pauses_does_not_hold_it_up() -> None:
    """The relay reads only the rest of a request that has begun."""
    waiting: list[Asked] = []
    async with world() as made:
        made.broker.script = lambda broker, leg, asked: waiting.append(asked)
        client = await made.client()
        large = produce(1, -1, bytes(300_000))
        client.send(request(ApiKey.HEARTBEAT, 3, 0), large[:1_000])
        await until(lambda: waiting and made.connections[0].has_unfinished_frame)
        made.runtime.begin_stop(GRACE)
        client.send(large[1_000:])
        await until(lambda: len(waiting) == 2)
        await until(lambda: made.connections[0].client.is_reading_paused)
        answer_all(made, waiting)
        assert [(await client.frame())[:4] for _ in range(2)] == [pack(">i", 0), pack(">i", 1)]
        assert await client.rest() == b""
        await made.runtime.drained()


@everywhere
async def test_a_client_that_connects_while_it_stops_is_closed() -> None:
    waiting: list[Asked] = []
    async with world() as made:
        made.broker.script = lambda broker, leg, asked: waiting.append(asked)
        busy = await made.client()
        busy.send(request(ApiKey.HEARTBEAT, 3, 1))
        await until(lambda: waiting)
        made.runtime.begin_stop(GRACE)
        assert await (await made.client()).rest() == b""
        assert await (await made.client(None)).rest() == b""
        answer_all(made, waiting)
        assert await busy.frame()
        await made.runtime.drained()


@anyhow
async def test_a_client_that_waits_longer_than_the_grace_is_closed() -> None:
    async with world() as made:
        made.broker.script = lambda *_: None
        client = await made.client()
        client.send(request(ApiKey.HEARTBEAT, 3, 1))
        await until(lambda: made.broker.legs)
        made.runtime.begin_stop(0.05)
        await made.runtime.drained()
        assert made.listener.connections
        made.runtime.drain()
        made.runtime.close_connections()
        assert await client.rest() == b""


@in_fake_time
async def test_the_grace_counts_from_the_begin_of_the_stop() -> None:
    waiting = cast(Peer, SimpleNamespace(is_busy=True, close=lambda: None))
    stop = GracefulStop(Listener("front", Metrics()), lambda: [waiting])
    begun = asyncio.get_running_loop().time()
    stop.begin(6.0)
    await asyncio.sleep(4.0)
    await stop.drained()
    assert asyncio.get_running_loop().time() == begun + 6.0
    await stop.drained()
    assert asyncio.get_running_loop().time() == begun + 6.0


@anyhow
async def test_nobody_is_connected() -> None:
    async with world() as made:
        made.runtime.begin_stop(GRACE)
        await made.runtime.drained()


@anyhow
async def test_a_client_that_waits_for_the_mesh_itself_gets_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    checked = threading.Event()
    checked.set()
    monkeypatch.setattr(Credentials, "verify", lambda *_: checked.wait(PATIENCE))
    async with world(security=with_sasl(longest=1_000)) as made:
        client = await made.client()
        await authenticate(client)
        client.send(request(ApiKey.SASL_HANDSHAKE, 1, 3, pack(">h", 5) + b"PLAIN"))
        await client.frame()
        checked.clear()
        client.send(token(4))
        (connection,) = made.connections
        await until(lambda: connection.is_busy)
        made.runtime.begin_stop(GRACE)
        checked.set()
        assert (await client.frame())[:4] == pack(">i", 4)
        assert await client.rest() == b""
        await made.runtime.drained()


@everywhere
async def test_what_was_not_acknowledged_arrives() -> None:
    async with world() as made:
        made.broker.cuts = False
        client = await made.client()
        client.send(produce(1, 0, bytes(2 << 20)))
        await until(lambda: made.connections and not made.connections[0].has_unfinished_frame and made.broker.legs)
        await until(lambda: made.broker.leg.data)
        await until(lambda: not made.connections[0].has_unfinished_frame)
        made.runtime.begin_stop(GRACE)
        await until(lambda: made.broker.leg.has_ended)
        assert made.broker.leg.data == produce(1, 0, bytes(2 << 20))
        await asyncio.wait_for(made.runtime.drained(), 10)
