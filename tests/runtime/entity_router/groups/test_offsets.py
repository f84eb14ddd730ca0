"""Offsets of groups whose topics are in two clusters: where they are stored, which cluster is asked first, and the
answers while a cluster is down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from mesh.wire.apis import ApiKey
from mesh.wire.trees import Tree
from tests.routing.unions import RENAMED
from tests.runtime.entity_router.groups.clusters import GROUP, GroupCluster
from tests.runtime.entity_router.harness import UnionClient, topic, topic_id, union
from tests.runtime.relay.loops import anyhow

SOME = {
    **RENAMED,
    "topics": [{"prefix": "us.", "route": "us", "strip": True}, {"prefix": "orders", "route": "eu"}],
}
"""Most names have no owner."""


def member(**fields: Any) -> Tree:
    return {"group_id": GROUP, "generation_id_or_member_epoch": 3, "member_id": "m", **fields}


def commit(offsets: Mapping[str, int], **fields: Any) -> Tree:
    topics = [
        {
            "name": name,
            "partitions": [{"partition_index": 0, "committed_offset": offset, "committed_metadata": f"of {offset}"}],
        }
        for name, offset in offsets.items()
    ]
    return member(topics=topics, **fields)


def codes(committed: Tree) -> dict[Any, int]:
    return {each.get("name") or each["topic_id"]: each["partitions"][0]["error_code"] for each in committed["topics"]}


def fetch(version: int, *names: str, everything: bool = False) -> Tree:
    topics = None if everything else [{"name": name, "partition_indexes": [0]} for name in names]
    asked: Tree = {"group_id": GROUP, "topics": topics}
    return {"groups": [asked]} if version >= 8 else asked


async def fetched(client: UnionClient, version: int, request: Tree) -> tuple[set[int], dict[str, tuple[int, int]]]:
    """The errors of the whole answer, and the error and offset of each partition."""
    answer = await client.asked(ApiKey.OFFSET_FETCH, version, request)
    told = answer["groups"][0] if version >= 8 else answer
    offsets = {
        each["name"]: (each["partitions"][0]["error_code"], each["partitions"][0]["committed_offset"])
        for each in told["topics"]
    }
    return {told["error_code"]}, offsets


@pytest.mark.parametrize("version", [2, 7, 9])
@anyhow
async def test_a_commit_is_stored_by_the_owner_of_each_topic_as_nobodys(version: int) -> None:
    async with union(SOME) as made:
        eu, us = GroupCluster(made.eu), GroupCluster(made.us)
        client = await made.client(0)
        answer = await client.asked(ApiKey.OFFSET_COMMIT, version, commit({"us.orders": 5, "orders": 7, "us.": 1}))
        assert codes(answer) == {"us.orders": 0, "orders": 0, "us.": 3}
        assert [each["name"] for each in answer["topics"]] == ["us.orders", "orders", "us."]
        assert (eu.stored, us.stored) == ({"orders": 7}, {"orders": 5})
        (at_home,), (at_owner,) = eu.seen(ApiKey.OFFSET_COMMIT), us.seen(ApiKey.OFFSET_COMMIT)
        assert (at_home["generation_id_or_member_epoch"], at_home["member_id"]) == (3, "m")
        assert (at_owner["generation_id_or_member_epoch"], at_owner["member_id"]) == (-1, "")
        assert at_owner["topics"][0]["partitions"][0]["committed_metadata"] == "of 5"


@pytest.mark.parametrize(("code", "expected"), [(0, 0), (27, 0), (22, 22), (25, 25), (82, 82), (16, 16)])
@anyhow
async def test_a_commit_of_nothing_at_home_is_fenced_there_by_a_heartbeat(code: int, expected: int) -> None:
    async with union() as made:
        eu, us = GroupCluster(made.eu), GroupCluster(made.us)
        eu.code = code
        client = await made.client(0)
        answer = await client.asked(ApiKey.OFFSET_COMMIT, 7, commit({"us.orders": 5}, group_instance_id="i"))
        assert codes(answer) == {"us.orders": expected}
        assert us.stored == ({} if expected else {"us.orders": 5})
        (heartbeat,) = eu.seen(ApiKey.HEARTBEAT)
        assert (heartbeat["generation_id"], heartbeat["member_id"], heartbeat["group_instance_id"]) == (3, "m", "i")


@anyhow
async def test_a_member_that_is_fenced_at_home_stores_nothing_anywhere() -> None:
    async with union() as made:
        eu, us = GroupCluster(made.eu), GroupCluster(made.us)
        eu.code = 22
        client = await made.client(0)
        answer = await client.asked(ApiKey.OFFSET_COMMIT, 7, commit({"us.orders": 5, "orders": 7}))
        assert codes(answer) == {"us.orders": 22, "orders": 22}
        assert us.seen(ApiKey.OFFSET_COMMIT) == []


@pytest.mark.parametrize(("code", "expected"), [(25, 14), (15, 14), (16, 14), (12, 12), (29, 29)])
@anyhow
async def test_an_error_of_an_owner_is_its_partitions_alone(code: int, expected: int) -> None:
    """Clients know nothing of the owner's coordinator: they should retry, and not look for another coordinator."""
    async with union() as made:
        eu, us = GroupCluster(made.eu), GroupCluster(made.us)
        us.code = code
        client = await made.client(0)
        answer = await client.asked(ApiKey.OFFSET_COMMIT, 7, commit({"us.orders": 5, "orders": 7}))
        assert codes(answer) == {"us.orders": expected, "orders": 0}
        assert eu.stored == {"orders": 7}


