"""The test bed works as its docstrings say, so that tests may rely on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.feeding import Feed, upstream_records
from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.kafka import SHORT_SESSIONS
from tests.integration.processes import eventually
from tests.relay.cluster import NODES, SeveralBrokers

pytestmark = [
    pytest.mark.long,
    pytest.mark.kafka,
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]

TOPIC = "led-in-turn"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeveralBrokers]:
    cluster = SeveralBrokers("eu", kafka_jars(), tmp_path_factory.mktemp("several"), more=SHORT_SESSIONS)
    cluster.create_topic(TOPIC, 1)
    yield cluster
    cluster.end()


def test_leaders_move(cluster: SeveralBrokers) -> None:
    for node in (*NODES, *NODES):
        cluster.move_leader(TOPIC, 0, node)
        assert cluster.leader(TOPIC, 0) == node


@pytest.mark.parametrize("node", [NODES[1], pytest.param(NODES[2], marks=pytest.mark.deep)])
def test_one_dies_and_comes_back(cluster: SeveralBrokers, node: int) -> None:
    cluster.move_leader(TOPIC, 0, node)
    cluster.node(node).kill()
    eventually("another leads", lambda: cluster.leader(TOPIC, 0) not in (node, -1))
    cluster.node(node).launch()
    cluster.node(node).wait_until_up()
    eventually("it has caught up", lambda: cluster.is_in_sync(TOPIC, 0, node))
    cluster.move_leader(TOPIC, 0, node)


def test_one_hangs(cluster: SeveralBrokers) -> None:
    cluster.move_leader(TOPIC, 0, 101)
    cluster.node(101).freeze()
    eventually("another leads", lambda: cluster.leader(TOPIC, 0) not in (101, -1))
    cluster.node(101).thaw()
    eventually("it has caught up", lambda: cluster.is_in_sync(TOPIC, 0, 101))


def test_one_more(cluster: SeveralBrokers) -> None:
    cluster.add(7)
    cluster.create_topic("on-the-new-one", 1, places=[[7, 1]])
    assert cluster.leader("on-the-new-one", 0) == 7
    feed = Feed(cluster, "on-the-new-one")
    feed.produce(100)
    assert upstream_records(cluster, "on-the-new-one").keys() == feed.ids()
