"""The first request of a client decides the route of its connection, and gets its answer there."""

from __future__ import annotations

import asyncio
from struct import pack

import pytest

from mesh.listener.limits import Limits
from mesh.pool.apis.table import TABLE
from mesh.routing.names import RouteName
from mesh.routing.spi import Undecided
from mesh.runtime.connection_router.runtime import COORDINATOR
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.runtime.connection_router.harness import ALL_EU, ALL_US, ONLY_US, ChoiceWorld, choice
from tests.runtime.entity_router.harness import UnionClient, topic
from tests.runtime.relay.frames import framed, request, versions_in
from tests.runtime.relay.loops import anyhow, everywhere, until


def versions(client_id: bytes) -> bytes:
    return request(ApiKey.API_VERSIONS, 0, 7, client_id=client_id)


async def first(client: UnionClient, client_id: bytes) -> dict[int, tuple[int, int]]:
    client.send(versions(client_id))
    return versions_in(await client.frame())


async def topics(client: UnionClient) -> dict[str, list[int]]:
    """Topics with their leaders."""
    answer = await client.asked(ApiKey.METADATA, 12, {"topics": None})
    return {each["name"]: [one["leader_id"] for one in each["partitions"]] for each in answer["topics"]}


@everywhere
async def test_each_sees_what_its_route_leads_to() -> None:
    async with choice() as made:
        made.eu.topics, made.us.topics = [topic("orders")], [topic("us.orders"), topic("hidden")]
        union, us, pool = [await made.client() for _ in range(3)]
        assert ApiKey.INIT_PRODUCER_ID in await first(union, b"app")
        assert ApiKey.INIT_PRODUCER_ID in await first(us, b"us-1")
        assert set(await first(pool, b"batch-1")) >= set(TABLE)
        assert await topics(union) == {"orders": [ALL_EU], "us.orders": [ALL_US]}
        assert await topics(us) == {"us.orders": [ONLY_US], "hidden": [ONLY_US]}
        assert set(await topics(pool)) == {"orders"}
        assert [each.client_id for each in made.router.asked] == ["app", "us-1", "batch-1"]
        routes = made.runtime.status()["router"]["routes"]
        assert routes == [{"route": route, "connections": 1} for route in ("all", "us", "shared")]


@everywhere
@pytest.mark.parametrize("client_id", [b"app", b"batch-1"])
async def test_bytes_that_come_one_by_one(client_id: bytes) -> None:
    async with choice() as made:
        client = await made.client()
        for byte in versions(client_id) * 2:
            client.send(bytes([byte]))
            await client.writer.drain()
            await asyncio.sleep(0)
        assert versions_in(await client.frame()) == versions_in(await client.frame())
        assert len(made.router.asked) == 1


@everywhere
@pytest.mark.parametrize("client_id", [b"app", b"batch-1"])
async def test_requests_behind_the_first_are_answered_in_order(client_id: bytes) -> None:
    async with choice() as made:
        client = await made.client()
        client.send(*[request(ApiKey.API_VERSIONS, 0, id, client_id=client_id) for id in range(100)])
        assert [(await client.frame())[:4] for _ in range(100)] == [pack(">i", id) for id in range(100)]


@anyhow
async def test_the_longest_client_id() -> None:
    async with choice() as made:
        client = await made.client()
        assert await first(client, b"x" * 32767)
        assert made.router.asked[0].client_id == "x" * 32767


@anyhow
async def test_a_request_without_a_client_id() -> None:
    async with choice() as made:
        client = await made.client()
        client.send(framed(pack(">hhih", ApiKey.API_VERSIONS, 0, 1, -1)))
        assert versions_in(await client.frame())
        assert made.router.asked[0].client_id is None
        assert made.router.asked[0].host == "127.0.0.1"
        assert made.router.asked[0].listener == "door"


