"""One topic of two clusters: real clients write it and read it, keys keep their order, and every partition keeps its
number through faults of the clusters and of the mesh."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.clients.bench import Client
from tests.clients.producing import Feed
from tests.clients.script import Script
from tests.clients.selection import OFTEN, clients
from tests.clients.transactions import Transaction, outcomes
from tests.integration.feeding import stored_upstream
from tests.integration.jars import missing_programs
from tests.integration.kafka import CLIENT_PROPERTIES, KafkaCluster
from tests.integration.members import Member
from tests.integration.processes import eventually
from tests.integration.records import Stored
from tests.relay.matrix import committed, member_of, produced, started
from tests.relay.tools import JavaTools
from tests.router.test_share_groups import Member as ShareMember
from tests.router.test_share_groups import until_delivered
from tests.router.union_mesh import UnionMesh

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.xdist_group("union"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
Clusters = tuple[KafkaCluster, KafkaCluster]

COUNT = 400
OF_EU, OF_US = 2, 3
"""The widths of the parts."""
WIDTH = OF_EU + OF_US
PRODUCES = {client: client if client is not Client.KCAT else Client.CONFLUENT for client in Client}
NAMES = [
    *(f"joined-{client.name.lower()}" for client in Client),
    *(f"consumers-{client.name.lower()}" for client in OFTEN),
    *("joined-tools", "joined-killed", "joined-grown", "joined-shares", "joined-transactions", "joined-made"),
]


def joined(name: str) -> dict[str, Any]:
    """The topic of us has another name there."""
    parts = [{"route": "eu", "width": OF_EU}, {"route": "us", "topic": f"{name}-west", "width": OF_US}]
    return {"name": name, "parts": parts}


CONFIG: Mapping[str, Any] = {
    "topics": [{"prefix": "us.", "route": "us", "strip": True}, {"prefix": "", "route": "eu"}],
    "concatenated": [joined(name) for name in NAMES],
    "groups": [{"pattern": "us.*", "route": "us"}],
    "transactional_ids": [{"pattern": "us.*", "route": "us"}],
    "default": "eu",
}


@pytest.fixture(scope="module")
def mesh(kafka_pair: Clusters, tmp_path_factory: pytest.TempPathFactory) -> Iterator[UnionMesh]:
    mesh = UnionMesh(tmp_path_factory.mktemp("joined"), *kafka_pair, CONFIG, name="joined")
    yield mesh
    mesh.kill()


def created(kafka_pair: Clusters, name: str) -> str:
    eu, us = kafka_pair
    eu.create_topic(name, OF_EU)
    us.create_topic(f"{name}-west", OF_US)
    return name


def stored(kafka_pair: Clusters, name: str) -> list[Stored]:
    """The records of both clusters, with the partitions that clients see."""
    eu, us = kafka_pair
    of_us = stored_upstream(us, f"{name}-west")
    return [*stored_upstream(eu, name), *(replace(each, partition=OF_EU + each.partition) for each in of_us)]


def ends(kafka_pair: Clusters, name: str) -> dict[int, int]:
    """The offset behind the last record of each partition with records."""
    found: dict[int, int] = {}
    for each in stored(kafka_pair, name):
        found[each.partition] = max(found.get(each.partition, 0), each.offset + 1)
    return found


def stored_offsets(kafka_pair: Clusters, script: Script) -> dict[int, int]:
    """The offsets that a group has committed at both clusters, by the partitions that clients see."""
    eu, us = kafka_pair
    of_us = {OF_EU + partition: offset for partition, offset in committed(us, script).items()}
    return committed(eu, script) | of_us


def members(client: Client, script: Script, folder: Path, *names: str) -> list[Member]:
    made = []
    for name in names:
        place = folder / name
        place.mkdir()
        made.append(started(client, script, place))
    return made


def check_written_and_read(kafka_pair: Clusters, client: Client, topic: str, script: Script, folder: Path) -> None:
    """Writes records with keys to all partitions; two members of a group read them."""
    created(kafka_pair, topic)
    feed = Feed(bootstrap_servers=script.bootstrap_servers, client_id="feed", topic=topic, count=COUNT)
    acknowledged = produced(PRODUCES[client], feed, folder)
    assert acknowledged.keys() == set(range(COUNT))
    kept = {each.record.id: each for each in stored(kafka_pair, topic)}
    assert len(kept) == COUNT
    assert {each.partition for each in kept.values()} == set(range(WIDTH)), "keys go to all partitions of both clusters"
    for number, (partition, offset) in acknowledged.items():
        if partition >= 0:
            at = kept[f"feed-{number}"]
            assert (partition, offset) in ((at.partition, at.offset), (at.partition, -1))
    check_keys(kept)
    made = members(client, script, folder, "a", "b")
    try:
        eventually("all is shown", lambda: {e.id for each in made for e in each.deliveries} == kept.keys(), timeout=60)
        for each in (each for member in made for each in member.deliveries):
            assert (each.partition, each.offset) == (kept[each.id].partition, kept[each.id].offset)
        expected = ends(kafka_pair, topic)
        eventually("all is committed where it is", lambda: stored_offsets(kafka_pair, script) == expected, timeout=60)
        for member in made:
            member.until_assigned()  # the other one may have shown all before it began
            member.assert_running()
            member.close()
    finally:
        for member in made:
            member.kill()


def check_keys(kept: Mapping[str, Stored]) -> None:
    """Checks that each key is in one partition, in the order in which it was written."""
    of_keys: dict[bytes | None, list[Stored]] = {}
    for number in range(len(kept)):
        each = kept[f"feed-{number}"]
        of_keys.setdefault(each.record.key, []).append(each)
    for of_key in of_keys.values():
        assert len({each.partition for each in of_key}) == 1
        assert [each.offset for each in of_key] == sorted(each.offset for each in of_key)


@pytest.mark.parametrize("client", clients(quick=True, often=OFTEN))
def test_clients_write_it_and_read_it_in_groups(
    kafka_pair: Clusters, mesh: UnionMesh, client: Client, tmp_path: Path
) -> None:
    topic = f"joined-{client.name.lower()}"
    script = member_of(mesh.bootstrap_servers, topic, client)
    check_written_and_read(kafka_pair, client, topic, script, tmp_path)


@pytest.mark.parametrize("client", clients(OFTEN, often=[Client.JAVA]))
def test_groups_of_the_consumer_protocol_read_it(
    kafka_pair: Clusters, mesh: UnionMesh, client: Client, tmp_path: Path
) -> None:
    topic = f"consumers-{client.name.lower()}"
    script = replace(member_of(mesh.bootstrap_servers, topic, client), protocol="consumer")
    check_written_and_read(kafka_pair, client, topic, script, tmp_path)


@pytest.mark.long
def test_a_share_group_reads_it(kafka_pair: Clusters, mesh: UnionMesh, tmp_path: Path) -> None:
    topic = created(kafka_pair, "joined-shares")
    address = ("--bootstrap-server", mesh.bootstrap_servers)
    change = ("--alter", "--group", topic, "--add-config", "share.auto.offset.reset=earliest")
    kafka_pair[0].run_tool("kafka.admin.ConfigCommand", *address, *change)
    feed = Feed(bootstrap_servers=mesh.bootstrap_servers, client_id="feed", topic=topic, count=COUNT)
    produced(Client.CONFLUENT, feed, tmp_path)
    kept = {each.record.id: each for each in stored(kafka_pair, topic)}
    member = ShareMember(mesh.bootstrap_servers, topic, [topic])
    until_delivered([member], [member], kept)
    assert set(member.seen.values()) == {1}
    member.close()
    tools = JavaTools(tmp_path / "tools.log")
    arguments = (*address, "--describe", "--group", topic, "--offsets")

    def described() -> list[list[str]]:
        _, output = tools.run("consumer.group.ShareGroupCommand", *arguments)
        return [line.split() for line in output.splitlines() if line.startswith(topic)]

    eventually("all is acknowledged", lambda: {each[-1] for each in described()} == {"0"}, timeout=60, interval=0.5)
    assert sorted(int(each[2]) for each in described()) == [*range(WIDTH)]
    tools.close()


@pytest.mark.long
@pytest.mark.deep
def test_a_transaction_stays_in_its_home(kafka_pair: Clusters, mesh: UnionMesh, tmp_path: Path) -> None:
    """A producer whose home is the other cluster is refused before any of its records is written."""
    topic = created(kafka_pair, "joined-transactions")
    (refused,) = outcomes(mesh.bootstrap_servers, "us.joined", [Transaction("one", (topic,))], tmp_path)
    assert refused == "TransactionAbortableException"
    assert outcomes(mesh.bootstrap_servers, "joined", [Transaction("other", (topic,))], tmp_path) == ["committed"]
    assert [(each.partition, each.record.value) for each in stored(kafka_pair, topic)] == [(0, b"other")]


def partitions(mesh: UnionMesh, topic: str) -> dict[int, int]:
    """Leaders by partition, as clients see them."""
    admin = AdminClient({**CLIENT_PROPERTIES, "bootstrap.servers": mesh.bootstrap_servers})
    told = admin.list_topics(topic, timeout=20).topics[topic]
    return {id: each.leader for id, each in told.partitions.items()}


def records(mesh: UnionMesh, topic: str, partition: int) -> list[bytes]:
    """The contents of the first records of a partition."""
    consumer = Consumer({**CLIENT_PROPERTIES, "bootstrap.servers": mesh.bootstrap_servers, "group.id": "reader"})
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    found = [message.value() or b"" for message in consumer.consume(2, timeout=20)]
    consumer.close()
    return found


@pytest.mark.long
@pytest.mark.timeout(300)
def test_numbers_stay_while_a_cluster_and_the_mesh_die(kafka_pair: Clusters, mesh: UnionMesh, tmp_path: Path) -> None:
    _, us = kafka_pair
    topic = created(kafka_pair, "joined-killed")
    script = replace(member_of(mesh.bootstrap_servers, topic, Client.JAVA), commit="async")
    (member,) = members(Client.JAVA, script, tmp_path, "member")

    def feed(name: str, client: Client) -> dict[int, tuple[int, int]]:
        (tmp_path / name).mkdir()
        one = Feed(bootstrap_servers=mesh.bootstrap_servers, client_id=name, topic=topic, count=COUNT)
        return produced(client, one, tmp_path / name)

    try:
        feed("before", Client.CONFLUENT)
        before = partitions(mesh, topic)
        assert sorted(before) == [*range(WIDTH)]
        us.kill()
        eventually("us is missed", lambda: [*partitions(mesh, topic).values()] == [1, 1, -1, -1, -1], interval=0.2)
        mesh.kill()
        mesh.restart()
        assert [*partitions(mesh, topic).values()] == [1, 1, -1, -1, -1], "known by the configuration alone"
        us.restart()
        eventually("us is back", lambda: partitions(mesh, topic) == before, interval=0.2, timeout=60)
        feed("after", Client.CONFLUENT)
        kept = {each.record.id: each for each in stored(kafka_pair, topic)}
        assert len(kept) == 2 * COUNT
        eventually("all is shown", lambda: {each.id for each in member.deliveries} == kept.keys(), timeout=60)
        for each in member.deliveries:
            assert (each.partition, each.offset) == (kept[each.id].partition, kept[each.id].offset)
        member.close()
    finally:
        member.kill()


@pytest.mark.long
def test_a_part_that_grows_changes_nothing(kafka_pair: Clusters, mesh: UnionMesh, tmp_path: Path) -> None:
    eu, _ = kafka_pair
    topic = created(kafka_pair, "joined-grown")
    before = partitions(mesh, topic)
    feed = Feed(bootstrap_servers=mesh.bootstrap_servers, client_id="feed", topic=topic, count=COUNT)
    produced(Client.CONFLUENT, feed, tmp_path)
    first_of_us = records(mesh, topic, OF_EU)
    eu.grow_topic(topic, OF_EU + 2)

    def troubles() -> list[tuple[str, str]]:
        partitions(mesh, topic)
        found = mesh.readiness()["degraded"]
        return [(each["topic"], each["reason"]) for each in found if each["problem"] == "topic_width"]

    reason = f"topic {topic} has {OF_EU + 2} partitions, {OF_EU} are declared: clients see no others"
    eventually("it is told", lambda: (topic, reason) in troubles(), interval=0.2)
    assert partitions(mesh, topic) == before
    assert records(mesh, topic, OF_EU) == first_of_us


@pytest.mark.long
def test_kafka_tools(kafka_pair: Clusters, mesh: UnionMesh, tmp_path: Path) -> None:
    topic = created(kafka_pair, "joined-tools")
    feed = Feed(bootstrap_servers=mesh.bootstrap_servers, client_id="feed", topic=topic, count=COUNT)
    produced(Client.CONFLUENT, feed, tmp_path)
    tools = JavaTools(tmp_path / "tools.log")
    address = ("--bootstrap-server", mesh.bootstrap_servers)
    group = "consumer.group.ConsumerGroupCommand"

    def run(tool: str, *arguments: str, code: int = 0) -> str:
        found, output = tools.run(tool, *address, *arguments)
        assert found == code, output
        return output

    try:
        described = run("TopicCommand", "--describe", "--topic", topic)
        assert f"PartitionCount: {WIDTH}" in described
        assert [line.split("Partition: ")[1].split()[0] for line in described.splitlines()[1:] if line] == [*"01234"]
        expected = ends(kafka_pair, topic)
        told = run("GetOffsetShell", "--topic", topic).split()
        assert told == [f"{topic}:{partition}:{expected.get(partition, 0)}" for partition in range(WIDTH)]
        run(group, "--reset-offsets", "--group", topic, "--topic", topic, "--to-latest", "--execute")
        script = member_of("", topic, Client.JAVA)
        assert stored_offsets(kafka_pair, replace(script, group=topic)) == expected
        run(group, "--reset-offsets", "--group", topic, "--topic", f"{topic}:1,3", "--to-offset", "1", "--execute")
        lines = [line.split() for line in run(group, "--describe", "--group", topic).splitlines() if topic in line]
        offsets = {int(line[2]): int(line[3]) for line in lines if line[0] == topic}
        assert offsets == expected | {1: 1, 3: 1}
        run(group, "--delete-offsets", "--group", topic, "--topic", f"{topic}:4")
        assert stored_offsets(kafka_pair, replace(script, group=topic)).keys() == {0, 1, 2, 3}
        assert "as many partitions as the configuration" in run(
            "TopicCommand", "--alter", "--topic", topic, "--partitions", "9", code=1
        )
    finally:
        tools.close()


@pytest.mark.long
def test_it_is_made_configured_and_deleted_with_all_its_parts(
    kafka_pair: Clusters, mesh: UnionMesh, tmp_path: Path
) -> None:
    eu, us = kafka_pair
    topic = "joined-made"
    tools = JavaTools(tmp_path / "tools.log")
    address = ("--bootstrap-server", mesh.bootstrap_servers, "--topic", topic)
    try:
        code, output = tools.run("TopicCommand", *address, "--create", "--partitions", str(WIDTH + 1))
        assert code == 1
        assert f"with {WIDTH} partitions by the configuration" in output
        code, output = tools.run("TopicCommand", *address, "--create", "--partitions", str(WIDTH))
        assert code == 0, output
        assert [*partitions(mesh, topic).values()] == [1, 1, 1 << 20 | 1, 1 << 20 | 1, 1 << 20 | 1]
        for cluster, name, width in ((eu, topic, OF_EU), (us, f"{topic}-west", OF_US)):
            admin = AdminClient({**CLIENT_PROPERTIES, "bootstrap.servers": cluster.bootstrap_servers})
            assert len(admin.list_topics(name, timeout=20).topics[name].partitions) == width
        code, output = tools.run("TopicCommand", *address, "--delete")
        assert code == 0, output
        for cluster, name in ((eu, topic), (us, f"{topic}-west")):
            admin = AdminClient({**CLIENT_PROPERTIES, "bootstrap.servers": cluster.bootstrap_servers})
            eventually("it is gone", lambda: name not in admin.list_topics(timeout=20).topics)  # noqa: B023
    finally:
        tools.close()
