"""The mesh reports a consumer that uses a cluster of the same group directly, and does not fight it."""

from __future__ import annotations

import pytest

from mesh.runtime.entity_router.groups import elsewhere
from mesh.wire.apis import ApiKey
from tests.runtime.entity_router.groups.clusters import GROUP, GroupCluster
from tests.runtime.entity_router.groups.test_offsets import codes, commit
from tests.runtime.entity_router.harness import union
from tests.runtime.relay.loops import anyhow, until


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elsewhere, "ASK_DELAY", 0.01)
    monkeypatch.setattr(elsewhere, "LOOK_AGAIN", 0.02)


@anyhow
async def test_members_at_an_owner_are_told_until_they_are_gone() -> None:
    async with union() as made:
        GroupCluster(made.eu)
        us = GroupCluster(made.us)
        us.code, us.state = 25, "Stable"
        us.described = [{"member_id": "m", "client_id": "direct", "client_host": "/10.0.0.9"}]
        client = await made.client(0)
        assert codes(await client.asked(ApiKey.OFFSET_COMMIT, 7, commit({"us.one": 1}))) == {"us.one": 14}
        await until(lambda: made.troubles.open)
        assert made.troubles.open == {(GROUP, 1): "1 members, among them direct at 10.0.0.9"}
        us.code = 0
        assert codes(await client.asked(ApiKey.OFFSET_COMMIT, 7, commit({"us.one": 1}))) == {"us.one": 0}
        assert made.troubles.open == {}


@anyhow
async def test_members_that_leave_are_told_no_longer_although_the_group_commits_nothing_more() -> None:
    async with union() as made:
        GroupCluster(made.eu)
        us = GroupCluster(made.us)
        us.code, us.state = 25, "Stable"
        us.described = [{"member_id": "m", "client_id": "direct", "client_host": "/10.0.0.9"}]
        client = await made.client(0)
        await client.asked(ApiKey.OFFSET_COMMIT, 7, commit({"us.one": 1}))
        await until(lambda: made.troubles.open)
        us.state, us.described = "Empty", []
        await until(lambda: not made.troubles.open)


@anyhow
async def test_a_keeper_that_has_left_is_not_told() -> None:
    async with union() as made:
        GroupCluster(made.eu)
        us = GroupCluster(made.us)
        us.code = 25
        client = await made.client(0)
        for asked in range(1, 4):
            await client.asked(ApiKey.OFFSET_COMMIT, 7, commit({"us.one": 1}))
            await until(lambda asked=asked: len(us.seen(ApiKey.CONSUMER_GROUP_DESCRIBE)) >= asked)  # type: ignore[misc]
        assert made.troubles.open == {}