@everywhere
async def test_a_refused_client_is_closed_and_counted() -> None:
    async with choice() as made:
        client = await made.client()
        client.send(versions(b"stranger"))
        assert await client.rest() == b""
        assert made.refused == {"no_route": 1}


@anyhow
async def test_a_route_that_the_router_has_not() -> None:
    async with choice(lambda who: RouteName("nowhere")) as made:
        client = await made.client()
        client.send(versions(b"app"))
        assert await client.rest() == b""
        assert made.refused == {"no_route": 1}


@anyhow
async def test_a_router_with_a_bug() -> None:
    def choose(who: object) -> RouteName:
        raise ZeroDivisionError

    async with choice(choose) as made:
        client = await made.client()
        client.send(versions(b"app"))
        assert await client.rest() == b""
        assert made.refused == {"no_route": 1}


@anyhow
async def test_undecided_about_somebody_who_is_known() -> None:
    async with choice(lambda who: Undecided()) as made:
        client = await made.client()
        client.send(versions(b"app"))
        assert await client.rest() == b""
        assert made.refused == {"no_route": 1}


@anyhow
@pytest.mark.parametrize(("length", "client_id"), [(11, 5), (-1, 0), (9, -1)])
async def test_a_head_that_is_longer_than_its_request(length: int, client_id: int) -> None:
    async with choice() as made:
        client = await made.client()
        client.send(pack(">ihhih", length, ApiKey.API_VERSIONS, 0, 1, client_id) + bytes(8))
        assert await client.rest() == b""
        assert made.refused == {"invalid_length": 1}
        assert not made.router.asked


# Nodes


@anyhow
async def test_a_node_behind_the_route() -> None:
    async with choice() as made:
        client = await made.client(ONLY_US)
        await first(client, b"us-1")
        assert await client.asked(ApiKey.METADATA, 12, {"topics": None})
        heartbeat = {"group_id": "us-one", "generation_id": 1, "member_id": "m", "group_instance_id": None}
        client.ask_tree(ApiKey.HEARTBEAT, 4, heartbeat)
        await client.tree(ApiKey.HEARTBEAT, 4)
        assert len(made.us.brokers[0].legs) == 1


@everywhere
@pytest.mark.parametrize(("client_id", "node"), [(b"us-1", ALL_EU), (b"us-1", ALL_US), (b"app", ONLY_US)])
async def test_a_node_that_the_route_does_not_lead_to(client_id: bytes, node: int) -> None:
    """Even if the cluster behind the route has a node of that id."""
    async with choice() as made:
        client = await made.client(node)
        client.send(versions(client_id))
        assert await client.rest() == b""
        assert not made.eu.brokers[0].legs and not made.us.brokers[0].legs


@anyhow
async def test_a_pool_has_no_nodes() -> None:
    async with choice() as made:
        client = await made.client(ALL_EU)
        client.send(versions(b"batch-1"))
        assert await client.rest() == b""
        assert made.refused == {"no_route": 1}


@anyhow
async def test_a_pool_knows_the_address_of_its_coordinator() -> None:
    """Only there it describes groups. For clients of other routes that address is one of any node."""
    async with choice() as made:
        errors = []
        for node in (None, COORDINATOR):
            client = await made.client(node)
            await first(client, b"batch-1")
            answer = await client.asked(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, {"group_ids": ["g"]})
            errors += [each["error_code"] for each in answer["groups"]]
        assert errors == [ErrorCode.NOT_COORDINATOR, ErrorCode.GROUP_ID_NOT_FOUND]
        for client_id in (b"app", b"us-1"):
            assert ApiKey.INIT_PRODUCER_ID in await first(await made.client(COORDINATOR), client_id)


# Limits


@anyhow
async def test_a_connection_counts_once_and_from_its_beginning() -> None:
    async with choice(limits=Limits(connections=2)) as made:
        silent, led = await made.client(), await made.client()
        await first(led, b"app")
        await until(lambda: made.limiter.connections == 2)
        assert await (await made.client()).rest() == b""
        silent.abort()
        await until(lambda: made.limiter.connections == 1)
        await first(await made.client(), b"batch-1")
        assert len(made.listener.connections) == made.limiter.connections == 2


