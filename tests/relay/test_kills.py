"""Producers and consumers through a relay, while brokers and the mesh die, leaders move, and a broker is added."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.bench import Client, ScriptedMember, command_of, producer_of
from tests.clients.producing import Feed
from tests.clients.script import Script
from tests.integration.feeding import stored_upstream
from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.processes import ChildProcess, eventually
from tests.integration.records import Stored, account
from tests.integration.relay_mesh import RelayMesh
from tests.relay.cluster import NODES, SeveralBrokers

pytestmark = [
    pytest.mark.long,
    pytest.mark.kafka,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("relay and kills"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
COUNT, RATE = 20_000, 1_000
CLIENTS = (Client.CONFLUENT, Client.JAVA, Client.FRANZ)
"""Of each protocol library that Kafka's documentation names first: Java's, C's and Go's; all idempotent."""
PLACES = [[*NODES[at:], *NODES[:at]] for at in range(len(NODES))]
"""A partition for each node to lead; every node has all of it."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeveralBrokers]:
    # Else a leader alone may acknowledge, on a slow machine, and dies with it: what is lost then the cluster has lost.
    more = {"min.insync.replicas": "2"}
    cluster = SeveralBrokers("eu", kafka_jars(), tmp_path_factory.mktemp("several"), more=more)
    yield cluster
    cluster.end()


@pytest.fixture(scope="module")
def relay(cluster: SeveralBrokers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RelayMesh]:
    relay = RelayMesh(tmp_path_factory.mktemp("relay"), cluster.every_address, NODES)
    yield relay
    relay.kill()


class Flow:
    """A producer, and a member that consumes what it produces, both through the relay."""

    def __init__(self, cluster: SeveralBrokers, relay: RelayMesh, client: Client, topic: str, folder: Path) -> None:
        """Makes the topic and starts both."""
        self._cluster = cluster
        self._topic = topic
        cluster.create_topic(topic, len(PLACES), places=PLACES)
        address = relay.bootstrap_servers
        self.member = ScriptedMember("member", [*command_of(client), self._script(address)], folder)
        self.member.until_assigned()
        feed = Feed(bootstrap_servers=address, client_id="producer", topic=topic, count=COUNT, rate=RATE)
        self._output = folder / "producer.out"
        command = [*producer_of(client), feed.to_json()]
        self._producer = ChildProcess(command, log=folder / "producer.log", stdout=self._output)

    def until_acknowledged(self, part: float) -> None:
        """Returns when so much of all is."""
        eventually(f"{part:.0%} are acknowledged", lambda: self._acknowledged() >= part * COUNT, timeout=120)

    def until_all_is_consumed(self) -> dict[str, Stored]:
        """Returns what is stored, when the member has seen all of it."""
        code = self._producer.wait(180)
        assert code == 0, f"the producer ended with {code}; its log ends:\n{self._producer.log_tail()}"
        assert self._acknowledged() == COUNT
        stored = list(stored_upstream(self._cluster, self._topic))
        by_id = {each.record.id: each for each in stored}
        assert (len(stored), len(by_id)) == (COUNT, COUNT), "nothing is lost, nothing is stored twice"
        in_order = sorted(stored, key=lambda each: (each.record.key or b"", each.partition, each.offset))
        numbers = [(each.record.key, int(each.record.id.rpartition("-")[2])) for each in in_order]
        assert numbers == sorted(numbers, key=lambda each: (each[0] or b"", each[1])), "the order of each key"
        eventually("all is consumed", lambda: len({each.id for each in self.member.deliveries}) >= COUNT, timeout=90)
        return by_id

    def end(self) -> None:
        self._producer.kill()
        self.member.kill()

    def _script(self, address: str) -> str:
        group = f"{self._topic}-group"
        return Script(
            bootstrap_servers=address, client_id="member", group=group, topic=self._topic, commit="sync"
        ).to_json()

    def _acknowledged(self) -> int:
        return self._output.read_bytes().count(b"\n")


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.value)
def test_brokers_and_the_mesh_die(cluster: SeveralBrokers, relay: RelayMesh, client: Client, tmp_path: Path) -> None:
    """A leader, and the mesh, with kill -9; then leaders are moved. The member sees all at the cluster's offsets."""
    topic = f"killed-{client.value}"
    flow = Flow(cluster, relay, client, topic, tmp_path)
    try:
        flow.until_acknowledged(0.15)
        cluster.node(101).kill()
        cluster.node(101).launch()
        flow.until_acknowledged(0.5)
        cluster.node(101).wait_until_up()
        relay.kill()
        relay.restart()
        flow.until_acknowledged(0.7)
        for partition, node in ((0, 101), (1, 1), (2, 101)):
            eventually("it has caught up", lambda: cluster.is_in_sync(topic, partition, node))  # noqa: B023
            cluster.move_leader(topic, partition, node)
        stored = flow.until_all_is_consumed()
        seen = account(stored, flow.member.deliveries)
        seen.assert_nothing_lost_or_altered()
        for each in flow.member.deliveries:
            assert (each.partition, each.offset) == (stored[each.id].partition, stored[each.id].offset)
        flow.member.assert_running()
    finally:
        flow.end()


def test_a_broker_is_added(cluster: SeveralBrokers, relay: RelayMesh, tmp_path: Path) -> None:
    """It is declared, and gets a leader's replica, under a client that goes on."""
    flow = Flow(cluster, relay, Client.CONFLUENT, "grown", tmp_path)
    try:
        flow.until_acknowledged(0.1)
        relay.declare([7])
        cluster.add(7)
        cluster.place("grown", 0, 7, 1)
        account(flow.until_all_is_consumed(), flow.member.deliveries).assert_each_once()
        for api in ("PRODUCE", "FETCH"):
            assert relay.metric("kafka_mesh_relay_requests_total", node="7", api=api) > 0
    finally:
        flow.end()
