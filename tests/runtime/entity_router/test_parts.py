"""A concatenated topic of two clusters: what clients see, and the problems of parts that are too small or too large."""

from __future__ import annotations

from uuid import UUID

from mesh.routing.node_ids import NODE_BITS
from mesh.wire.apis import ApiKey
from mesh.wire.trees import Tree
from tests.routing.unions import SAME
from tests.runtime.entity_router.harness import UnionWorld, topic, topic_id, union
from tests.runtime.relay.loops import anyhow, until

US = 1 << NODE_BITS
JOINED = {
    **SAME,
    "concatenated": [
        {"name": "joined", "parts": [{"route": "eu", "width": 2}, {"route": "us", "topic": "joined-us", "width": 3}]}
    ],
}
ALL: Tree = {"topics": None}
VERSIONS = (1, 9, 12)


def named(*names: str) -> Tree:
    return {"topics": [{"name": name} for name in names]}


def told(answer: Tree) -> dict[str, dict[int, int]]:
    """Leaders by partition."""
    return {
        each["name"]: {one["partition_index"]: one["leader_id"] for one in each["partitions"]}
        for each in answer["topics"]
    }


def joined_id(made: UnionWorld) -> UUID:
    (found,) = made.union.concatenated
    return found.id


@anyhow
async def test_all_partitions_of_all_parts_are_one_topic() -> None:
    async with union(JOINED) as made:
        made.eu.topics = [topic("joined", 2), topic("other")]
        made.us.topics = [topic("joined-us", 3)]
        client = await made.client()
        expected = {"joined": {0: 0, 1: 0, 2: US, 3: US, 4: US}}
        for version in VERSIONS:
            assert told(await client.asked(ApiKey.METADATA, version, ALL)) == {"other": {0: 0}} | expected
            assert told(await client.asked(ApiKey.METADATA, version, named("joined"))) == expected
        (found,) = (await client.asked(ApiKey.METADATA, 12, named("joined")))["topics"]
        assert found["topic_id"] == joined_id(made)
        by_id: Tree = {"topics": [{"name": None, "topic_id": joined_id(made)}]}
        assert told(await client.asked(ApiKey.METADATA, 12, by_id)) == expected
        hidden: Tree = {"topics": [{"name": None, "topic_id": topic_id("joined-us")}]}
        (found,) = (await client.asked(ApiKey.METADATA, 12, hidden))["topics"]
        assert found["error_code"] == 100, "a part has no id of its own"


@anyhow
async def test_other_widths_change_no_numbers_and_are_told() -> None:
    async with union(JOINED) as made:
        made.eu.topics, made.us.topics = [topic("joined", 1)], [topic("joined-us", 5)]
        client = await made.client()
        answer = await client.asked(ApiKey.METADATA, 12, ALL)
        assert told(answer) == {"joined": {0: 0, 1: -1, 2: US, 3: US, 4: US}}
        assert [each["error_code"] for each in answer["topics"][0]["partitions"]] == [0, 5, 0, 0, 0]
        assert made.part_troubles.open == {
            "joined": "topic joined has 1 partitions, 2 are declared: partition 1 of joined has no leader",
            "joined-us": "topic joined-us has 5 partitions, 3 are declared: clients see no others",
        }
        made.eu.topics, made.us.topics = [topic("joined", 2)], [topic("joined-us", 3)]
        await client.asked(ApiKey.METADATA, 12, ALL)
        assert not made.part_troubles.open


@anyhow
async def test_a_cluster_that_was_never_heard_of_has_its_numbers() -> None:
    async with union(JOINED) as made:
        made.eu.topics = [topic("joined", 2)]
        made.us.answers = lambda *_: None
        made.us.metadata = lambda request: None  # type: ignore[method-assign,assignment,return-value]
        client = await made.client()
        expected = {"joined": {0: 0, 1: 0, 2: -1, 3: -1, 4: -1}}
        for request in (ALL, named("joined")):
            assert told(await client.asked(ApiKey.METADATA, 12, request)) == expected


@anyhow
async def test_a_topic_that_no_cluster_has_is_not_there_and_is_not_made() -> None:
    async with union(JOINED) as made:
        client = await made.client()
        asking = {**named("joined"), "allow_auto_topic_creation": True}
        (found,) = (await client.asked(ApiKey.METADATA, 12, asking))["topics"]
        assert (found["name"], found["error_code"]) == ("joined", 3)
        assert told(await client.asked(ApiKey.METADATA, 12, ALL)) == {}
        for cluster in (made.eu, made.us):
            asked = [each for each in cluster.asked if each["topics"]]
            assert asked and not any(each["allow_auto_topic_creation"] for each in asked)


@anyhow
async def test_the_mesh_looks_at_parts_before_clients_ask() -> None:
    async with union(JOINED) as made:
        await until(lambda: {"joined", "joined-us"} == made.part_troubles.open.keys())
        reasons = made.part_troubles.open
        assert (
            reasons["joined-us"]
            == "topic joined-us is not there, 3 are declared: partitions 2 to 4 of joined have no leader"
        )
