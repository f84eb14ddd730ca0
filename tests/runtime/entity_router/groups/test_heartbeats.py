"""Members of the consumer and share protocols with topics in two clusters."""

from __future__ import annotations

from typing import Any

import pytest

from mesh.wire.apis import ApiKey
from mesh.wire.trees import Tree
from tests.routing.unions import RENAMED
from tests.runtime.entity_router.groups.clusters import GROUP, GroupCluster
from tests.runtime.entity_router.groups.test_offsets import codes, commit
from tests.runtime.entity_router.harness import UnionWorld, topic, topic_id, union
from tests.runtime.relay.loops import anyhow, until

BEAT = ApiKey.CONSUMER_GROUP_HEARTBEAT


def beat(epoch: int, **fields: Any) -> Tree:
    defaults: Tree = {
        "group_id": GROUP,
        "member_id": "m",
        "member_epoch": epoch,
        "rebalance_timeout_ms": -1,
        "subscribed_topic_names": None,
        "topic_partitions": None,
    }
    return {**defaults, **fields}


def join(*names: str, **fields: Any) -> Tree:
    return beat(0, rebalance_timeout_ms=1_000, subscribed_topic_names=[*names], topic_partitions=[], **fields)


def clusters(made: UnionWorld) -> tuple[GroupCluster, GroupCluster]:
    """Clusters that assign all partitions, with their own epochs."""
    made.eu.topics, made.us.topics = [topic("orders")], [topic("payments"), topic("other")]
    eu, us = GroupCluster(made.eu), GroupCluster(made.us)
    eu.epoch, us.epoch = 3, 8
    return eu, us


def assigned(answer: Tree) -> set[Any] | None:
    given = answer["assignment"]
    return None if given is None else {each["topic_id"] for each in given["topic_partitions"]}


BOTH = {topic_id("orders"), topic_id("payments")}


@pytest.mark.parametrize("api_key", [BEAT, ApiKey.SHARE_GROUP_HEARTBEAT])
@anyhow
async def test_a_member_is_one_in_both_clusters(api_key: ApiKey) -> None:
    async with union(RENAMED) as made:
        eu, us = clusters(made)
        client = await made.client(0)
        await client.asked(ApiKey.METADATA, 12, {"topics": None})
        answer = await client.asked(api_key, 1, join("orders", "us.payments"))
        assert (answer["error_code"], answer["member_epoch"], assigned(answer)) == (0, 3, BOTH)
        (at_eu,), (at_us,) = eu.seen(api_key), us.seen(api_key)
        assert (at_eu["subscribed_topic_names"], at_us["subscribed_topic_names"]) == (["orders"], ["payments"])
        answer = await client.asked(api_key, 1, beat(3))
        assert (answer["error_code"], assigned(answer)) == (0, None)
        assert [each["member_epoch"] for each in us.seen(api_key)] == [0, 8]
        assert (await client.asked(api_key, 1, beat(-1)))["error_code"] == 0
        assert us.seen(api_key)[-1]["member_epoch"] == eu.seen(api_key)[-1]["member_epoch"] == -1


@anyhow
async def test_a_member_that_this_process_does_not_know_joins_again() -> None:
    async with union(RENAMED) as made:
        eu, _ = clusters(made)
        client = await made.client(0)
        assert (await client.asked(BEAT, 1, beat(3)))["error_code"] == 110
        assert eu.seen(BEAT) == []


@anyhow
async def test_it_commits_with_the_epoch_that_it_has_in_each_cluster() -> None:
    async with union(RENAMED) as made:
        _, us = clusters(made)
        client = await made.client(0)
        await client.asked(BEAT, 1, join("orders", "us.payments"))
        request = commit({"us.payments": 5}, generation_id_or_member_epoch=3)
        assert codes(await client.asked(ApiKey.OFFSET_COMMIT, 9, request)) == {"us.payments": 0}
        (stored,) = us.seen(ApiKey.OFFSET_COMMIT)
        assert (stored["member_id"], stored["generation_id_or_member_epoch"]) == ("m", 8)
        us.code = 113
        assert codes(await client.asked(ApiKey.OFFSET_COMMIT, 9, request)) == {"us.payments": 113}


@anyhow
async def test_while_a_cluster_is_down_its_partitions_stay_and_the_others_go_on() -> None:
    async with union(RENAMED) as made:
        clusters(made)
        client = await made.client(0)
        await client.asked(ApiKey.METADATA, 12, {"topics": None})
        await client.asked(BEAT, 1, join("orders", "us.payments"))
        await made.us.stop()
        full = beat(3, subscribed_topic_names=["orders", "us.payments"], topic_partitions=[])
        answer = await client.asked(BEAT, 1, full)
        assert (answer["error_code"], assigned(answer)) == (0, BOTH)


LOADING = 14
"""COORDINATOR_LOAD_IN_PROGRESS: the coordinator moves to another broker."""


@pytest.mark.parametrize("api_key", [BEAT, ApiKey.SHARE_GROUP_HEARTBEAT])
@anyhow
async def test_a_cluster_that_was_away_hears_of_a_subscription_when_it_is_back(api_key: ApiKey) -> None:
    async with union(RENAMED) as made:
        _, us = clusters(made)
        client = await made.client(0)
        await client.asked(ApiKey.METADATA, 12, {"topics": None})
        await client.asked(api_key, 1, join("orders", "us.payments"))
        us.heartbeat_code = LOADING
        names = ["orders", "us.payments", "us.other"]
        answer = await client.asked(api_key, 1, beat(3, subscribed_topic_names=names))
        assert answer["error_code"] == 0, "the member does not say it again"
        us.heartbeat_code = 0
        answer = await client.asked(api_key, 1, beat(3))
        assert assigned(answer) == {*BOTH, topic_id("other")}
        await client.asked(api_key, 1, beat(3))
        told = [each["subscribed_topic_names"] for each in us.seen(api_key)]
        assert told == [["payments"], ["payments", "other"], ["payments", "other"], None]


