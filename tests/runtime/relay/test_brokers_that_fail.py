"""Brokers that stop, or send nonsense: only the client of that connection notices."""

from __future__ import annotations

from collections.abc import Callable
from struct import pack

import pytest
from structlog.testing import capture_logs

from mesh.wire.apis import ApiKey
from tests.runtime.relay.frames import answer, framed, request
from tests.runtime.relay.harness import Asked, FakeBroker, Leg, World, echo, world
from tests.runtime.relay.loops import anyhow, everywhere, until

ASK = request(ApiKey.HEARTBEAT, 3, 1)


async def bystander(made: World) -> Callable[[], object]:
    """A client that must not notice anything; ask it at the end."""
    client = await made.client()
    assert await client.ask(ApiKey.HEARTBEAT, 3)

    async def goes_on() -> None:
        made.broker.script = echo
        assert await client.ask(ApiKey.HEARTBEAT, 3, 2) == pack(">iih", 2, 0, 0)[:4] + pack(">h", 4) + b"test"

    return goes_on


def bad(*frames: bytes, closes: bool = False) -> Callable[[FakeBroker, Leg, Asked], None]:
    def script(broker: FakeBroker, leg: Leg, asked: Asked) -> None:
        leg.writer.write(b"".join(frames))
        if closes:
            leg.writer.close()

    return script


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ([answer(2)], "unexpected_response"),
        ([answer(1, b"x"), answer(1)], "unexpected_response"),
        ([pack(">ii", -1, 1)], "frame_size"),
        ([pack(">ii", -(2**31), 1)], "frame_size"),
        ([pack(">ii", 3, 1)], "frame_size"),
        ([b"HTTP/1.1 400 Bad Request\r\n\r\n"], "unexpected_response"),
        ([b"\x15\x03\x03\x00\x02\x02\x46\x00"], "unexpected_response"),
    ],
)
@everywhere
async def test_what_is_no_answer(said: list[bytes], reason: str) -> None:
    async with world() as made:
        goes_on = await bystander(made)
        made.broker.script = bad(*said)
        client = await made.client()
        with capture_logs() as logs:
            client.send(ASK)
            await client.rest()
            await until(lambda: len(made.listener.connections) == 1)
        assert made.lost == {("0", reason): 1}
        assert [entry["reason"] for entry in logs if entry["log_level"] == "warning"] == [reason]
        leg = made.broker.leg
        await until(lambda: leg.has_ended)
        await goes_on()  # type: ignore[misc]
        assert made.nodes.known[0].legs == 1


@everywhere
async def test_an_answer_that_nobody_asked_for() -> None:
    async with world() as made:
        goes_on = await bystander(made)
        client = await made.client()
        await client.ask(ApiKey.HEARTBEAT, 3)
        made.broker.leg.writer.write(answer(77))
        assert await client.rest() == b""
        assert made.lost == {("0", "unexpected_response"): 1}
        await goes_on()  # type: ignore[misc]


@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.API_VERSIONS, ApiKey.FIND_COORDINATOR, ApiKey.FETCH])
@anyhow
async def test_garbage_where_something_is_read(key: ApiKey) -> None:
    async with world() as made:
        goes_on = await bystander(made)
        made.broker.script = bad(answer(1, b"\0\0" * (key is ApiKey.API_VERSIONS) + b"\x7f\xff\xff\xff" * 30))
        client = await made.client()
        client.send(request(key, {ApiKey.FETCH: 17}.get(key, 0), 1))
        await client.rest()
        (lost,) = made.lost
        assert lost[0] == "0"
        await goes_on()  # type: ignore[misc]


@pytest.mark.parametrize("key", [ApiKey.HEARTBEAT, ApiKey.METADATA, ApiKey.FETCH])
@everywhere
async def test_it_stops_in_the_middle_of_an_answer(key: ApiKey) -> None:
    async with world() as made:
        goes_on = await bystander(made)
        version = 11 if key is ApiKey.FETCH else 3
        made.broker.script = bad(answer(1, bytes(1_000))[:-1], closes=True)
        client = await made.client()
        client.send(request(key, version, 1))
        await client.rest()
        await until(lambda: len(made.listener.connections) == 1)
        assert made.lost == {("0", "closed_in_flight"): 1}
        await goes_on()  # type: ignore[misc]


@everywhere
async def test_it_closes_in_front_of_an_answer_and_those_before_it_arrive() -> None:
    def script(broker: FakeBroker, leg: Leg, asked: Asked) -> None:
        if asked.correlation_id == 3:
            leg.writer.close()
        else:
            leg.writer.write(answer(asked.correlation_id, bytes(100_000)))

    async with world() as made:
        goes_on = await bystander(made)
        made.broker.script = script
        client = await made.client()
        client.send(*[request(ApiKey.HEARTBEAT, 3, id) for id in range(1, 5)])
        assert await client.rest() == answer(1, bytes(100_000)) + answer(2, bytes(100_000))
        assert made.lost == {("0", "closed_in_flight"): 1}
        await goes_on()  # type: ignore[misc]


@everywhere
async def test_it_closes_what_is_idle() -> None:
    async with world() as made:
        goes_on = await bystander(made)
        client = await made.client()
        await client.ask(ApiKey.HEARTBEAT, 3)
        with capture_logs() as logs:
            made.broker.leg.writer.close()
            assert await client.rest() == b""
        assert made.lost == {("0", "closed"): 1}
        (entry,) = (entry for entry in logs if entry["event"] == "broker connection lost")
        assert (entry["node"], entry["reason"]) == (0, "the broker closed the connection")
        await goes_on()  # type: ignore[misc]


@everywhere
async def test_it_resets_a_connection() -> None:
    async with world() as made:
        goes_on = await bystander(made)
        made.broker.script = lambda broker, leg, asked: leg.writer.transport.abort()
        client = await made.client()
        client.send(ASK)
        assert await client.rest() == b""
        assert made.lost == {("0", "closed_in_flight"): 1}
        await goes_on()  # type: ignore[misc]


@anyhow
async def test_an_answer_longer_than_what_may_be_collected_is_none() -> None:
    async with world() as made:
        made.broker.script = bad(pack(">ii", (128 << 20) + 1, 1))
        client = await made.client()
        client.send(request(ApiKey.METADATA, 4, 1, pack(">ib", -1, 0)))
        assert await client.rest() == b""
        assert made.lost == {("0", "frame_size"): 1}


@anyhow
async def test_it_speaks_before_it_is_asked() -> None:
    async with world() as made:
        await made.known()
        client = await made.client()
        await until(lambda: made.nodes.known[0].legs)
        made.broker.writers[-1].write(framed(b"banner"))
        assert await client.rest() == b""
        assert made.lost == {("0", "unexpected_response"): 1}
