"""A union whose routes and names change while clients are connected."""

from __future__ import annotations

from mesh.routing.node_ids import NODE_BITS, NodeIds
from mesh.wire.apis import ApiKey
from mesh.wire.trees import Tree
from tests.routing.unions import RENAMED, SAME, union_of
from tests.runtime.entity_router.harness import topic, topic_id, union
from tests.runtime.entity_router.test_parts import ALL, JOINED, joined_id
from tests.runtime.entity_router.test_requests import offsets
from tests.runtime.relay.loops import anyhow

US = 1 << NODE_BITS
BOTH = NodeIds(leaf.number for leaf in union_of(SAME).leaves)
FOUND = {"topics": [{"name": "us.orders", "partitions": [{"partition_index": 0, "offset": 7}]}]}


@anyhow
async def test_clients_go_on_with_other_names() -> None:
    async with union() as made:
        made.us.topics = [topic("us.orders")]
        made.us.answers = lambda *_: FOUND
        client = await made.client(US)
        assert (await client.asked(ApiKey.LIST_OFFSETS, 6, offsets("us.orders")))["topics"][0]["name"] == "us.orders"
        made.runtime.change([], [], union_of(RENAMED), BOTH)
        answer = await client.asked(ApiKey.LIST_OFFSETS, 6, offsets("us.us.orders"))
        assert answer["topics"][0]["name"] == "us.us.orders"
        assert [request["topics"][0]["name"] for _, request in made.us.seen] == ["us.orders", "us.orders"]
        topics = (await client.asked(ApiKey.METADATA, 9, {"topics": None}))["topics"]
        assert [each["name"] for each in topics] == ["us.us.orders"]


@anyhow
async def test_an_answer_has_the_names_of_its_request() -> None:
    """A Fetch waits at a broker while its topic moves away: the client knows the topic only by the id it asked for."""
    async with union(JOINED) as made:
        made.eu.topics, made.us.topics = [topic("joined", 2)], [topic("joined-us", 3)]

        def answered_after_the_change(api_key: ApiKey, version: int, request: Tree) -> Tree:
            made.runtime.change([], [], union_of(SAME), BOTH)
            return {"responses": [{"topic_id": topic_id("joined-us"), "partitions": [{"partition_index": 1}]}]}

        made.us.answers = answered_after_the_change
        client = await made.client(US)
        await client.asked(ApiKey.METADATA, 12, ALL)
        (asked,) = [{"topic_id": joined_id(made), "partitions": [{"partition": 3}]}]
        (found,) = (await client.asked(ApiKey.FETCH, 13, {"topics": [asked]}))["responses"]
        assert (found["topic_id"], found["partitions"][0]["partition_index"]) == (asked["topic_id"], 3)
        (seen,) = [request["topics"] for api_key, request in made.us.seen if api_key is ApiKey.FETCH]
        assert seen[0]["topic_id"] == topic_id("joined-us")


@anyhow
async def test_a_leaf_that_is_removed_loses_its_clients_and_nobody_else() -> None:
    async with union() as made:
        made.eu.topics, made.us.topics = [topic("orders")], [topic("us.orders")]
        made.eu.answers = lambda *_: {"topics": []}
        here, there = await made.client(0), await made.client(US)
        for client in (here, there):
            assert len((await client.asked(ApiKey.METADATA, 9, {"topics": None}))["topics"]) == 2
        only_eu = union_of({"topics": [{"prefix": "", "route": "eu"}], "default": "eu"})
        (_, us) = made.leaves
        made.runtime.change([], [us.number], only_eu, BOTH)
        assert await there.rest() == b""
        answer = await here.asked(ApiKey.METADATA, 9, {"topics": None})
        assert [each["name"] for each in answer["topics"]] == ["orders"]
        assert [each["node_id"] for each in answer["brokers"]] == [0]
        await here.asked(ApiKey.LIST_OFFSETS, 6, offsets("orders"))
        late = await made.client(US)
        late.ask_tree(ApiKey.METADATA, 9, {"topics": None})
        assert await late.rest() == b"", "its address leads nowhere"
