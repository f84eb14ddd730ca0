"""Offsets of groups at the owners of topics do not expire there as long as the group has members at home."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from mesh.routing.groups import offset_retention
from mesh.routing.names import LeafNumber
from mesh.runtime.entity_router.groups import offset_keeper
from mesh.wire.apis import ApiKey
from mesh.wire.trees import Tree
from tests.runtime.entity_router.groups.clusters import GROUP, GroupCluster
from tests.runtime.entity_router.groups.test_offsets import commit
from tests.runtime.entity_router.harness import union
from tests.runtime.relay.loops import anyhow, until


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_retention, "FIRST_INTERVAL", 0.01)
    monkeypatch.setattr(offset_retention, "RETRY_INTERVAL", 0.01)
    monkeypatch.setattr(offset_keeper, "_LEAST_INTERVAL", 0.01)
    monkeypatch.setattr(offset_keeper, "CHECK_FRACTION", 1e-6)


def kept(cluster: GroupCluster) -> list[Tree]:
    """The commits of the mesh itself."""
    return [each for each in cluster.seen(ApiKey.OFFSET_COMMIT) if "of 5" not in str(each)]


@anyhow
async def test_what_is_stored_is_stored_again_while_the_group_has_members_at_home() -> None:
    async with union() as made:
        eu, us = GroupCluster(made.eu), GroupCluster(made.us)
        eu.state = "Stable"
        client = await made.client(0)
        await client.asked(ApiKey.OFFSET_COMMIT, 7, commit({"us.orders": 5}))
        await until(lambda: len(kept(us)) >= 3)
        for each in kept(us):
            (topic,) = each["topics"]
            (partition,) = topic["partitions"]
            assert (topic["name"], partition["committed_offset"]) == ("us.orders", 5)
            assert (each["group_id"], each["member_id"], each["generation_id_or_member_epoch"]) == (GROUP, "", -1)
        assert us.seen(ApiKey.JOIN_GROUP) == []
        assert eu.seen(ApiKey.OFFSET_COMMIT) == []


@anyhow
async def test_a_group_that_once_had_members_at_the_owner_is_joined_for_a_moment() -> None:
    """As a member of the consumer protocol, for which no group has to rebalance."""
    async with union() as made:
        eu, us = GroupCluster(made.eu), GroupCluster(made.us)
        eu.state, us.protocol_type = "Stable", "consumer"
        client = await made.client(0)
        await client.asked(ApiKey.OFFSET_COMMIT, 7, commit({"us.orders": 5}))
        await until(lambda: len(us.seen(ApiKey.CONSUMER_GROUP_HEARTBEAT)) >= 4)
        joined, left, again, _ = us.seen(ApiKey.CONSUMER_GROUP_HEARTBEAT)[:4]
        assert (joined["member_epoch"], joined["subscribed_topic_names"], joined["topic_partitions"]) == (0, [], [])
        assert (left["member_epoch"], left["member_id"]) == (-1, joined["member_id"])
        assert again["member_id"] != joined["member_id"]
        assert us.seen(ApiKey.JOIN_GROUP) == kept(us) == []


@pytest.mark.parametrize("code", [0, 69])
@anyhow
async def test_a_cluster_without_that_protocol_is_joined_by_the_classic_one(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that refuses such a member. code: of its answer to one; 0: it does not know the protocol."""
    async with union() as made:
        eu, us = GroupCluster(made.eu), GroupCluster(made.us)
        eu.state, us.protocol_type, us.heartbeat_code = "Stable", "consumer", code
        if not code:
            node = made.leaves.by_number[LeafNumber(1)].nodes.known[0]
            assert node.versions is not None
            served = {key: each for key, each in node.versions.items() if key != ApiKey.CONSUMER_GROUP_HEARTBEAT}
            monkeypatch.setattr(node, "versions", served)
        us.others = [{"member_id": "direct"}]
        client = await made.client(0)
        await client.asked(ApiKey.OFFSET_COMMIT, 7, commit({"us.orders": 5}))
        await until(lambda: len(us.seen(ApiKey.LEAVE_GROUP)) >= 2)
        joined = us.seen(ApiKey.JOIN_GROUP)[0]
        assert {"range", "roundrobin", "sticky", "cooperative-sticky"} <= {each["name"] for each in joined["protocols"]}
        assert us.seen(ApiKey.LEAVE_GROUP)[0]["member_id"] == "kept"
        assert us.seen(ApiKey.SYNC_GROUP) == kept(us) == []


@anyhow
async def test_a_group_that_nobody_is_in_is_left_alone() -> None:
    async with union() as made:
        eu, us = GroupCluster(made.eu), GroupCluster(made.us)
        eu.state, us.protocol_type = "Empty", "consumer"
        client = await made.client(0)
        for looks in range(1, 4):
            await client.asked(ApiKey.OFFSET_COMMIT, 7, commit({"us.orders": 5}))
            await until(lambda looks=looks: len(us.seen(ApiKey.OFFSET_FETCH)) == looks)  # type: ignore[misc]
        assert kept(us) == us.seen(ApiKey.JOIN_GROUP) == []


@anyhow
async def test_an_owner_that_comes_back_is_looked_at_again() -> None:
    async with union() as made:
        eu, us = GroupCluster(made.eu), GroupCluster(made.us)
        eu.state = "Stable"
        client = await made.client(0)
        await client.asked(ApiKey.OFFSET_COMMIT, 7, commit({"us.orders": 5}))
        await until(lambda: len(kept(us)) >= 1)
        await made.us.brokers[0].stopped()
        await made.us.brokers[0].start()
        before = len(kept(us))
        await until(lambda: len(kept(us)) > before)


@anyhow
async def test_operators_are_told_once_when_it_is_not_known_how_long_a_cluster_keeps_offsets() -> None:
    async with union() as made:
        eu, us = GroupCluster(made.eu), GroupCluster(made.us)
        eu.state, us.retention = "Stable", ""
        with capture_logs() as logs:
            client = await made.client(0)
            await client.asked(ApiKey.OFFSET_COMMIT, 7, commit({"us.orders": 5}))
            await until(lambda: len(us.seen(ApiKey.DESCRIBE_CONFIGS)) >= 2)
        (told,) = [each for each in logs if each["log_level"] == "warning"]
        assert told["cluster"] == "us"
        assert told["detail"].startswith("offsets.retention.minutes: ")
