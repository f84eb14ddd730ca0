"""Producers and consumers through a union, while either cluster and the mesh die."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.bench import Client, ScriptedMember, command_of, producer_of
from tests.clients.producing import Feed
from tests.clients.script import Script
from tests.integration.feeding import stored_upstream
from tests.integration.jars import missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import ChildProcess, eventually
from tests.integration.records import account
from tests.router.union_mesh import UnionMesh

pytestmark = [
    pytest.mark.long,
    pytest.mark.kafka,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("union and kills"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
COUNT, RATE = 24_000, 600
CLIENTS = (Client.CONFLUENT, Client.JAVA, Client.FRANZ)
"""Of each protocol library that Kafka's documentation names first: Java's, C's and Go's; all idempotent."""


@pytest.fixture(scope="module")
def mesh(
    kafka_pair: tuple[KafkaCluster, KafkaCluster], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[UnionMesh]:
    mesh = UnionMesh(tmp_path_factory.mktemp("union"), *kafka_pair, name="killed")
    yield mesh
    mesh.kill()


class Flow:
    """A producer, and a member that consumes what it produces, both through the union."""

    def __init__(
        self, cluster: KafkaCluster, mesh: UnionMesh, client: Client, prefix: str, topic: str, folder: Path
    ) -> None:
        """Makes the topic, whose name begins with the prefix in the union, and starts both."""
        folder.mkdir()
        self._cluster, self._topic = cluster, topic
        cluster.create_topic(topic, 3)
        address, name = mesh.bootstrap_servers, f"{prefix}{topic}"
        script = Script(bootstrap_servers=address, client_id="member", group=name, topic=name, commit="sync")
        self.member = ScriptedMember("member", [*command_of(client), script.to_json()], folder)
        self.member.until_assigned()
        feed = Feed(bootstrap_servers=address, client_id="producer", topic=name, count=COUNT, rate=RATE)
        self._output = folder / "producer.out"
        command = [*producer_of(client), feed.to_json()]
        self._producer = ChildProcess(command, log=folder / "producer.log", stdout=self._output)

    def until_acknowledged(self, part: float) -> None:
        """Returns when so much of all is."""
        eventually(f"{part:.0%} are acknowledged", lambda: self._acknowledged() >= part * COUNT, timeout=120)

    def acknowledged_more(self) -> None:
        """Returns when more is than now, or all."""
        enough = min(self._acknowledged() + RATE / 2, COUNT)
        eventually("it goes on", lambda: self._acknowledged() >= enough, timeout=60)

    def is_whole(self) -> None:
        """All is stored once, in the order of each key, and was consumed."""
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
        account(by_id, self.member.deliveries).assert_nothing_lost_or_altered()
        for each in self.member.deliveries:
            assert (each.partition, each.offset) == (by_id[each.id].partition, by_id[each.id].offset)
        self.member.assert_running()

    def end(self) -> None:
        self._producer.kill()
        self.member.kill()

    def _acknowledged(self) -> int:
        return self._output.read_bytes().count(b"\n")


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.value)
def test_clusters_and_the_mesh_die(
    kafka_pair: tuple[KafkaCluster, KafkaCluster], mesh: UnionMesh, client: Client, tmp_path: Path
) -> None:
    """Each with kill -9. While us is dead, what belongs to eu goes on; and the other way round."""
    eu, us = kafka_pair
    topic = f"killed-{client.value}"
    flows = [Flow(eu, mesh, client, "", topic, tmp_path / "eu"), Flow(us, mesh, client, "us.", topic, tmp_path / "us")]
    of_eu, of_us = flows
    try:
        for flow in flows:
            flow.until_acknowledged(0.1)
        us.kill()
        of_eu.acknowledged_more()
        us.restart()
        of_us.acknowledged_more()
        mesh.kill()
        mesh.restart()
        for flow in flows:
            flow.acknowledged_more()
        eu.kill()
        of_us.acknowledged_more()
        eu.restart()
        for flow in flows:
            flow.is_whole()
    finally:
        for flow in flows:
            flow.end()
