"""Several listeners of a relay: clients learn only the addresses of their own listener, and one listener ends without
the others."""

from __future__ import annotations

import asyncio

from mesh.config.listeners import ListenerName
from mesh.wire.apis import ApiKey
from tests.runtime.relay.frames import answer, brokers_in, produce, request
from tests.runtime.relay.harness import HOST, Client, World, world
from tests.runtime.relay.loops import anyhow, everywhere, until
from tests.runtime.relay.test_nodes import ALL_TOPICS, tell_metadata

OUTSIDE = ListenerName("outside")
FAR = "kafka.example.com"


class Outside:
    """A further listener of a relay, whose first two nodes have addresses."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._port = 0
        self._server: asyncio.Server | None = None

    async def begin(self) -> None:
        """Begins; again if it has ended."""
        self._world.runtime.begin_listener(OUTSIDE, self._place_of, lambda _: None)
        if self._server is None:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(lambda: self._world.runtime.accept(0, OUTSIDE), HOST, 0)
            self._port = self._server.sockets[0].getsockname()[1]

    async def client(self) -> Client:
        return Client(*await asyncio.open_connection(HOST, self._port))

    def close(self) -> None:
        assert self._server is not None
        self._server.close()

    @staticmethod
    def _place_of(node: int) -> tuple[str, int] | None:
        return (FAR, 9_000 + node) if node < 2 else None


async def outside_of(world: World) -> Outside:
    outside = Outside(world)
    await outside.begin()
    return outside


@everywhere
async def test_clients_are_told_of_the_addresses_of_their_listener_only() -> None:
    async with world(3) as made:
        for broker in made.cluster.brokers.values():
            broker.script = tell_metadata
        outside = await outside_of(made)
        inner, outer = await made.client(0), await outside.client()
        for id in range(3):
            assert brokers_in(await inner.ask(ApiKey.METADATA, 4, id, ALL_TOPICS)) == {
                node: (HOST, made.ports[node]) for node in range(3)
            }
            assert brokers_in(await outer.ask(ApiKey.METADATA, 4, id, ALL_TOPICS)) == {
                node: (FAR, 9_000 + node) for node in range(2)
            }
        outer.abort()
        outside.close()


@anyhow
async def test_what_is_shown_of_further_addresses() -> None:
    async with world(3) as made:
        outside = await outside_of(made)
        await made.look()
        nodes = made.runtime.status()["relay"]["nodes"]
        assert [node["further_addresses"] for node in nodes] == [
            {"outside": f"{FAR}:9000"},
            {"outside": f"{FAR}:9001"},
            {"outside": None},
        ]
        assert made.runtime.further[OUTSIDE].undeclared() == {2}
        outside.close()


@everywhere
async def test_a_listener_ends_when_its_clients_have_their_answers_and_the_others_go_on() -> None:
    async with world() as made:
        outside = await outside_of(made)
        inner, idle, busy = await made.client(0), await outside.client(), await outside.client()
        for client in (inner, idle):
            assert await client.ask(ApiKey.HEARTBEAT, 3, 1)
        made.broker.script = lambda broker, leg, asked: None
        busy.send(produce(7))
        await until(lambda: made.broker.leg.asked and made.broker.leg.asked[-1].correlation_id == 7)
        made.runtime.end_listener(OUTSIDE, 60.0)
        assert await idle.rest() == b""
        made.broker.leg.writer.write(answer(7, b"stored"))
        assert await busy.rest() == answer(7, b"stored")
        assert await (await outside.client()).rest() == b"", "whoever comes while it is being closed"
        inner.send(request(ApiKey.HEARTBEAT, 3, 8))
        await until(lambda: any(leg.asked and leg.asked[-1].correlation_id == 8 for leg in made.broker.legs))
        outside.close()


@everywhere
async def test_one_that_ends_does_not_wait_for_ever() -> None:
    async with world() as made:
        outside = await outside_of(made)
        client = await outside.client()
        made.broker.script = lambda broker, leg, asked: None
        client.send(request(ApiKey.HEARTBEAT, 3, 1))
        await until(lambda: made.broker.legs)
        made.runtime.end_listener(OUTSIDE, 0.05)
        assert await client.rest() == b""
        outside.close()


@everywhere
async def test_one_that_starts_again_serves_new_clients_and_lets_go_of_the_old() -> None:
    async with world() as made:
        outside = await outside_of(made)
        old = await outside.client()
        made.broker.script = lambda broker, leg, asked: None
        old.send(request(ApiKey.HEARTBEAT, 3, 1))
        await until(lambda: made.broker.legs)
        leg = made.broker.leg
        made.runtime.end_listener(OUTSIDE, 60.0)
        await outside.begin()
        new = await outside.client()
        made.broker.script = tell_metadata
        assert set(brokers_in(await new.ask(ApiKey.METADATA, 4, 1, ALL_TOPICS))) == {0}
        leg.writer.write(answer(1, b"late"))
        assert await old.rest() == answer(1, b"late")
        assert set(brokers_in(await new.ask(ApiKey.METADATA, 4, 2, ALL_TOPICS))) == {0}
        new.abort()
        outside.close()


@anyhow
async def test_what_is_refused_is_refused_by_all_listeners() -> None:
    async with world() as made:
        outside = await outside_of(made)
        made.runtime.refuse([ApiKey.CREATE_TOPICS])
        client = await outside.client()
        client.send(request(ApiKey.CREATE_TOPICS, 5, 2))
        assert await client.rest() == b""
        assert made.refused == {("unknown_api",): 1}
        outside.close()
