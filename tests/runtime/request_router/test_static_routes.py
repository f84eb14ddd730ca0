"""Requests of static routes: they pass in pieces, undecoded."""

from __future__ import annotations

import asyncio
import hashlib
from struct import pack
from typing import Any

import pytest

from mesh.routing.spi import Request, RouterContext, RouterResult
from mesh.runtime.request_router import connection, work
from mesh.runtime.request_router.static_legs import MOST_HELD, StaticLeg, routable
from mesh.wire.apis import ApiKey
from mesh.wire.relayed_apis import RELAYED_APIS
from tests.runtime.entity_router.test_requests import offsets, produce
from tests.runtime.relay.frames import answer, framed
from tests.runtime.relay.loops import anyhow, everywhere, until
from tests.runtime.request_router.harness import EU, US, US_NODE, ToRoute, routed

ANSWER = {"responses": [{"name": "orders", "partition_responses": [{"index": 0, "base_offset": 5}]}]}


def raw_produce(records: bytes, correlation_id: int = 1, acks: int = -1) -> bytes:
    """v3: one partition of orders. The records are invalid, and the client id is unusual."""
    body = pack(">hhii", -1, acks, 1_000, 1) + pack(">h", 6) + b"orders" + pack(">iii", 1, 0, len(records)) + records
    return framed(pack(">hhih", ApiKey.PRODUCE, 3, correlation_id, 4) + b"mine" + body)


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if anything is read as a tree."""

    def fail(*_: object) -> None:
        raise AssertionError("it was read")

    monkeypatch.setattr(work.RouterWork, "begin", fail)


@pytest.mark.usefixtures("unread")
@anyhow
async def test_a_produce_of_a_megabyte_passes_as_it_came() -> None:
    async with routed(static_routes={ApiKey.PRODUCE: US}) as made:
        told = b"any bytes that are an answer"
        made.us.brokers[0].script = lambda broker, leg, asked: leg.writer.write(answer(asked.correlation_id, told))
        client = await made.client(US_NODE)
        sent = raw_produce(bytes(range(256)) * 4_096)
        client.send(sent)
        assert await client.frame() == pack(">i", 1) + told
        (asked,) = made.us.brokers[0].leg.asked
        assert hashlib.sha256(framed(asked.frame)).digest() == hashlib.sha256(sent).digest()
        assert made.routers == []
        assert made.descriptors.used == 2, "the client's connection, and the leg"
        client.writer.close()
        await until(lambda: made.descriptors.used == 0)
        assert [
            leaf.services.traffic.of(0).apis[ApiKey.PRODUCE].requests for leaf in made.runtime.leaves if leaf.number
        ] == [1]


@pytest.mark.usefixtures("unread")
@anyhow
async def test_it_passes_before_all_of_it_has_come() -> None:
    async with routed(static_routes={ApiKey.PRODUCE: EU}) as made:
        made.eu.brokers[0].cuts = False
        client = await made.client()
        sent = raw_produce(bytes(1 << 20))
        client.send(sent[: 600 << 10])
        await until(lambda: bool(made.eu.brokers[0].legs) and len(made.eu.brokers[0].leg.data) > 500 << 10)
        client.send(sent[600 << 10 :])
        await until(lambda: made.eu.brokers[0].leg.data.endswith(sent[-(1 << 20) :]))


class Slow(ToRoute):
    """Answers a Heartbeat when a test says so, and sends all other requests to eu."""

    gate = asyncio.Event()

    async def on_request(self, request: Request, context: RouterContext) -> RouterResult:
        if request.api is ApiKey.HEARTBEAT:
            await self.gate.wait()
            return context.error(request, 27)
        return await super().on_request(request, context)


@everywhere
async def test_answers_of_static_routes_wait_for_those_of_the_router() -> None:
    Slow.gate = asyncio.Event()
    async with routed(Slow, static_routes={ApiKey.PRODUCE: US, ApiKey.LIST_OFFSETS: EU}) as made:
        made.us.answers = lambda api_key, version, request: ANSWER if request["acks"] else None
        made.eu.answers = lambda *_: {"topics": []}
        client = await made.client()
        client.ask_tree(ApiKey.PRODUCE, 9, produce("orders"), 1)
        client.ask_tree(ApiKey.HEARTBEAT, 4, {"group_id": "one"}, 2)
        client.ask_tree(ApiKey.PRODUCE, 9, produce("orders"), 3)
        client.ask_tree(ApiKey.LIST_OFFSETS, 6, offsets("orders"), 4)
        client.ask_tree(ApiKey.PRODUCE, 9, produce("orders", acks=0), 5)
        client.ask_tree(ApiKey.PRODUCE, 9, produce("orders"), 6)
        await client.tree(ApiKey.PRODUCE, 9, 1)
        await until(lambda: len(made.us.brokers[0].leg.asked) == 4 and len(made.eu.seen) == 1)
        Slow.gate.set()
        assert (await client.tree(ApiKey.HEARTBEAT, 4, 2))["error_code"] == 27
        await client.tree(ApiKey.PRODUCE, 9, 3)
        await client.tree(ApiKey.LIST_OFFSETS, 6, 4)
        await client.tree(ApiKey.PRODUCE, 9, 6)


@anyhow
async def test_a_broker_that_is_lost_closes_the_connection() -> None:
    async with routed(static_routes={ApiKey.PRODUCE: US}) as made:
        made.us.answers = lambda *_: None
        client = await made.client()
        client.ask_tree(ApiKey.PRODUCE, 9, produce("orders"))
        await until(lambda: bool(made.us.seen))
        await made.us.stop()
        assert await client.rest() == b""


@anyhow
async def test_a_client_that_reads_nothing_stops_its_brokers() -> None:
    """The mesh bounds the answers that wait for an earlier one, and then reads no more."""
    Slow.gate = asyncio.Event()
    async with routed(Slow, static_routes={ApiKey.LIST_OFFSETS: EU}) as made:
        told = bytes(300 << 10)
        made.eu.brokers[0].script = lambda broker, leg, asked: leg.writer.write(answer(asked.correlation_id, told))
        client = await made.client()
        client.ask_tree(ApiKey.HEARTBEAT, 4, {"group_id": "one"}, 0)
        for number in range(1, 101):
            client.ask_tree(ApiKey.LIST_OFFSETS, 6, offsets("orders"), number)
        await until(lambda: bool(made.eu.brokers[0].legs) and len(made.eu.brokers[0].leg.asked) >= 10)
        Slow.gate.set()
        assert (await client.frame())[:4] == pack(">i", 0)
        for number in range(1, 101):
            frame = await client.frame()
            assert frame[:4] == pack(">i", number)
            assert len(frame) == 4 + len(told)


@pytest.fixture
def legs(monkeypatch: pytest.MonkeyPatch) -> list[StaticLeg]:
    """The existing legs."""
    made: list[StaticLeg] = []

    class Noted(StaticLeg):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(connection, "StaticLeg", Noted)
    return made


@anyhow
async def test_a_broker_whose_answers_waited_goes_on_behind_those_of_another(legs: list[StaticLeg]) -> None:
    """The mesh bounds the answers that wait for the answer of another route; when that has left, it reads the
    others."""
    async with routed(static_routes={ApiKey.LIST_OFFSETS: EU, ApiKey.PRODUCE: US}) as made:
        told = bytes(300 << 10)
        made.eu.brokers[0].script = lambda broker, leg, asked: leg.writer.write(answer(asked.correlation_id, told))
        made.us.answers = lambda *_: None
        client = await made.client()
        client.ask_tree(ApiKey.PRODUCE, 9, produce("orders"), 0)
        await until(lambda: bool(made.us.seen))
        for number in range(1, 61):
            client.ask_tree(ApiKey.LIST_OFFSETS, 6, offsets("orders"), number)
        await until(lambda: any(leg.held > MOST_HELD for leg in legs))
        await asyncio.sleep(0)
        assert max(leg.held for leg in legs) < 8 * MOST_HELD, "of 18 MiB"
        made.us.brokers[0].leg.writer.write(answer(0, b"\0an answer"))
        assert (await client.frame())[:4] == pack(">i", 0)
        for number in range(1, 61):
            assert (await client.frame())[:4] == pack(">i", number)


def test_apis_with_nodes_in_them_have_no_static_routes() -> None:
    without = {key for key in RELAYED_APIS if not routable(key)}
    assert {ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_CLUSTER, ApiKey.CREATE_TOPICS} <= without
    assert not without & {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_COMMIT}
