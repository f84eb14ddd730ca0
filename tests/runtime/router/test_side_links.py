from __future__ import annotations

from mesh.wire.apis import ApiKey
from tests.runtime.relay.loops import anyhow, until
from tests.runtime.router.harness import union
from tests.runtime.router.test_counts import KEYS
from tests.runtime.router.test_requests import coordinators


@anyhow
async def test_connections_for_one_client_are_counted_until_it_leaves() -> None:
    async with union() as made:
        for cluster in (made.eu, made.us):
            cluster.answers = lambda api_key, version, request, cluster=cluster: coordinators(cluster, request)  # type: ignore[misc]
        staying, leaving = await made.client(), await made.client()
        await staying.asked(ApiKey.FIND_COORDINATOR, 4, KEYS)
        assert made.descriptors.used == 2 + 2, "two clients, and one of them reaches two clusters"
        for _ in range(2):
            await leaving.asked(ApiKey.FIND_COORDINATOR, 4, KEYS)
        assert made.descriptors.used == 2 + 4
        leaving.abort()
        await until(lambda: len(made.listener.connections) == 1)
        assert made.descriptors.used == 1 + 2
    assert made.descriptors.used == 0
