"""Kafka Streams in a group of the classic protocol, with topics of two clusters."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from mesh.wire.apis import ApiKey
from mesh.wire.trees import Tree
from tests.routing.kit.test_streams import joining
from tests.routing.unions import RENAMED, SAME
from tests.runtime.entity_router.groups.clusters import GROUP, GroupCluster
from tests.runtime.entity_router.harness import union
from tests.runtime.relay.loops import anyhow


@pytest.mark.parametrize("config", [SAME, RENAMED], ids=["same", "renamed"])
@pytest.mark.parametrize("version", [0, 5, 9])
@anyhow
async def test_it_is_refused_when_it_joins(version: int, config: Tree) -> None:
    async with union(config) as made:
        eu = GroupCluster(made.eu)
        client = await made.client(0)
        with capture_logs() as logs:
            answer = await client.asked(ApiKey.JOIN_GROUP, version, joining(GROUP, "orders", "us.orders"))
        assert answer["error_code"] == 17
        assert eu.seen(ApiKey.JOIN_GROUP) == []
        (told,) = [each for each in logs if each["log_level"] == "warning"]
        assert (told["group"], told["topic"]) == (GROUP, "us.orders")


@pytest.mark.parametrize("join", [joining(GROUP, "orders"), joining(GROUP, "orders", "us.orders", assignor="range")])
@anyhow
async def test_others_pass(join: Tree) -> None:
    async with union() as made:
        eu = GroupCluster(made.eu)
        client = await made.client(0)
        assert (await client.asked(ApiKey.JOIN_GROUP, 5, join))["error_code"] == 0
        assert len(eu.seen(ApiKey.JOIN_GROUP)) == 1


@anyhow
async def test_where_it_is_not_at_home_it_is_told_so() -> None:
    async with union() as made:
        GroupCluster(made.eu)
        client = await made.client(1 << 20)
        assert (await client.asked(ApiKey.JOIN_GROUP, 5, joining(GROUP, "orders")))["error_code"] == 16