@pytest.mark.parametrize(("state", "expected"), [("Empty", 0), ("Dead", 0), ("Stable", 25)])
@anyhow
async def test_without_membership_a_commit_is_for_a_group_that_is_empty_at_home(state: str, expected: int) -> None:
    async with union() as made:
        eu, us = GroupCluster(made.eu), GroupCluster(made.us)
        eu.state = state
        client = await made.client(0)
        request = commit({"us.orders": 5}, generation_id_or_member_epoch=-1, member_id="")
        assert codes(await client.asked(ApiKey.OFFSET_COMMIT, 7, request)) == {"us.orders": expected}
        assert us.stored == ({} if expected else {"us.orders": 5})
        us.code = 25
        eu.state = "Empty"
        assert codes(await client.asked(ApiKey.OFFSET_COMMIT, 7, request)) == {"us.orders": 25}


@anyhow
async def test_topics_are_known_by_their_ids_too() -> None:
    async with union() as made:
        for cluster, name in ((made.eu, "orders"), (made.us, "us.orders")):
            cluster.topics = [topic(name)]
        eu, us = GroupCluster(made.eu), GroupCluster(made.us)
        client = await made.client(0)
        await client.asked(ApiKey.METADATA, 12, {"topics": None})
        request = commit({"us.orders": 5, "orders": 7})
        for each in request["topics"]:
            each["topic_id"] = topic_id(each.pop("name"))
        answer = await client.asked(ApiKey.OFFSET_COMMIT, 10, request)
        assert codes(answer) == {topic_id("us.orders"): 0, topic_id("orders"): 0}
        assert (eu.stored, us.stored) == ({topic_id("orders"): 7}, {topic_id("us.orders"): 5})
        await made.us.stop()
        assert codes(await client.asked(ApiKey.OFFSET_COMMIT, 7, commit({"us.orders": 5}))) == {"us.orders": 0}


@anyhow
async def test_ids_that_nobody_has_asked_about_are_looked_for() -> None:
    """After a restart clients commit before they ask for Metadata."""
    async with union() as made:
        made.us.topics = [topic("us.orders")]
        GroupCluster(made.eu)
        us = GroupCluster(made.us)
        client = await made.client(0)
        request = commit({"us.orders": 5})
        request["topics"][0]["topic_id"] = topic_id(request["topics"][0].pop("name"))
        assert codes(await client.asked(ApiKey.OFFSET_COMMIT, 10, request)) == {topic_id("us.orders"): 0}
        assert us.stored == {topic_id("us.orders"): 5}


@anyhow
async def test_an_id_may_be_one_of_a_cluster_that_has_not_answered_yet() -> None:
    async with union() as made:
        GroupCluster(made.eu)
        await made.us.stop()
        client = await made.client(0)
        request = commit({"us.orders": 5})
        request["topics"][0]["topic_id"] = topic_id(request["topics"][0].pop("name"))
        assert codes(await client.asked(ApiKey.OFFSET_COMMIT, 10, request)) == {topic_id("us.orders"): 14}
        asked = {"group_id": GROUP, "topics": [{"topic_id": topic_id("us.orders"), "partition_indexes": [0]}]}
        (told,) = (await client.asked(ApiKey.OFFSET_FETCH, 10, {"groups": [asked]}))["groups"]
        assert (told["error_code"], told["topics"][0]["partitions"][0]["error_code"]) == (14, 14)


@pytest.mark.parametrize("version", [2, 5, 8])
@anyhow
async def test_offsets_are_those_of_the_owners(version: int) -> None:
    async with union(SOME) as made:
        eu, us = GroupCluster(made.eu), GroupCluster(made.us)
        eu.stored, us.stored = {"orders": 7}, {"orders": 5, "more": 6}
        client = await made.client(0)
        asked = await fetched(client, version, fetch(version, "us.orders", "orders", "us.none", "us."))
        assert asked == ({0}, {"us.orders": (0, 5), "orders": (0, 7), "us.none": (0, -1), "us.": (0, -1)})
        all_of_them = await fetched(client, version, fetch(version, everything=True))
        assert all_of_them == ({0}, {"orders": (0, 7), "us.orders": (0, 5), "us.more": (0, 6)})


