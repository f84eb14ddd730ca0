from __future__ import annotations

import asyncio
import json

from mesh.admin.status import status_of as statuses
from mesh.runtime.pool.pool_status import status_of
from tests.pool.harness import EU, GROUP, ORDERS, US
from tests.runtime.pool.harness import Bench


def test_every_pool_as_json() -> None:
    async def run() -> None:
        bench = Bench()
        peer = await bench.member("orders-service")
        status = json.loads(json.dumps(statuses([bench.server])))
        (cluster,) = status["virtual_clusters"]
        (pool,) = cluster["pools"]
        assert (pool["group"], pool["state"], pool["member_count"]) == (GROUP, "Stable", 1)
        (member,) = pool["members"]
        assert (member["id"], member["client_id"]) == (peer.member_id, "orders-service")
        assert (member["connections"], member["protocol"], member["records"]) == (1, "classic", 0)
        assert member["reason"] == "has not fetched yet"
        assert member["oldest_held_seconds"] is None
        assert (member["delivered"], member["redelivered"], member["last_commit_seconds"]) == (0, 0, None)

    asyncio.run(run())


def test_partitions_in_upstream_terms() -> None:
    async def run() -> None:
        bench = Bench()
        peer = await bench.member()
        peer.fetch(peer.positions())
        for name in (EU, US):
            bench.engine(name).assign()
        bench.engine(EU).produce(0, first=0, count=5)
        (pool,) = status_of(bench.server.core, bench.server.now(), 2_000_000_000.0)["pools"]
        first = pool["partitions"][0]
        assert (first["topic"], first["partition"], first["upstream_topic"]) == (ORDERS, 0, ORDERS)
        oldest = first["oldest_unacknowledged"]
        assert oldest["offset"] == 0
        assert oldest["record_age_seconds"] > 0
        assert oldest["member"] == pool["members"][0]["id"]
        assert pool["members"][0]["records"] == 5

    asyncio.run(run())
