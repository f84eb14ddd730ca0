"""The node that is asked: each in its turn, with a time limit, and at its present address."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import pytest

from mesh.records.spans import ClusterName, TopicName
from mesh.upstream.links import nodes as module
from mesh.upstream.links.connection_settings import ConnectionSettings
from mesh.upstream.links.handshake import Unreachable
from mesh.upstream.links.nodes import Nodes, _address
from tests.upstream.harness import run
from tests.upstream.raw.fake_broker import TOPIC, FakeCluster, fake_cluster

TOPICS = [TopicName(TOPIC)]
PATIENT = ConnectionSettings(request_timeout=60.0, setup_timeout=60.0, backoff=0.001, most_backoff=0.01)


@asynccontextmanager
async def nodes_of(cluster: FakeCluster, first: Collection[int] = ()) -> AsyncIterator[Nodes]:
    ports = [cluster.ports[node] for node in first or cluster.ports]
    nodes = Nodes(ClusterName("eu"), ",".join(f"127.0.0.1:{port}" for port in ports), PATIENT)
    try:
        yield nodes
    finally:
        nodes.close()


def test_every_node_has_its_turn() -> None:
    async def test() -> None:
        async with fake_cluster(1, nodes=(1, 2, 3)) as cluster, nodes_of(cluster, [1]) as nodes:
            for _ in range(7):
                await nodes.layout(TOPICS)
            assert sorted(nodes.nodes) == [1, 2, 3]
            assert sorted(cluster.described[1:]) == [1, 1, 2, 2, 3, 3]

    run(test)


def test_nodes_that_hang_hold_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them would have a minute to answer."""
    monkeypatch.setattr(module, "NEXT_AFTER", 0.05)

    async def test() -> None:
        async with fake_cluster(1, nodes=(1, 2, 3)) as cluster, nodes_of(cluster) as nodes:
            await nodes.layout(TOPICS)
            cluster.silent = {1, 2}
            for _ in range(6):
                await nodes.layout(TOPICS)
            # From then on the slow ones come last.
            assert cluster.described[-4:] == [3, 3, 3, 3]

    run(test)


def test_nobody_answers() -> None:
    async def test() -> None:
        async with fake_cluster(1, nodes=(1, 2)) as cluster:
            pass
        async with nodes_of(cluster) as nodes:
            with pytest.raises(Unreachable, match=str(cluster.ports[2])):
                await nodes.layout(TOPICS)

    run(test)


def test_a_node_that_moved_is_another_one() -> None:
    async def test() -> None:
        async with fake_cluster(1, nodes=(1, 2)) as cluster, nodes_of(cluster) as nodes:
            await nodes.layout(TOPICS)
            first, second = nodes.nodes[1], nodes.nodes[2]
            assert first.fetch_link is not first.request_link
            assert first.link("relayed") is first.link("relayed")
            cluster.ports[2], moved = 1, cluster.ports[2]
            for _ in range(2):
                await nodes.layout(TOPICS)
            assert nodes.nodes[1] is first
            assert nodes.nodes[2] is not second
            with pytest.raises(Unreachable, match="closed here"):
                await second.request_link.versions()
            cluster.ports[2] = moved

    run(test)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("host:9093", ("host", 9093)),
        (" host ", ("host", 9092)),
        ("SASL_SSL://host:1", ("host", 1)),
        ("[::1]:9094", ("::1", 9094)),
        ("[::1]", ("::1", 9092)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert _address(text) == address
