"""A consumer comes to a cluster directly while the mesh is in its group there for a moment to keep offsets from
expiring: it gets all records of that cluster, and the operator learns of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from struct import pack
from typing import get_args

import pytest

from mesh.routing.groups.multiplexed import LEAVE
from mesh.runtime.entity_router.groups.offset_keeper import consumer_join_request
from mesh.wire.apis import ApiKey, is_flexible
from mesh.wire.entities import Direction
from mesh.wire.trees import Tree, read_tree, write_tree
from tests.clients.bench import Client
from tests.clients.script import Protocol, Script
from tests.integration.feeding import log_ends
from tests.integration.jars import KAFKA_VERSION, kafka_jars, missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.members import Member
from tests.integration.processes import eventually
from tests.integration.raw import Endpoint, RawConnection
from tests.relay.matrix import committed
from tests.router.test_group_retention import CLASSIC_ONLY, RETENTION
from tests.router.test_groups import PARTITIONS, everything, fed, members, shown
from tests.router.union_mesh import UnionMesh

pytestmark = [
    pytest.mark.long,
    pytest.mark.kafka,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
MOMENT = {"group.initial.rebalance.delay.ms": "4000"}
"""A member that joins an empty group of the classic protocol waits this long, and others can join meanwhile."""


class Scene:
    """A group over two clusters, with a member of the union. It has once consumed the owner directly, so the mesh must
    join it there now and then."""

    def __init__(self, home: KafkaCluster, owner: KafkaCluster, name: str, folder: Path) -> None:
        self.owner, self.name = owner, name
        self._pair, self._folder = (home, owner), folder
        (folder / "union").mkdir()
        self.union = UnionMesh(folder / "union", *self._pair)
        self._direct = Script(bootstrap_servers=owner.bootstrap_servers, client_id="direct", group=name, topic=name)
        self._members: list[Member] = []

    def begin(self) -> None:
        for cluster in self._pair:
            cluster.create_topic(self.name, PARTITIONS)
        fed(self._pair, self.name, self._folder, "one")
        earlier = self.come_directly("classic", "earlier")
        self.has_committed(self.owner)
        earlier.close()
        topics = f"{self.name},us.{self.name}"
        script = replace(self._direct, bootstrap_servers=self.union.bootstrap_servers, client_id="member", topic=topics)
        self._members += members(Client.CONFLUENT, script, self._folder, ["member"])
        self._members[-1].until_assigned()

    def come_directly(self, protocol: Protocol, name: str = "direct") -> Member:
        """Starts a consumer that connects to the owner directly."""
        made = members(Client.CONFLUENT, replace(self._direct, protocol=protocol), self._folder, [name])
        self._members += made
        return made[0]

    def has_its_cluster(self, direct: Member) -> None:
        """New records at the owner come to the direct consumer, too, and all records to the union's member."""
        before = everything(self._pair, self.name).keys()
        fed(self._pair, self.name, self._folder, "more")
        new = everything(self._pair, self.name).keys() - before
        of_owner = {each for each in new if f"-{self.owner.name}-" in each}
        eventually("the direct one has all of its cluster", lambda: shown([direct]) >= of_owner)
        eventually("the union's has everything", lambda: shown(self._members[1:2]) >= new)
        eventually("the problem is told", lambda: self._problems() == ["group_elsewhere"])
        self._members[1].assert_running()

    def end_of(self, direct: Member) -> None:
        """Ends it; then the union's commits for both clusters succeed again."""
        direct.close()
        fed(self._pair, self.name, self._folder, "last")
        eventually("it is over", lambda: not self._problems(), timeout=60)
        for cluster in self._pair:
            self.has_committed(cluster)

    def has_committed(self, cluster: KafkaCluster) -> None:
        ends = log_ends(cluster, self.name)
        eventually("all is committed", lambda: committed(cluster, self._direct) == ends)

    def until_members(self, *client_ids: str) -> None:
        """Waits until these members are in the group at the owner."""

        def are_there() -> bool:
            return client_ids_at(self.owner, self.name) == set(client_ids)

        eventually(f"{client_ids} are in the group", are_there)

    def end(self) -> None:
        for member in self._members:
            member.kill()
        self.union.kill()

    def _problems(self) -> list[str]:
        return [each["problem"] for each in self.union.readiness()["degraded"]]


def client_ids_at(cluster: KafkaCluster, group: str) -> set[str]:
    """The client ids of the group's members there, of either protocol."""
    found = asked(cluster, ApiKey.DESCRIBE_GROUPS, 4, {"groups": [group]})["groups"]
    if cluster.name != CLASSIC_ONLY:
        found += asked(cluster, ApiKey.CONSUMER_GROUP_DESCRIBE, 0, {"group_ids": [group]})["groups"]
    return {member["client_id"] for each in found for member in each["members"]}


def asked(cluster: KafkaCluster, api_key: ApiKey, version: int, request: Tree) -> Tree:
    connection = RawConnection(Endpoint.of(cluster.bootstrap_servers))
    tags = b"\0" if is_flexible(api_key, version) else b""
    header = pack(">hhih", api_key, version, 7, -1) + tags
    answer = connection.ask(header + write_tree(api_key, version, Direction.REQUEST, request))
    connection.close()
    assert answer is not None
    return read_tree(api_key, version, Direction.RESPONSE, answer[4 + len(tags) :])


@pytest.fixture
def scene(kafka: KafkaCluster, tmp_path: Path) -> Iterator[Callable[[str], Scene]]:
    """Makes scenes, whose owner has this version."""
    made: list[Scene] = []

    def begun(version: str) -> Scene:
        owner = KafkaCluster(version, kafka_jars(version), tmp_path / "owner", {**RETENTION, **MOMENT})
        made.append(Scene(kafka, owner, tmp_path.name.replace("_", "-"), tmp_path))
        made[-1].begin()
        return made[-1]

    yield begun
    for each in made:
        each.end()
        each.owner.kill()


def test_it_comes_to_a_group_of_the_classic_protocol(scene: Callable[[str], Scene]) -> None:
    at_work = scene(CLASSIC_ONLY)
    at_work.until_members("kafka-mesh")
    direct = at_work.come_directly("classic")
    at_work.until_members("kafka-mesh", "direct")
    at_work.until_members("direct")
    at_work.has_its_cluster(direct)
    at_work.until_members("direct")
    at_work.end_of(direct)


@pytest.mark.parametrize("protocol", get_args(Protocol))
def test_it_comes_to_a_group_of_the_consumer_protocol(scene: Callable[[str], Scene], protocol: Protocol) -> None:
    """The mesh waits for no members there. So the test is in the group in its place, for as long as the consumer needs
    to join."""
    at_work = scene(KAFKA_VERSION)
    group = at_work.name
    eventually("the mesh has been there", lambda: state_of_consumers(at_work.owner, group) == "Empty")
    at_work.has_committed(at_work.owner)
    keeper = consumer_join_request(group)
    assert asked(at_work.owner, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, keeper)["error_code"] == 0
    direct = at_work.come_directly(protocol)
    at_work.until_members("", "direct")
    at_work.has_its_cluster(direct)
    asked(at_work.owner, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, keeper | {"member_epoch": LEAVE})
    at_work.until_members("direct")
    at_work.end_of(direct)


def state_of_consumers(cluster: KafkaCluster, group: str) -> str:
    """The state of a group of the consumer protocol; "" for any other group."""
    (found,) = asked(cluster, ApiKey.CONSUMER_GROUP_DESCRIBE, 0, {"group_ids": [group]})["groups"]
    return "" if found["error_code"] else str(found["group_state"])
