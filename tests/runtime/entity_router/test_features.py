"""The features that clients of a union see (KIP-584)."""

from __future__ import annotations

import pytest

from mesh.routing.node_ids import NODE_BITS
from mesh.runtime.entity_router.leaves import SERVED
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree, read_tree
from tests.runtime.entity_router.harness import LeafCluster, UnionWorld, union
from tests.runtime.relay.loops import anyhow, until

US = 1 << NODE_BITS
OFTEN = 0.02
"""Seconds between two checks of a cluster."""
SOFTWARE = {"client_software_name": "test", "client_software_version": "1"}


def has(cluster: LeafCluster, epoch: int, **levels: int) -> None:
    """Levels by the names of features, with `_` for the dot."""
    names = {name.replace("_", "."): level for name, level in levels.items()}
    cluster.features = {
        "supported_features": [{"name": name, "min_version": 0, "max_version": level} for name, level in names.items()],
        "finalized_features_epoch": epoch,
        "finalized_features": [
            {"name": name, "min_version_level": level, "max_version_level": level} for name, level in names.items()
        ],
    }


async def told(world: UnionWorld, node: int | None = None, version: int = 4) -> Tree:
    client = await world.client(node)
    return await client.asked(ApiKey.API_VERSIONS, version, SOFTWARE)


def finalized(answer: Tree) -> dict[str, int]:
    return {each["name"]: each["max_version_level"] for each in answer["finalized_features"]}


@anyhow
async def test_every_node_says_what_both_clusters_have() -> None:
    async with union(interval=OFTEN) as world:
        has(world.eu, 7, transaction_version=2, group_version=1, share_version=1)
        has(world.us, 9, transaction_version=1, group_version=1)
        await until(lambda: world.leaves.features().epoch == 9)
        for node in (None, 0, US):
            answer = await told(world, node)
            assert finalized(answer) == {"transaction.version": 1, "group.version": 1}
            assert answer["finalized_features_epoch"] == 9


@anyhow
async def test_a_change_is_told_with_the_connection_to_the_brokers_kept() -> None:
    async with union(interval=OFTEN) as world:
        has(world.eu, 7, transaction_version=1)
        has(world.us, 9, transaction_version=2)
        await until(lambda: world.leaves.features().epoch == 9)
        assert finalized(await told(world)) == {"transaction.version": 1}
        accepted = world.eu.brokers[0].accepted, world.eu.guide.accepted
        has(world.eu, 10, transaction_version=2)
        await until(lambda: world.leaves.features().epoch == 10)
        assert finalized(await told(world)) == {"transaction.version": 2}
        assert (world.eu.brokers[0].accepted, world.eu.guide.accepted) == accepted


@anyhow
async def test_nothing_is_told_while_one_cluster_has_no_features() -> None:
    async with union(interval=OFTEN) as world:
        has(world.eu, 7, group_version=1)
        await until(lambda: world.leaves.default.nodes.features is not None)
        await until(lambda: world.leaves.default.nodes.features.epoch == 7)  # type: ignore[union-attr]
        answer = await told(world)
        assert (answer["finalized_features_epoch"], answer["finalized_features"]) == (-1, [])


@anyhow
async def test_a_cluster_that_does_not_answer_any_more_has_what_it_had() -> None:
    async with union(interval=OFTEN) as world:
        has(world.eu, 7, group_version=1)
        has(world.us, 9, group_version=1)
        await until(lambda: world.leaves.features().epoch == 9)
        await world.us.stop()
        has(world.eu, 10, group_version=1)
        await until(lambda: world.leaves.features().epoch == 10)
        assert finalized(await told(world)) == {"group.version": 1}


@anyhow
@pytest.mark.parametrize(("version", "names"), [(3, []), (4, ["group.version"])])
async def test_up_to_v3_no_feature_that_begins_at_0_is_said_to_be_supported(version: int, names: list[str]) -> None:
    async with union(interval=OFTEN) as world:
        has(world.eu, 7, group_version=1)
        has(world.us, 9, group_version=1)
        await until(lambda: world.leaves.features().epoch == 9)
        answer = await told(world, version=version)
        assert [each["name"] for each in answer["supported_features"]] == names
        assert finalized(answer) == {"group.version": 1}


@anyhow
async def test_a_client_that_asks_in_v5_hears_in_which_version_to_ask_again() -> None:
    """franz-go takes a longer list for all served APIs, and would not see a feature."""
    async with union() as world:
        client = await world.client()
        client.ask_tree(ApiKey.API_VERSIONS, 5, SOFTWARE)
        answer = read_tree(ApiKey.API_VERSIONS, 0, Direction.RESPONSE, (await client.frame())[4:])
        assert answer["error_code"] == ErrorCode.UNSUPPORTED_VERSION
        assert answer["api_keys"] == [{"api_key": ApiKey.API_VERSIONS, "min_version": 0, "max_version": 4}]


def test_a_union_serves_what_the_second_protocol_of_transactions_needs() -> None:
    """KIP-890: clients decide by the feature, and do not look at versions."""
    needed = {ApiKey.PRODUCE: 12, ApiKey.ADD_OFFSETS_TO_TXN: 4, ApiKey.TXN_OFFSET_COMMIT: 5, ApiKey.END_TXN: 5}
    assert all(SERVED[api][1] >= version for api, version in needed.items())
