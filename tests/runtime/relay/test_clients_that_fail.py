"""Clients that send nonsense, or stop in the middle of a request."""

from __future__ import annotations

from struct import pack

import pytest

from mesh.listener.limits import Limits
from mesh.wire.apis import ApiKey
from tests.runtime.relay.frames import produce, request
from tests.runtime.relay.harness import UNRATIONED, echo, world
from tests.runtime.relay.loops import anyhow, everywhere, until


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (pack(">i", (100 << 20) + 1), "frame_size"),
        (pack(">i", -1), "frame_size"),
        (pack(">i", 7), "frame_size"),
        (request(999, 0, 1), "unknown_api"),
        (request(86, 0, 1), "unknown_api"),
        (request(ApiKey.HEARTBEAT, 99, 1), "unsupported_version"),
        (request(ApiKey.HEARTBEAT, -1, 1), "unsupported_version"),
        (request(ApiKey.PRODUCE, 3, 1, pack(">h", 50) + b"short"), "truncated"),
        (request(ApiKey.SASL_AUTHENTICATE, 1, 1, bytes(64 << 10)), "frame_size"),
        (b"GET / HTTP/1.1\r\n\r\n", "frame_size"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "frame_size"),
    ],
)
@everywhere
async def test_what_is_no_request_closes_its_connection_and_no_other(sent: bytes, reason: str) -> None:
    async with world() as made:
        other = await made.client()
        assert await other.ask(ApiKey.HEARTBEAT, 3)
        client = await made.client()
        client.send(request(ApiKey.HEARTBEAT, 3, 1), sent)
        await client.rest()
        assert made.refused == {(reason,): 1}
        assert await other.ask(ApiKey.HEARTBEAT, 3, 2)
        assert not made.lost
        assert made.nodes.known[0].legs == 1


@anyhow
async def test_the_largest_request_is_configured() -> None:
    async with world(limits=Limits(request=1_000)) as made:
        client = await made.client()
        assert await client.ask(ApiKey.HEARTBEAT, 3, 1, bytes(900))
        client.send(request(ApiKey.HEARTBEAT, 3, 2, bytes(1_000)))
        assert await client.rest() == b""
        assert made.refused == {("frame_size",): 1}


@everywhere
async def test_half_a_frame_and_then_nothing() -> None:
    async with world(limits=Limits(frame_timeout=0.2)) as made:
        clients = [await made.client() for _ in range(3)]
        clients[0].send(b"\0\0")
        clients[1].send(request(ApiKey.HEARTBEAT, 3, 1)[:-1])
        clients[2].send(produce(1, 0, bytes(1_000_000))[:-1])
        for client in clients:
            assert await client.rest() == b""
        assert made.metric("kafka_mesh_connections_closed_total") == {("unfinished_frame",): 3}


@everywhere
async def test_it_leaves_in_the_middle_of_a_request() -> None:
    async with world() as made:
        client = await made.client()
        client.send(request(ApiKey.HEARTBEAT, 3, 1, bytes(1_000))[:-1])
        await until(lambda: made.connections and made.connections[0].has_unfinished_frame)
        client.close()
        await until(lambda: not made.listener.connections)
        assert not made.refused
        assert not made.lost
        assert made.nodes.known[0].legs == 0


@everywhere
async def test_it_reads_nothing() -> None:
    limits = Limits(write_timeout=0.5, request_rate=1 << 40, request_rate_per_address=1 << 40)
    async with world(limits=limits) as made:
        client = await made.client()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        made.broker.script = lambda broker, leg, asked: leg.writer.write(pack(">ii", 1 << 30, 1) + bytes(40 << 20))
        client.send(request(ApiKey.FETCH, 11, 1))
        await until(lambda: made.metric("kafka_mesh_connections_closed_total") == {("not_reading",): 1})
        assert not made.listener.connections
        assert made.nodes.known[0].legs == 0
        leg = made.broker.leg
        await until(lambda: leg.has_ended)


@anyhow
async def test_more_requests_in_flight_than_are_remembered() -> None:
    """The mesh reads no more until some are answered; all are answered."""
    count = 20_000
    async with world(limits=UNRATIONED) as made:
        waiting: list[tuple[object, int]] = []
        made.broker.script = lambda broker, leg, asked: waiting.append((leg, asked.correlation_id))
        client = await made.client()
        client.send(*[request(ApiKey.HEARTBEAT, 3, id) for id in range(count)])
        await until(lambda: made.connections[0].client.is_reading_paused and waiting)
        assert len(waiting) < count / 2
        made.broker.script = echo
        for asked in list(made.broker.leg.asked):
            echo(made.broker, made.broker.leg, asked)
        for id in range(count):
            assert (await client.frame())[:4] == pack(">i", id)
