"""The deletion of a group also deletes its state in clusters that are not its home."""

from __future__ import annotations

from typing import Any

import pytest

from mesh.wire.apis import ApiKey
from mesh.wire.trees import Tree
from tests.runtime.entity_router.groups.clusters import GROUP, GroupCluster
from tests.runtime.entity_router.groups.test_offsets import codes, commit, fetch, fetched
from tests.runtime.entity_router.harness import union
from tests.runtime.relay.loops import anyhow

GROUPS: Tree = {"groups_names": [GROUP]}


def deleted(answer: Tree) -> list[tuple[str, int]]:
    return [(each["group_id"], each["error_code"]) for each in answer["results"]]


@pytest.mark.parametrize(
    ("at_home", "at_owner", "expected"),
    [(0, 0, 0), (69, 0, 0), (0, 69, 0), (69, 69, 69), (0, 68, 68), (0, 15, 15)],
)
@anyhow
async def test_a_group_is_deleted_everywhere(at_home: int, at_owner: int, expected: int) -> None:
    async with union() as made:
        eu, us = GroupCluster(made.eu), GroupCluster(made.us)
        eu.code, us.code = at_home, at_owner
        client = await made.client(0)
        assert deleted(await client.asked(ApiKey.DELETE_GROUPS, 2, GROUPS)) == [(GROUP, expected)]
        assert us.seen(ApiKey.DELETE_GROUPS)[0]["groups_names"] == [GROUP]


@anyhow
async def test_a_group_with_members_keeps_everything() -> None:
    async with union() as made:
        eu, us = GroupCluster(made.eu), GroupCluster(made.us)
        eu.code = 68
        client = await made.client(0)
        assert deleted(await client.asked(ApiKey.DELETE_GROUPS, 2, GROUPS)) == [(GROUP, 68)]
        assert us.seen(ApiKey.DELETE_GROUPS) == []


@anyhow
async def test_while_a_cluster_is_down_a_group_is_not_said_to_be_deleted() -> None:
    async with union() as made:
        GroupCluster(made.eu), GroupCluster(made.us)
        await made.us.stop()
        client = await made.client(0)
        assert deleted(await client.asked(ApiKey.DELETE_GROUPS, 2, GROUPS)) == [(GROUP, 15)]
        assert deleted(await client.asked(ApiKey.DELETE_GROUPS, 2, {"groups_names": ["us-one"]})) == [("us-one", 16)]


def of(*names: str) -> dict[str, Any]:
    return {"group_id": GROUP, "topics": [{"name": name, "partitions": [{"partition_index": 0}]} for name in names]}


@anyhow
async def test_offsets_are_deleted_by_the_owners() -> None:
    async with union() as made:
        eu, us = GroupCluster(made.eu), GroupCluster(made.us)
        client = await made.client(0)
        await client.asked(ApiKey.OFFSET_COMMIT, 7, commit({"us.one": 1, "us.two": 2, "orders": 3}))
        answer = await client.asked(ApiKey.OFFSET_DELETE, 0, of("us.one", "orders"))
        assert (answer["error_code"], codes(answer)) == (0, {"us.one": 0, "orders": 0})
        assert (eu.stored, us.stored) == ({}, {"us.two": 2})
        await made.us.stop()
        assert await fetched(client, 7, fetch(7, "us.one")) == ({14}, {"us.one": (14, -1)})
        assert await fetched(client, 7, fetch(7, "us.two")) == ({0}, {"us.two": (0, 2)})


@anyhow
async def test_a_group_with_members_keeps_its_offsets_elsewhere() -> None:
    async with union() as made:
        eu, us = GroupCluster(made.eu), GroupCluster(made.us)
        client = await made.client(0)
        await client.asked(ApiKey.OFFSET_COMMIT, 7, commit({"us.one": 1}))
        eu.state = "Stable"
        answer = await client.asked(ApiKey.OFFSET_DELETE, 0, of("us.one"))
        assert (answer["error_code"], codes(answer)) == (0, {"us.one": 86})
        assert us.stored == {"us.one": 1}


@pytest.mark.parametrize(("at_owner", "above", "below"), [(0, 0, 0), (69, 0, 0), (30, 0, 30)])
@anyhow
async def test_a_group_that_only_one_cluster_knows(at_owner: int, above: int, below: int) -> None:
    async with union() as made:
        GroupCluster(made.eu)
        us = GroupCluster(made.us)
        us.code = at_owner
        client = await made.client(0)
        answer = await client.asked(ApiKey.OFFSET_DELETE, 0, of("us.one", "orders"))
        assert (answer["error_code"], codes(answer)) == (above, {"us.one": below, "orders": 0})