@pytest.mark.parametrize("version", [2, 7, 8])
@anyhow
async def test_while_an_owner_is_down_what_is_known_is_answered_and_else_nothing(version: int) -> None:
    async with union() as made:
        eu, us = GroupCluster(made.eu), GroupCluster(made.us)
        eu.stored, us.stored = {"orders": 7}, {"us.one": 1}
        client = await made.client(0)
        await fetched(client, version, fetch(version, "us.one"))
        await client.asked(ApiKey.OFFSET_COMMIT, 7, commit({"us.two": 2}))
        await made.us.stop()
        both = await fetched(client, version, fetch(version, "orders", "us.one", "us.two"))
        assert both == ({0}, {"orders": (0, 7), "us.one": (0, 1), "us.two": (0, 2)})
        more = await fetched(client, version, fetch(version, "orders", "us.one", "us.three"))
        assert more == ({14}, {"orders": (14, -1), "us.one": (14, -1), "us.three": (14, -1)})
        errors, _ = await fetched(client, version, fetch(version, everything=True))
        assert errors == {14}


@anyhow
async def test_what_is_stored_already_is_committed_while_its_owner_is_down() -> None:
    async with union() as made:
        eu = GroupCluster(made.eu)
        GroupCluster(made.us)
        client = await made.client(0)
        await client.asked(ApiKey.OFFSET_COMMIT, 7, commit({"us.one": 1, "us.two": 2}))
        await made.us.stop()
        answer = await client.asked(ApiKey.OFFSET_COMMIT, 7, commit({"us.one": 1, "us.two": 3, "orders": 7}))
        assert codes(answer) == {"us.one": 0, "us.two": 14, "orders": 0}
        eu.code = 25
        assert codes(await client.asked(ApiKey.OFFSET_COMMIT, 7, commit({"us.one": 1}))) == {"us.one": 25}


@anyhow
async def test_what_its_owner_has_no_more_is_not_remembered() -> None:
    async with union() as made:
        us = GroupCluster(made.us)
        GroupCluster(made.eu)
        client = await made.client(0)
        await client.asked(ApiKey.OFFSET_COMMIT, 7, commit({"us.one": 1}))
        us.stored.clear()
        assert await fetched(client, 7, fetch(7, "us.one")) == ({0}, {"us.one": (0, -1)})
        await made.us.stop()
        assert await fetched(client, 7, fetch(7, "us.one")) == ({14}, {"us.one": (14, -1)})


@anyhow
async def test_an_error_of_the_home_is_the_answer() -> None:
    async with union() as made:
        eu, us = GroupCluster(made.eu), GroupCluster(made.us)
        eu.group_code, us.stored = 30, {"us.one": 1}
        client = await made.client(0)
        errors, offsets = await fetched(client, 8, fetch(8, "us.one", "orders"))
        assert (errors, offsets) == ({30}, {"us.one": (30, -1), "orders": (30, -1)})


@anyhow
async def test_a_coordinator_that_has_moved_is_looked_for_again() -> None:
    async with union() as made:
        us = GroupCluster(made.us)
        GroupCluster(made.eu)
        client = await made.client(0)
        for _ in range(3):
            await client.asked(ApiKey.OFFSET_COMMIT, 7, commit({"us.one": 1}))
        looked_for = len(us.seen(ApiKey.FIND_COORDINATOR))
        assert looked_for <= 2  # the keeper asks at the same time
        us.code = 16
        assert codes(await client.asked(ApiKey.OFFSET_COMMIT, 7, commit({"us.one": 1}))) == {"us.one": 14}
        assert len(us.seen(ApiKey.FIND_COORDINATOR)) > looked_for


@anyhow
async def test_a_coordinator_that_is_not_there_yet_is_waited_for() -> None:
    """A cluster creates the topic of its groups when one is first looked for (kgo's TestShareGroupOffsetsAdmin)."""
    async with union() as made:
        us = GroupCluster(made.us)
        GroupCluster(made.eu)
        us.not_yet = 3
        client = await made.client(0)
        assert codes(await client.asked(ApiKey.OFFSET_COMMIT, 7, commit({"us.one": 1}))) == {"us.one": 0}


@anyhow
async def test_a_cluster_without_coordinators_is_given_up() -> None:
    async with union() as made:
        us = GroupCluster(made.us)
        GroupCluster(made.eu)
        us.not_yet = 1_000
        client = await made.client(0)
        assert codes(await client.asked(ApiKey.OFFSET_COMMIT, 7, commit({"us.one": 1}))) == {"us.one": 14}


@anyhow
async def test_the_offsets_of_a_group_are_asked_at_its_home() -> None:
    async with union() as made:
        GroupCluster(made.eu), GroupCluster(made.us)
        client = await made.client(1 << 20)
        answer = await client.asked(ApiKey.OFFSET_COMMIT, 7, commit({"us.one": 1}))
        assert codes(answer) == {"us.one": 16}
        assert await fetched(client, 8, fetch(8, "us.one")) == ({16}, {"us.one": (16, -1)})
