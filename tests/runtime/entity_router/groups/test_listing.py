"""A cluster that is not the home of a group has its offsets: it lists the group only while another member is in it
there."""

from __future__ import annotations

import pytest

from mesh.wire.apis import ApiKey
from mesh.wire.trees import Tree
from tests.runtime.entity_router.groups.clusters import GROUP, GroupCluster
from tests.runtime.entity_router.groups.test_heartbeats import join
from tests.runtime.entity_router.harness import UnionClient, UnionWorld, union
from tests.runtime.relay.loops import anyhow

US_NODE = 1 << 20


async def ids(client: UnionClient, version: int = 5) -> list[str]:
    answer = await client.asked(ApiKey.LIST_GROUPS, version, {})
    assert answer["error_code"] == 0
    return [each["group_id"] for each in answer["groups"]]


async def at_us(made: UnionWorld, type: str = "classic", state: str = "Stable") -> tuple[GroupCluster, UnionClient]:
    """A group whose home is eu, and another one of us, as us lists them."""
    GroupCluster(made.eu)
    us = GroupCluster(made.us)
    us.listed = [
        {"group_id": GROUP, "protocol_type": "consumer", "group_state": state, "group_type": type},
        {"group_id": "us-own", "protocol_type": "consumer", "group_state": "Empty", "group_type": "classic"},
    ]
    return us, await made.client(US_NODE)


def member(client_id: str, metadata: bytes = b"") -> Tree:
    return {"member_id": f"{client_id}-1", "client_id": client_id, "client_host": "/::1", "member_metadata": metadata}


@pytest.mark.parametrize("version", [0, 4, 5])
@anyhow
async def test_offsets_alone_are_not_listed(version: int) -> None:
    async with union() as made:
        _, client = await at_us(made, state="Empty")
        assert await ids(client, version) == ["us-own"]


@pytest.mark.parametrize("version", [0, 4, 5])
@anyhow
async def test_a_group_with_members_of_its_own_is(version: int) -> None:
    async with union() as made:
        us, client = await at_us(made)
        us.described = [member("kafka-mesh"), member("direct", b"any")]
        assert await ids(client, version) == [GROUP, "us-own"]


@anyhow
async def test_the_keeper_of_any_process_is_not() -> None:
    async with union() as made:
        us, client = await at_us(made)
        us.described = [member("kafka-mesh")]
        assert await ids(client) == ["us-own"]
        us.described = [member("kafka-mesh", b"subscribes")]
        assert await ids(client) == [GROUP, "us-own"]


@anyhow
async def test_the_keeper_of_a_group_of_the_consumer_protocol_is_not() -> None:
    async with union() as made:
        us, client = await at_us(made, "consumer")
        us.consumers = [{"member_id": "k", "client_id": "kafka-mesh"}]
        assert await ids(client) == ["us-own"]
        us.consumers = [{"member_id": "k", "client_id": "kafka-mesh", "subscribed_topic_names": ["orders"]}]
        assert await ids(client) == [GROUP, "us-own"]


@pytest.mark.parametrize("type", ["consumer", "share", "Share"])
@anyhow
async def test_a_member_that_the_home_knows_is_not(type: str) -> None:
    """It is a member at another process of the mesh."""
    async with union() as made:
        us, client = await at_us(made, type)
        us.consumers = [{"member_id": "m"}]
        assert await ids(client) == [GROUP, "us-own"]
        eu = GroupCluster(made.eu)
        eu.consumers = [{"member_id": "m"}]
        assert await ids(client) == ["us-own"]
        us.consumers.append({"member_id": "direct"})
        assert await ids(client) == [GROUP, "us-own"]
        await made.eu.stop()
        assert await ids(client) == ["us-own"], "whose member it is cannot be known"


@anyhow
async def test_a_member_of_this_process_is_not() -> None:
    async with union() as made:
        us, client = await at_us(made, "consumer")
        us.consumers = [{"member_id": "m"}]
        at_home = await made.client(0)
        await at_home.asked(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, join("us.orders"))
        assert await ids(client) == ["us-own"]


@anyhow
async def test_a_group_of_a_type_of_which_the_mesh_has_no_members_is() -> None:
    async with union() as made:
        _, client = await at_us(made, "streams")
        assert await ids(client) == [GROUP, "us-own"]


@anyhow
async def test_a_cluster_that_is_down_is_told() -> None:
    async with union() as made:
        _, client = await at_us(made)
        made.runtime.requests.timeout = 0.01
        made.us.answers = lambda *_: None
        assert (await client.asked(ApiKey.LIST_GROUPS, 5, {}))["error_code"] == 15
