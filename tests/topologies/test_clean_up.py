"""Descriptions of groups that disappeared without the mesh; and a broker that comes back as another version."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mesh.records.spans import ClusterName
from mesh.runtime.relay.nodes import RelayNodes
from mesh.runtime.relay.topologies import CleanUp
from mesh.runtime.topologies.topologies import Topologies
from mesh.streams.epochs import Epochs
from mesh.streams.steps import DescribedStreamsGroup, Push, push
from mesh.topology_plugins.memory import MemoryPlugin
from mesh.upstream.links.chunks import Chunks
from mesh.upstream.links.connection_settings import ConnectionSettings
from mesh.upstream.links.handshake import Unreachable
from mesh.upstream.links.leg import Leg
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import eventually
from tests.topologies.asking import EPOCH, Asking, description
from tests.topologies.clusters import cluster_without
from tests.upstream.harness import run
from tests.upstream.store.memory import MemoryStore

pytestmark = [pytest.mark.long, pytest.mark.kafka, pytest.mark.xdist_group("topologies")]


@asynccontextmanager
async def nodes_of(cluster: KafkaCluster) -> AsyncIterator[RelayNodes]:
    nodes = RelayNodes(
        ClusterName("eu"),
        cluster.bootstrap_servers,
        ConnectionSettings(),
        lambda _: ("localhost", 1),
        0.2,
        lambda _: None,
    )
    watching = asyncio.get_running_loop().create_task(nodes.watch(), name="watch")
    try:
        await nodes.wait_until_known()
        yield nodes
    finally:
        watching.cancel()
        await asyncio.wait([watching])


def test_what_is_gone_is_deleted_and_what_cannot_be_told_stays(tmp_path: Path) -> None:
    with cluster_without(tmp_path) as cluster:
        ask = Asking(cluster.bootstrap_servers)
        ask.wait_for_coordinator()
        for group in ("stays", "goes"):
            ask.join(group, 0)
        store = MemoryStore()

        async def test() -> None:
            topologies = Topologies("front", store, MemoryPlugin(None, "front"), plugin_name="memory")
            for group in ("stays", "goes", "never-was"):
                described = DescribedStreamsGroup(
                    group, topology_epoch=EPOCH, members=frozenset({ask.member}), is_empty=False
                )
                await topologies.carry_out(group, push(Push(group, ask.member, EPOCH, whole()), described))
            async with nodes_of(cluster) as nodes:
                clean_up = CleanUp(topologies, nodes)
                await asyncio.to_thread(ask.leave, "goes", 0)
                await asyncio.to_thread(ask.delete, "goes", version=2)
                await clean_up.once()
                assert topologies.groups() == ["stays"]
                assert topologies.epochs("stays") == Epochs(EPOCH)
                assert (topologies.cleanup_cycles, topologies.cleanup_eligible) == (1, 2)
                store.away = "no broker"
                await clean_up.once()
                assert topologies.cleanup_cycles == 1
                store.away = None
                await asyncio.to_thread(cluster.kill)
                await clean_up.once()
                assert topologies.groups() == ["stays"], "a cluster that is down says nothing of its groups"

        run(test)


def whole() -> dict[str, object]:
    """A description as read from the wire, with every field."""
    node: dict[str, object] = {"source_topics": [], "sink_topic": None, "stores": [], "successors": []}
    tree = description()
    for part in tree["subtopologies"]:
        part["nodes"] = [{**node, **each} for each in part["nodes"]]
    tree["global_stores"] = [{name: {**node, **each} for name, each in pair.items()} for pair in tree["global_stores"]]
    return tree


def test_a_broker_that_was_away_is_asked_again_what_it_serves(tmp_path: Path) -> None:
    with cluster_without(tmp_path) as cluster:

        async def test() -> None:
            async with nodes_of(cluster) as nodes:
                node = nodes.known[1]
                assert node.versions is not None
                node.versions = {}  # as if it had served something else
                await asyncio.to_thread(cluster.kill)
                nobody: Any = None
                with pytest.raises(Unreachable):
                    await nodes.open_leg(1, Leg(nobody, Chunks()), passes_authentication=False)
                await asyncio.to_thread(cluster.restart)
                await asyncio.to_thread(eventually, "it is asked again", lambda: bool(node.versions))

        run(test)
