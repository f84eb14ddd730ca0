from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from mesh.routing.names import LeafNumber
from mesh.runtime.entity_router.leaf_nodes import LeafNodes
from mesh.runtime.entity_router.side_links import SideLinks
from mesh.upstream.links.handshake import Unreachable
from mesh.wire.apis import ApiKey
from mesh.wire.client.connection import ClientRequest
from tests.runtime.entity_router.harness import union
from tests.runtime.entity_router.test_counts import KEYS
from tests.runtime.entity_router.test_requests import coordinators
from tests.runtime.relay.loops import anyhow, until


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


@anyhow
async def test_a_cluster_that_was_not_there_at_the_start_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each request of the client would wait for it, and time out; so would its heartbeats."""
    monkeypatch.setattr("mesh.runtime.relay.nodes.NODES_TIMEOUT", 3_600.0)
    async with union() as made:
        leaf = made.leaves.by_number[LeafNumber(1)]
        away = LeafNodes(leaf.nodes.cluster, "127.0.0.1:1", leaf.nodes._access, lambda _: None, 3_600.0, lambda _: None)
        watching = asyncio.get_running_loop().create_task(away.watch())
        lost = replace(leaf, nodes=away)
        with pytest.raises(Unreachable):
            await SideLinks().ask(lost, ClientRequest(ApiKey.FIND_COORDINATOR, 1, False, (b"",)), 0.0, None)
        watching.cancel()
