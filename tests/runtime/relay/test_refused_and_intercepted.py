"""Requests behind a refused one, in a relay with interceptors: they never reach the broker."""

from __future__ import annotations

import asyncio
from struct import pack

import pytest

from mesh.interceptors.spi import KEEP
from mesh.wire.apis import ApiKey
from tests.interceptors.fakes import Does
from tests.runtime.interception.requests import interceptors_of
from tests.runtime.relay.frames import request
from tests.runtime.relay.harness import World, world
from tests.runtime.relay.loops import anyhow, until
from tests.runtime.relay.test_authentication import HEARTBEAT, with_sasl

DELETE = request(ApiKey.DELETE_TOPICS, 3, 10, b"\0\0\0\1\0\6orders\0\0\0\1")


def received(made: World) -> list[ApiKey]:
    return [ApiKey(each.key) for leg in made.broker.legs for each in leg.asked]


@pytest.mark.parametrize("is_intercepted", [True, False])
@anyhow
async def test_a_client_that_has_not_authenticated_reaches_no_broker(is_intercepted: bool) -> None:
    async with world(security=with_sasl()) as made:
        await made.known()
        if is_intercepted:
            made.runtime._services.interceptors = interceptors_of(Does(lambda _: KEEP))
        client = await made.client(0)
        client.send(HEARTBEAT + DELETE)
        await client.rest()
        await until(lambda: not made.listener.connections)
        await asyncio.sleep(0.1)
        assert made.refused == {("unauthenticated",): 1}
        assert not made.broker.legs


@anyhow
async def test_a_request_hidden_in_a_refused_one_reaches_no_broker() -> None:
    async with world(refused=[ApiKey.DELETE_TOPICS]) as made:
        await made.known()
        made.runtime._services.interceptors = interceptors_of(Does(lambda _: KEEP))
        made.broker.script = lambda broker, leg, asked: None  # the first request stays unanswered, like a Fetch
        client = await made.client(0)
        client.send(HEARTBEAT)
        await until(lambda: received(made) == [ApiKey.HEARTBEAT])
        outer = pack(">ihhi", 10 + len(DELETE) + 100, ApiKey.DELETE_TOPICS, 3, 11)
        client.send(outer[:6])
        await asyncio.sleep(0.05)
        client.send(outer[6:] + DELETE)
        await asyncio.sleep(0.2)
        assert received(made) == [ApiKey.HEARTBEAT]
