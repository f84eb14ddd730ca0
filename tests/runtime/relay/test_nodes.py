"""Brokers that are down, come, leave, and change their addresses."""

from __future__ import annotations

import asyncio
from struct import pack

import pytest
from structlog.testing import capture_logs

from mesh.app.node_places import NodeHealth
from mesh.config.listeners import FIRST, ListenerName
from mesh.runtime.relay import nodes
from mesh.runtime.relay.nodes import RelayNode
from mesh.telemetry.upstream_health import UpstreamHealth
from mesh.upstream.links.handshake import Unreachable
from mesh.upstream.links.leg import Leg
from mesh.wire.apis import ApiKey
from tests.runtime.relay.frames import answer, brokers_in, metadata, request
from tests.runtime.relay.harness import HOST, Asked, Client, FakeBroker, FakeCluster, World, world
from tests.runtime.relay.harness import Leg as LegOfBroker
from tests.runtime.relay.loops import anyhow, everywhere, until

ALL_TOPICS = pack(">ib", -1, 0)


def tell_metadata(broker: FakeBroker, leg: LegOfBroker, asked: Asked) -> None:
    leg.writer.write(answer(asked.correlation_id, metadata(broker.cluster.addresses)))


async def ended(clients: list[Client]) -> None:
    assert await asyncio.gather(*[client.rest() for client in clients]) == [b""] * len(clients)


@everywhere
async def test_a_connection_to_a_node_that_is_down_is_reset() -> None:
    """As from a host without a listener on that port. If the connection closes during its first request, franz-go takes
    it for a listener with TLS, and gives up its records."""
    async with world(2) as made:
        await made.known()
        made.broker.stop()
        client = await made.client(0)
        client.send(request(ApiKey.API_VERSIONS, 0, 1))
        with pytest.raises(ConnectionResetError):
            await client.reader.read()


@everywhere
async def test_attempts_to_reach_a_node_that_is_down_are_shared() -> None:
    async with world(2) as made:
        await made.known()
        made.broker.stop()
        node = made.nodes.known[0]
        await ended([await made.client(0)])
        assert node.failures == 1
        assert "refused" in node.reason.lower() or "connect" in node.reason.lower()
        tried = 0
        attempt = made.nodes._attempt

        async def counted(node: RelayNode, leg: Leg, *, passes_authentication: bool) -> float:
            nonlocal tried
            tried += 1
            await until(lambda: len(made.listener.connections) == 50)
            for _ in range(10):  # the last ones have begun to wait
                await asyncio.sleep(0)
            return await attempt(node, leg, passes_authentication=passes_authentication)

        made.nodes._attempt = counted  # type: ignore[method-assign]
        node.retry_at = asyncio.get_running_loop().time()
        await ended([await made.client(0) for _ in range(50)])
        assert (tried, node.failures) == (1, 2)
        assert made.lost == {("0", "unreachable"): 51}
        made.nodes._attempt = attempt  # type: ignore[method-assign]
        bootstrap = await made.client(None)
        assert await bootstrap.ask(ApiKey.HEARTBEAT, 3), "another node is there"
        assert len(made.cluster.brokers[1].legs) == 1


@everywhere
async def test_all_that_wait_go_on_when_it_is_back() -> None:
    async with world() as made:
        await made.known()
        made.broker.stop()
        await ended([await made.client(0)])
        made.nodes.known[0].retry_at = asyncio.get_running_loop().time() + 0.3
        clients = [await made.client(0) for _ in range(20)]
        await until(lambda: len(made.connections) == 20)
        clients.pop(0).abort()  # perhaps it was this one's turn
        await made.broker.start()
        for client in clients:
            assert await client.ask(ApiKey.HEARTBEAT, 3)
        assert made.nodes.known[0].failures == 0
        await until(lambda: made.nodes.known[0].legs == 19)


@anyhow
async def test_a_node_that_has_been_down_for_long() -> None:
    async with world() as made:
        await made.known()
        made.broker.stop()
        node = made.nodes.known[0]
        node.failures = 5_000
        await ended([await made.client(0)])
        wait = node.retry_at - asyncio.get_running_loop().time()
        assert nodes.MOST_BACKOFF / 2 < wait <= nodes.MOST_BACKOFF


@pytest.mark.parametrize("place", [("a" * 64 + ".example.com", 9092), (".", 9092), (HOST, 70_000), (HOST, -1), ("", 0)])
@everywhere
async def test_a_place_that_is_none(place: tuple[str, int]) -> None:
    async with world(2) as made:
        await made.known()
        made.cluster.addresses[0] = place
        await made.look()
        await ended([await made.client(0)])
        assert made.lost == {("0", "unreachable"): 1}
        assert await (await made.client(1)).ask(ApiKey.HEARTBEAT, 3)
        made.cluster.addresses[0] = (HOST, made.broker.port)
        await made.look()
        assert await (await made.client(0)).ask(ApiKey.HEARTBEAT, 3)


@everywhere
async def test_a_cluster_of_which_nobody_answers_at_first() -> None:
    """The first client makes the mesh look again, long before the interval is over."""
    async with world(start=False) as made:
        made.broker.script = tell_metadata
        await until(lambda: made.cluster.guide.accepted == 0 and made.nodes._check_soon is not None)
        client = await made.client(0)
        client.send(b"")
        await until(lambda: made.connections)
        await made.cluster.start()
        assert brokers_in(await client.ask(ApiKey.METADATA, 4, 1, ALL_TOPICS)) == {0: (HOST, made.ports[0])}


