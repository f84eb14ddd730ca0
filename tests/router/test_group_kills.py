"""Groups over two clusters, while a member, the mesh and either cluster die with kill -9: nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from tests.clients.bench import Client
from tests.clients.producing import Feed
from tests.clients.script import Protocol, Script
from tests.integration.feeding import log_ends, stored_upstream
from tests.integration.jars import missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.members import Member
from tests.integration.processes import eventually
from tests.integration.records import Stored, account
from tests.relay.matrix import committed, produced
from tests.router.test_groups import members, shown
from tests.router.union_mesh import UnionMesh

pytestmark = [
    pytest.mark.long,
    pytest.mark.kafka,
    pytest.mark.timeout(400),
    pytest.mark.xdist_group("union and kills"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
COUNT = 200
CLIENTS = (Client.CONFLUENT, Client.JAVA, Client.FRANZ)
Clusters = tuple[KafkaCluster, KafkaCluster]


@pytest.fixture(scope="module")
def mesh(kafka_pair: Clusters, tmp_path_factory: pytest.TempPathFactory) -> Iterator[UnionMesh]:
    mesh = UnionMesh(tmp_path_factory.mktemp("union"), *kafka_pair, name="killed")
    yield mesh
    mesh.kill()


class Scene:
    """A group of two members over a topic of each cluster."""

    def __init__(
        self,
        clusters: Clusters,
        mesh: UnionMesh,
        client: Client,
        protocol: Protocol,
        folder: Path,
        *,
        name: str = "killed",
        seconds_per_record: float = 0.0,
    ) -> None:
        self._clusters, self._folder, self._client = clusters, folder, client
        self.topic = f"group-{name}-{client.value}-{protocol}"
        for cluster in clusters:
            cluster.create_topic(self.topic, 2)
        self._script = Script(
            bootstrap_servers=mesh.bootstrap_servers,
            client_id="member",
            group=self.topic,
            topic=f"{self.topic},us.{self.topic}",
            commit="sync" if client is Client.JAVA else "auto",
            protocol=protocol,
            seconds_per_record=seconds_per_record,
        )
        self.members: list[Member] = []
        self._stored: dict[str, Stored] = {}
        self._fed = 0

    def join(self, name: str) -> Member:
        (member,) = members(self._client, self._script, self._folder, [name])
        self.members.append(member)
        return member

    def feed(self, *clusters: KafkaCluster, count: int = COUNT) -> None:
        """So many more are stored in each."""
        self._fed += 1
        for cluster in clusters:
            name = f"{cluster.name}-{self._fed}"
            feed = Feed(bootstrap_servers=cluster.bootstrap_servers, client_id=name, topic=self.topic, count=count)
            produced(Client.CONFLUENT, feed, self._folder)
            self._stored |= {each.record.id: each for each in stored_upstream(cluster, self.topic)}

    def fed(self, *clusters: KafkaCluster, count: int = COUNT) -> None:
        """The same, and then shown."""
        self.feed(*clusters, count=count)
        eventually("all is shown", lambda: shown(self.members) >= self._stored.keys(), timeout=120)

    def has_committed(self, *clusters: KafkaCluster) -> None:
        """All that is stored in each."""
        for cluster in clusters:
            eventually(
                f"all is committed at {cluster.name}",
                lambda cluster=cluster: committed(cluster, self._script) == log_ends(cluster, self.topic),  # type: ignore[misc]
            )

    def is_whole(self) -> None:
        deliveries = [each for member in self.members for each in member.deliveries]
        account(self._stored, deliveries).assert_nothing_lost_or_altered()


@pytest.mark.parametrize("protocol", get_args(Protocol))
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.value)
def test_members_the_mesh_and_clusters_die(
    kafka_pair: Clusters, mesh: UnionMesh, client: Client, protocol: Protocol, tmp_path: Path
) -> None:
    """While us is dead, members go on with what eu has, also after they have shared it anew."""
    eu, us = kafka_pair
    scene = Scene(kafka_pair, mesh, client, protocol, tmp_path)
    try:
        first, second = scene.join("first"), scene.join("second")
        scene.fed(eu, us)
        second.kill()
        scene.fed(eu, us)
        mesh.kill()
        mesh.restart()
        scene.fed(eu, us)
        scene.has_committed(eu, us)  # else who commits at once waits for us
        us.kill()
        scene.join("third")
        scene.fed(eu)
        us.restart()
        scene.fed(us)
        scene.has_committed(eu, us)
        eu.kill()
        if protocol == "consumer":  # a member of a classic group may have lost its session, by its own clock
            scene.fed(us)
        eu.restart()
        scene.fed(eu, us)
        first.assert_running()
        scene.is_whole()
    finally:
        for member in scene.members:
            member.kill()


@pytest.mark.parametrize("protocol", get_args(Protocol))
def test_who_waits_for_a_commit_is_told_and_goes_on(
    kafka_pair: Clusters, mesh: UnionMesh, protocol: Protocol, tmp_path: Path
) -> None:
    """Java's commitSync, of records that were read of a cluster which is dead since: it fails after a minute, the
    member goes on with the other cluster, and the commit that it repeats is stored when the cluster is back."""
    eu, us = kafka_pair
    scene = Scene(kafka_pair, mesh, Client.JAVA, protocol, tmp_path, name="waits", seconds_per_record=0.1)
    try:
        member = scene.join("first")
        member.until_assigned()
        scene.fed(us, count=10)
        scene.has_committed(us)
        scene.feed(us, count=50)
        member.until_delivered(15)  # it has not committed them yet
        us.kill()
        eventually("its commit fails", lambda: member.events["commit failed"], timeout=100)
        scene.feed(eu, count=10)
        of_eu = {each.record.id for each in stored_upstream(eu, scene.topic)}
        eventually("what eu has is shown", lambda: shown(scene.members) >= of_eu, timeout=150)
        us.restart()
        scene.fed(us, count=10)
        scene.has_committed(eu, us)
        member.assert_running()
        scene.is_whole()
    finally:
        for each in scene.members:
            each.kill()
