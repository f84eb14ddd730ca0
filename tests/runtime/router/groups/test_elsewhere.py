"""Somebody who consumes past the mesh in the same group is told, and not fought."""

from __future__ import annotations

import pytest

from mesh.runtime.router.groups import elsewhere
from mesh.wire.apis import ApiKey
from tests.runtime.relay.loops import anyhow, until
from tests.runtime.router.groups.clusters import GROUP, GroupCluster
from tests.runtime.router.groups.test_offsets import codes, commit
from tests.runtime.router.harness import union


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elsewhere, "MOMENT", 0.01)


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