@anyhow
async def test_nobody_answers_within_the_first_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "NODES_TIMEOUT", 0.05)
    async with world(start=False) as made:
        clients = [await made.client(0), await made.client(None)]
        clients[1].send(request(ApiKey.HEARTBEAT, 3, 1))
        await ended(clients)
        assert sum(made.lost.values()) == 2


@anyhow
async def test_a_node_without_an_address_is_left_out() -> None:
    async with world(3, declared=2) as made:
        await made.look()
        for broker in made.cluster.brokers.values():
            broker.script = tell_metadata
        client = await made.client(0)
        found = brokers_in(await client.ask(ApiKey.METADATA, 4, 1, ALL_TOPICS))
        assert found == {id: (HOST, made.ports[id]) for id in (0, 1)}
        assert made.undeclared == {2}
        del made.cluster.addresses[2]
        await made.look()
        assert made.undeclared == set()


@anyhow
async def test_the_problem_of_a_node_without_an_address() -> None:
    health = UpstreamHealth(("eu",), asyncio.get_running_loop().time)
    told = NodeHealth(health, "eu", "front")
    with capture_logs() as logs:
        told.update({FIRST: frozenset()})
        assert not health.described()
        told.update({FIRST: frozenset({2})})
        told.update({FIRST: frozenset({2}), ListenerName("outside"): frozenset()})
        told.update({FIRST: frozenset({2, 3}), ListenerName("outside"): frozenset({3})})
        (problem,) = health.described()
        assert problem["problem"] == "node_without_address"
        without = "no address is declared for"
        assert problem["reason"] == f"{without} 2, 3: see nodes.ids; {without} 3 at listener outside: see nodes.ids"
        told.update({FIRST: frozenset()})
        assert not health.described()
    assert len(logs) == 2, "once, and again when it is another one"


@anyhow
async def test_a_node_that_nobody_knows() -> None:
    async with world(1, declared=2) as made:
        await made.known()
        await ended([await made.client(1)])
        assert made.lost == {("1", "unreachable"): 1}


@everywhere
async def test_nodes_come_and_leave() -> None:
    async with world(2) as made:
        await made.known()
        gone = made.cluster.addresses.pop(1)
        await made.look()
        await ended([await made.client(1)])
        made.cluster.addresses[1] = gone
        await made.look()
        assert await (await made.client(1)).ask(ApiKey.HEARTBEAT, 3)
        assert made.metric("kafka_mesh_relay_legs") == {("0",): 0, ("1",): 1}


@everywhere
async def test_a_node_changes_its_address() -> None:
    """An answer that passes reports it, before the next look."""
    async with world(2) as made:
        made.cluster.brokers[1].script = tell_metadata
        before = await made.client(0)
        assert await before.ask(ApiKey.HEARTBEAT, 3)
        elsewhere = FakeBroker(made.cluster, 0)
        await elsewhere.start()
        made.cluster.addresses[0] = (HOST, elsewhere.port)
        looks = made.looks
        found = brokers_in(await (await made.client(1)).ask(ApiKey.METADATA, 4, 1, ALL_TOPICS))
        assert found[0] == (HOST, made.ports[0]), "clients see nothing of it"
        assert await (await made.client(0)).ask(ApiKey.HEARTBEAT, 3)
        assert len(elsewhere.legs) == 1
        assert await before.ask(ApiKey.HEARTBEAT, 3, 2), "who is connected goes on"
        await until(lambda: made.looks > looks)
        await until(lambda: made.nodes.known[0].versions is not None)
        await elsewhere.stopped()


@anyhow
async def test_a_node_that_hangs_does_not_hold_up_a_look() -> None:
    async with world(2) as made:
        made.broker.cuts = False
        await made.known()
        assert await (await made.client(1)).ask(ApiKey.HEARTBEAT, 3)
        await made.look()
        await made.look()


@anyhow
async def test_waiting_for_a_node_ends_with_its_client() -> None:
    async with world() as made:
        await made.known()
        made.broker.stop()
        await ended([await made.client(0)])
        node = made.nodes.known[0]
        node.retry_at = asyncio.get_running_loop().time() + 1_000
        clients = [await made.client(0) for _ in range(3)]
        await until(lambda: len(made.connections) == 3)
        for client in clients:
            client.abort()
        await until(lambda: not made.listener.connections)
        await until(lambda: not node.turn.locked())


@everywhere
async def test_it_ends_though_a_look_was_asked_for_just_now() -> None:
    """asyncio's `wait_for` swallows a cancellation then, and it would never end."""
    for steps in range(6):
        async with world() as made:
            await made.known()
            await until(lambda: made.nodes.are_known)
            made.nodes._check_soon.set()
            for _ in range(steps):
                await asyncio.sleep(0)
            await made.runtime.closed()


@anyhow
async def test_no_node_at_all() -> None:
    cluster = FakeCluster(1)
    await cluster.start()
    made = World(cluster)
    await made.known()
    made.nodes._nodes.clear()
    with pytest.raises(Unreachable, match="no nodes"):
        await made.nodes.open_leg(None, Leg(None, None), passes_authentication=False)  # type: ignore[arg-type]
    await made.stop()
    await cluster.stop()
