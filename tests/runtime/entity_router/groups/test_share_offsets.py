"""Tools and the offsets of share groups: each cluster has the offsets of its topics."""

from __future__ import annotations

from typing import Any

import pytest

from mesh.wire.apis import ApiKey
from mesh.wire.trees import Tree
from tests.runtime.entity_router.groups.clusters import GROUP
from tests.runtime.entity_router.harness import LeafCluster, union
from tests.runtime.relay.loops import anyhow

NOT_FOUND = 69


def answers(cluster: LeafCluster, offset: int, code: int = 0) -> None:
    """The cluster has this offset for any topic; a code is that of the group."""

    def answer(api_key: ApiKey, version: int, request: Tree) -> Tree:
        match api_key:
            case ApiKey.FIND_COORDINATOR:
                host, port = cluster.addresses[0]
                found = {"node_id": 0, "host": host, "port": port}
                return {**found, "coordinators": [{"key": GROUP, **found}]}
            case ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS:
                (group,) = request["groups"]
                topics = [] if code else [_described(each, offset) for each in group["topics"] or [_own(cluster)]]
                return {"groups": [{"group_id": GROUP, "error_code": code, "topics": topics}]}
            case ApiKey.ALTER_SHARE_GROUP_OFFSETS:
                changed = [
                    {"topic_name": each["topic_name"], "partitions": [{"partition_index": 0}]}
                    for each in request["topics"]
                ]
                return {"error_code": code, "responses": changed}
            case _:
                deleted = [{"topic_name": each["topic_name"], "error_code": 0} for each in request["topics"]]
                return {"error_code": code, "responses": [] if code else deleted}

    cluster.answers = answer


def _own(cluster: LeafCluster) -> Tree:
    return {"topic_name": "us.orders" if cluster.name == "us" else "orders"}


def _described(topic: Tree, offset: int) -> Tree:
    return {"topic_name": topic["topic_name"], "partitions": [{"partition_index": 0, "start_offset": offset}]}


def describe(*names: str, everything: bool = False) -> Tree:
    topics = None if everything else [{"topic_name": name, "partitions": [0]} for name in names]
    return {"groups": [{"group_id": GROUP, "topics": topics}]}


def offsets(answer: Tree) -> dict[str, int]:
    (group,) = answer["groups"]
    return {each["topic_name"]: each["partitions"][0]["start_offset"] for each in group["topics"]}


@pytest.mark.parametrize("everything", [False, True])
@anyhow
async def test_they_are_described_from_all_clusters(everything: bool) -> None:
    async with union() as made:
        answers(made.eu, 5)
        answers(made.us, 7)
        client = await made.client(0)
        names = () if everything else ("us.orders", "orders")
        told = await client.asked(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, describe(*names, everything=everything))
        assert offsets(told) == {"orders": 5, "us.orders": 7}
        assert told["groups"][0]["error_code"] == 0


@pytest.mark.parametrize(("at_home", "at_owner", "expected"), [(0, NOT_FOUND, 0), (NOT_FOUND, 0, 0), (69, 69, 69)])
@anyhow
async def test_a_group_that_one_cluster_does_not_know_has_nothing_there(
    at_home: int, at_owner: int, expected: int
) -> None:
    async with union() as made:
        answers(made.eu, 5, at_home)
        answers(made.us, 7, at_owner)
        client = await made.client(0)
        told = await client.asked(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, describe(everything=True))
        assert told["groups"][0]["error_code"] == expected
        known = {"orders": 5} if not at_home else {}
        assert offsets(told) == known | ({"us.orders": 7} if not at_owner else {})


@anyhow
async def test_they_are_altered_and_deleted_where_they_are() -> None:
    async with union() as made:
        answers(made.eu, 5)
        answers(made.us, 7)
        client = await made.client(0)
        for api_key, topic in (
            (ApiKey.ALTER_SHARE_GROUP_OFFSETS, {"partitions": [{"partition_index": 0, "start_offset": 3}]}),
            (ApiKey.DELETE_SHARE_GROUP_OFFSETS, {}),
        ):
            topics: list[Any] = [{"topic_name": name, **topic} for name in ("orders", "us.orders")]
            told = await client.asked(api_key, 0, {"group_id": GROUP, "topics": topics})
            assert [each["topic_name"] for each in told["responses"]] == ["orders", "us.orders"]
            for cluster, name in ((made.eu, "orders"), (made.us, "us.orders")):
                (asked,) = [request for key, request in cluster.seen if key is api_key]
                assert [each["topic_name"] for each in asked["topics"]] == [name]


@anyhow
async def test_elsewhere_than_at_the_home_of_the_group_nothing_is_asked() -> None:
    async with union() as made:
        answers(made.eu, 5)
        answers(made.us, 7)
        client = await made.client(1 << 20)
        told = await client.asked(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, describe("us.orders"))
        assert told["groups"][0]["error_code"] == 16
