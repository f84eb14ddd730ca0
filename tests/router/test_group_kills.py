"""Groups over two clusters, while a member, the mesh and either cluster die with kill -9: no record is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

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
    pytest.mark.timeout(700),
    pytest.mark.xdist_group("groups of unions and kills"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
COUNT = 200
QUICK: tuple[tuple[Client, Protocol], ...] = (
    (Client.CONFLUENT, "classic"),
    (Client.FRANZ, "consumer"),
)
FURTHER: tuple[tuple[Client, Protocol], ...] = (
    (Client.JAVA, "consumer"),
    (Client.CONFLUENT, "consumer"),
    (Client.JAVA, "classic"),
    (Client.FRANZ, "classic"),
)
DEEP = pytest.mark.deep
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
        """Writes so many more records to each topic."""
        self._fed += 1
        for cluster in clusters:
            name = f"{cluster.name}-{self._fed}"
            feed = Feed(bootstrap_servers=cluster.bootstrap_servers, client_id=name, topic=self.topic, count=count)
            produced(Client.CONFLUENT, feed, self._folder)
            self._stored |= {each.record.id: each for each in stored_upstream(cluster, self.topic)}

    def fed(self, *clusters: KafkaCluster, count: int = COUNT, timeout: float = 120) -> None:
        """The same; returns when the members have shown them."""
        self.feed(*clusters, count=count)
        eventually("all is shown", lambda: shown(self.members) >= self._stored.keys(), timeout=timeout)

    def has_committed(self, *clusters: KafkaCluster) -> None:
        """Waits until all stored records of each topic are committed."""
        for cluster in clusters:
            eventually(
                f"all is committed at {cluster.name}",
                lambda cluster=cluster: committed(cluster, self._script) == log_ends(cluster, self.topic),  # type: ignore[misc]
            )

    def is_whole(self) -> None:
        deliveries = [each for member in self.members for each in member.deliveries]
        account(self._stored, deliveries).assert_nothing_lost_or_altered()


@pytest.mark.parametrize(
    ("client", "protocol"),
    [*QUICK, *(pytest.param(*each, marks=DEEP) for each in FURTHER)],
    ids=lambda value: value.value if isinstance(value, Client) else value,
)
def test_members_the_mesh_and_clusters_die(
    kafka_pair: Clusters, mesh: UnionMesh, client: Client, protocol: Protocol, tmp_path: Path
) -> None:
    """While us is dead, members go on with the records of eu, even after a rebalance."""
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
        scene.has_committed(eu, us)  # otherwise a member that commits at once waits for `us`
        us.kill()
        scene.join("third")
        scene.fed(eu)
        us.restart()
        scene.fed(us)
        scene.has_committed(eu, us)
        eu.kill()
        if protocol == "consumer":  # a member of a classic group may have lost its session by its own clock
            # Java's commitSync waits a minute for the dead home, after each poll.
            scene.fed(us, timeout=300)
        eu.restart()
        scene.fed(eu, us)
        first.assert_running()
        scene.is_whole()
    finally:
        for member in scene.members:
            member.kill()


@pytest.mark.parametrize("protocol", ["consumer", pytest.param("classic", marks=DEEP)])
def test_a_member_that_waits_for_a_commit_is_told_and_goes_on(
    kafka_pair: Clusters, mesh: UnionMesh, protocol: Protocol, tmp_path: Path
) -> None:
    """Java's commitSync for records of a cluster that has died since: it fails after a minute, the member goes on with
    the other cluster, and the repeated commit is stored when the cluster is back."""
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
