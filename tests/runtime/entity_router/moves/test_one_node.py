"""A topic is moved under clients that see the brokers of both clusters as one node: they do not see the new leader, and
their sessions go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mesh.routing.one_node.leg_sessions import FEWEST
from mesh.routing.one_node.rewriting import NodeEndpoint, VisibleNodes
from mesh.runtime.entity_router.moves.moves import MoveRequest
from mesh.runtime.one_node.unions import OneUnionRuntime
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree
from tests.routing.moves.test_copying import batch
from tests.runtime.entity_router.harness import UnionClient, topic_id
from tests.runtime.entity_router.moves.test_moves import TO_US, fetch, fetched, moved, produced, ready
from tests.runtime.entity_router.moves.world import MoveWorld, moving
from tests.runtime.relay.harness import HOST
from tests.runtime.relay.loops import anyhow, until


@asynccontextmanager
async def as_one_node() -> AsyncIterator[tuple[MoveWorld, UnionClient]]:
    """A world with one node, and a client."""
    async with moving() as made:
        place, union = NodeEndpoint(0, "mesh", 9092), made.union
        one = OneUnionRuntime(
            union.listener, union.runtime, union.leaves.ids, VisibleNodes(place, place), None, union.memory
        )
        server = await asyncio.get_running_loop().create_server(one.accept, HOST, 0)
        client = UnionClient(*await asyncio.open_connection(HOST, server.sockets[0].getsockname()[1]))
        try:
            yield made, client
        finally:
            client.abort()
            server.close()
            await one.closed()


@anyhow
async def test_one_leader_there_and_back() -> None:
    async with as_one_node() as (made, client):
        await ready(made)
        end = made.eu.end("orders")
        for wanted in (TO_US, MoveRequest("orders", "eu"), TO_US):
            assert await produced(client, 9) == (0, end)
            assert await produced(client, 13) == (0, end + 2)
            await moved(made, wanted)
            end += 4
            assert made.us.logs["orders"] == made.eu.logs["orders"]
            told = await client.asked(ApiKey.METADATA, 12, {"topics": [{"name": "orders"}]})
            assert told["topics"][0]["partitions"][0]["leader_id"] == 0
            for version in (11, 13):
                assert len((await fetched(client, version, end - 2))["records"]) == len(batch(0))


@anyhow
async def test_a_session_of_a_client_goes_on() -> None:
    async with as_one_node() as (made, client):
        await ready(made)
        end = made.eu.end("orders")
        begun = await client.asked(ApiKey.FETCH, 13, fetch(end, epoch=0))
        await moved(made)
        assert await produced(client, 13) == (0, end)
        more = {**fetch(end, epoch=1), "topics": [], "session_id": begun["session_id"]}
        answer = await client.asked(ApiKey.FETCH, 13, more)
        assert answer["error_code"] == 0
        assert len(answer["responses"][0]["partitions"][0]["records"]) == len(batch(0))


@anyhow
async def test_what_is_sent_during_the_cut_is_held() -> None:
    async with as_one_node() as (made, client):
        await ready(made)
        end = made.eu.end("orders")
        assert await produced(client, 13) == (0, end)
        await made.moves.begin(TO_US)
        made.store.puts_fail = 1_000_000
        await until(lambda: made.gate.has_any)
        held = asyncio.get_running_loop().create_task(produced(client, 13))
        await asyncio.wait([held], timeout=0.05)
        assert not held.done()
        made.store.puts_fail = 0
        assert (await held)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await produced(client, 13) == (0, end + 2)
        assert made.eu.end("orders") == end + 2 and made.us.end("orders") == end + 4


@anyhow
async def test_sessions_with_brokers_start_again() -> None:
    """A broker's session keeps its partitions: the mesh must name the remaining ones again."""
    async with as_one_node() as (made, client):
        others = [f"other-{number}" for number in range(FEWEST)]
        for name in others:
            made.eu.create(name)
        await ready(made)
        inner, asked = made.eu.leaf.answers, list[Tree]()

        def with_sessions(api_key: ApiKey, version: int, request: Tree) -> Tree | None:
            answer = inner(api_key, version, request)
            if api_key is not ApiKey.FETCH or version < 13 or answer is None:
                return answer
            asked.append(request)
            return {**answer, "session_id": 5 if request["session_epoch"] >= 0 else 0}

        made.eu.leaf.answers = with_sessions
        (topic,) = fetch(0)["topics"]
        partitions = topic["partitions"]
        topics = [topic, *({"topic_id": topic_id(name), "partitions": partitions} for name in others)]
        for _ in range(2):
            await client.asked(ApiKey.FETCH, 13, {**fetch(0), "topics": topics})
        assert [(each["session_epoch"], len(each["topics"])) for each in asked] == [(0, FEWEST + 1), (1, 0)]
        await moved(made)
        asked.clear()
        answer = await client.asked(ApiKey.FETCH, 13, {**fetch(0), "topics": topics})
        codes = {each["topic_id"]: each["partitions"][0]["error_code"] for each in answer["responses"]}
        assert codes == dict.fromkeys((each["topic_id"] for each in topics), 0)
        assert [each["session_epoch"] for each in asked] == [0]
        assert {each["topic_id"] for each in asked[0]["topics"]} == {topic_id(name) for name in others}