@everywhere
async def test_a_head_that_does_not_end() -> None:
    async with choice(limits=Limits(frame_timeout=0.05)) as made:
        client = await made.client()
        client.send(versions(b"app")[:-1])
        assert await client.rest() == b""
        closed = made.samples("kafka_mesh_connections_closed_total")
        assert [labels["reason"] for labels, value in closed if value] == ["unfinished_frame"]


@anyhow
async def test_a_client_that_leaves_before_it_is_led() -> None:
    async with choice() as made:
        client = await made.client()
        client.send(versions(b"app")[:6])
        await until(lambda: made.listener.connections)
        client.abort()
        await until(lambda: not made.listener.connections)


# Numbers


@anyhow
async def test_no_sample_twice() -> None:
    """Else Prometheus would refuse all of them."""
    async with choice() as made:
        for client_id in (b"app", b"us-1", b"batch-1"):
            await first(await made.client(), client_id)
        await _lose_legs(made)
        for name in ("kafka_mesh_connections", "kafka_mesh_relay_legs", "kafka_mesh_relay_legs_lost_total"):
            labels = [tuple(sorted(labels.items())) for labels, _ in made.samples(name)]
            assert labels and len(labels) == len(set(labels)), name


async def _lose_legs(made: ChoiceWorld) -> None:
    """Closes the legs of both unions, at every node."""
    for client_id, node in ((b"us-1", ALL_EU), (b"app", ONLY_US)):
        client = await made.client(node)
        client.send(versions(client_id))
        await client.rest()


@everywhere
async def test_a_client_that_is_led_to_a_pool_waits_until_it_is_ready_and_no_other_does() -> None:
    async with choice() as made:
        made.pools_ready.clear()
        member, gone, other = [await made.client() for _ in range(3)]
        for client in (member, gone):
            client.send(*[request(ApiKey.API_VERSIONS, 0, id, client_id=b"batch-1") for id in range(3)])
        await until(lambda: len(made.router.asked) == 2)
        assert await first(other, b"app")
        gone.abort()
        assert made.runtime.status()["router"]["routes"][2] == {"route": "shared", "connections": 0}
        made.pools_ready.set()
        for _ in range(3):
            assert set(versions_in(await member.frame())) >= set(TABLE)
        await until(lambda: len(made.listener.connections) == 2)
        assert made.runtime.status()["router"]["routes"][2] == {"route": "shared", "connections": 1}


@everywhere
async def test_a_stop_does_not_wait_for_a_pool_that_is_not_ready() -> None:
    async with choice() as made:
        made.pools_ready.clear()
        member = await made.client()
        member.send(versions(b"batch-1"))
        await until(lambda: len(made.router.asked) == 1)
        made.runtime.begin_stop(1_000.0)
        assert await member.rest() == b""


@anyhow
async def test_the_coordinator_of_one_cluster_answers_about_offsets() -> None:
    """The client takes the node to which it has connected for the coordinator. Any other would refuse, and the client
    would stay at this one."""
    async with choice(brokers=3) as made:
        groups = [{"group_id": "us-one", "topics": None}]
        for broker in made.us.leaf_brokers:
            code = ErrorCode.NONE if broker.id == 0 else ErrorCode.NOT_COORDINATOR
            answer = {"groups": [{"group_id": "us-one", "topics": [], "error_code": code}]}
            broker.answers = lambda api_key, version, request, answer=answer: answer
        for _ in range(3):
            client = await made.client(ONLY_US)
            await first(client, b"us-1")
            answer = await client.asked(ApiKey.OFFSET_FETCH, 9, {"groups": groups})
            assert answer["groups"][0]["error_code"] == ErrorCode.NONE