@anyhow
async def test_a_cluster_that_was_away_hears_what_was_given_up_when_it_is_back() -> None:
    async with union(RENAMED) as made:
        _, us = clusters(made)
        client = await made.client(0)
        await client.asked(ApiKey.METADATA, 12, {"topics": None})
        await client.asked(BEAT, 1, join("orders", "us.payments"))
        owned = [{"topic_id": each, "partitions": [0]} for each in (topic_id("orders"), topic_id("payments"))]
        await client.asked(BEAT, 1, beat(3, topic_partitions=owned))
        us.heartbeat_code = LOADING
        assert (await client.asked(BEAT, 1, beat(3, topic_partitions=owned[:1])))["error_code"] == 0
        us.heartbeat_code = 0
        await client.asked(BEAT, 1, beat(3))
        assert [each["topic_partitions"] for each in us.seen(BEAT)] == [[], owned[1:], [], []]


@anyhow
async def test_a_cluster_that_was_not_asked_since_the_home_was_away_hears_of_a_subscription() -> None:
    async with union(RENAMED) as made:
        eu, us = clusters(made)
        client = await made.client(0)
        await client.asked(BEAT, 1, join("orders", "us.payments"))
        eu.heartbeat_code = LOADING
        answer = await client.asked(BEAT, 1, beat(3, subscribed_topic_names=["orders", "us.other"]))
        assert answer["error_code"] == LOADING
        eu.heartbeat_code = 0
        assert (await client.asked(BEAT, 1, beat(3)))["error_code"] == 0
        assert eu.seen(BEAT)[-1]["subscribed_topic_names"] == ["orders"]
        assert us.seen(BEAT)[-1]["subscribed_topic_names"] == ["other"]


@anyhow
async def test_an_error_of_the_home_is_the_answer() -> None:
    async with union(RENAMED) as made:
        eu, us = clusters(made)
        client = await made.client(0)
        await client.asked(BEAT, 1, join("orders", "us.payments"))
        eu.code = 110
        assert (await client.asked(BEAT, 1, beat(3)))["error_code"] == 110
        assert len(us.seen(BEAT)) == 1
        there = await made.client(1 << 20)
        assert (await there.asked(BEAT, 1, beat(3)))["error_code"] == 16


async def reported(made: UnionWorld) -> None:
    """Returns when both clusters have reported their topics."""
    client = await made.client(0)
    await client.asked(ApiKey.METADATA, 12, {"topics": None})
    await until(lambda: made.metadata.are_all_reported)


@anyhow
async def test_a_regular_expression_is_about_the_names_that_clients_know() -> None:
    async with union(RENAMED) as made:
        eu, us = clusters(made)
        await reported(made)
        client = await made.client(0)
        pattern = join(subscribed_topic_regex="us[.]pay.*|orders")
        assert (await client.asked(BEAT, 1, pattern))["error_code"] == 0
        (at_eu,), (at_us,) = eu.seen(BEAT), us.seen(BEAT)
        assert (at_eu["subscribed_topic_names"], at_us["subscribed_topic_names"]) == (["orders"], ["payments"])
        assert at_eu["subscribed_topic_regex"] is at_us["subscribed_topic_regex"] is None
        assert (await client.asked(BEAT, 1, join(subscribed_topic_regex="(")))["error_code"] == 128


@anyhow
async def test_a_regular_expression_finds_the_topics_of_a_late_cluster_at_the_next_heartbeat() -> None:
    async with union(RENAMED) as made:
        _, us = clusters(made)
        client = await made.client(0)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("mesh.runtime.entity_router.metadata.PATIENCE", 0.01)
            patch.setattr(made.us, "metadata", lambda request: None)
            joined = await client.asked(BEAT, 1, join(subscribed_topic_regex="us[.]pay.*|orders"))
        assert (assigned(joined), us.seen(BEAT)) == ({topic_id("orders")}, [])
        await reported(made)
        assert assigned(await client.asked(BEAT, 1, beat(3))) == BOTH


@anyhow
async def test_a_group_is_described_with_what_its_members_have_in_all_clusters() -> None:
    async with union(RENAMED) as made:
        eu, us = clusters(made)
        for cluster, name in ((eu, "orders"), (us, "payments")):
            given = {"topic_partitions": [{"topic_id": topic_id(name), "topic_name": name, "partitions": [0]}]}
            cluster.consumers = [
                {
                    "member_id": "m",
                    "subscribed_topic_names": [name],
                    "assignment": given,
                    "target_assignment": given,
                }
            ]
        client = await made.client(0)
        answer = await client.asked(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, {"group_ids": [GROUP, "us-one"]})
        described, elsewhere = answer["groups"]
        (member,) = described["members"]
        assert member["subscribed_topic_names"] == ["orders", "us.payments"]
        names = {each["topic_name"] for each in member["assignment"]["topic_partitions"]}
        assert names == {"orders", "us.payments"}
        assert (elsewhere["group_id"], elsewhere["error_code"]) == ("us-one", 16)
