"""Real clients through a front: what they produce is stored once and in order, what they consume is what is stored, at
its true offsets, and what they commit the cluster has."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.clients.bench import Client, ScriptedMember, command_of, kcat_arguments, producer_of
from tests.clients.producing import Feed
from tests.clients.script import Script
from tests.clients.selection import clients
from tests.integration.feeding import log_ends, stored_upstream
from tests.integration.jars import missing_programs
from tests.integration.members import KcatMember, Member
from tests.integration.processes import ChildProcess, eventually
from tests.integration.records import Stored, View, account
from tests.relay.cluster import NODES, SeveralBrokers
from tests.relay.front import Front, relayed

pytestmark = [pytest.mark.kafka, pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}")]

COUNT = 500
PRODUCERS = [client for client in Client if client is not Client.KCAT]


@pytest.fixture(scope="module")
def front(cluster: SeveralBrokers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with relayed(cluster, tmp_path_factory.mktemp("relay")) as front:
        yield front


@pytest.fixture
def topic(cluster: SeveralBrokers, request: pytest.FixtureRequest) -> str:
    """A partition for each node to lead; every node has all of it."""
    name = "".join(each if each.isalnum() else "-" for each in request.node.name).strip("-")
    cluster.create_topic(name, len(NODES), places=[[*NODES[at:], *NODES[:at]] for at in range(len(NODES))])
    return name


@pytest.mark.parametrize("client", clients(PRODUCERS, quick=True))
def test_produced(cluster: SeveralBrokers, front: Front, topic: str, client: Client, tmp_path: Path) -> None:
    feed = Feed(bootstrap_servers=str(front.bootstrap), client_id="producer", topic=topic, count=COUNT)
    acknowledged = produced(client, feed, tmp_path)
    assert sorted(acknowledged) == list(range(COUNT))
    stored = list(stored_upstream(cluster, topic))
    numbers = [_number(each) for each in stored]
    assert sorted(numbers) == list(range(COUNT))
    for each in stored:
        said = acknowledged[_number(each)]
        assert said in {(each.partition, each.offset), (-1, -1)}
        assert each.record.key == feed.key(_number(each))
    by_key = defaultdict(list)
    for each in sorted(stored, key=lambda each: (each.partition, each.offset)):
        by_key[each.record.key].append((each.partition, _number(each)))
    for places in by_key.values():
        assert len({partition for partition, _ in places}) == 1
        assert places == sorted(places), "the order in which they were sent"
    assert len({each.partition for each in stored}) == len(NODES), "else too few keys for the question"


@pytest.mark.parametrize("client", clients(quick=True))
def test_consumed(cluster: SeveralBrokers, front: Front, topic: str, client: Client, tmp_path: Path) -> None:
    direct = Feed(bootstrap_servers=cluster.every_address, client_id="direct", topic=topic, count=COUNT)
    produced(Client.CONFLUENT, direct, tmp_path)
    stored = list(stored_upstream(cluster, topic))
    script = Script(
        bootstrap_servers=str(front.bootstrap),
        client_id="member",
        group=f"{topic}-group",
        topic=topic,
        # With one named it waits until it knows the topic: else, leading its group, it may assign nothing for minutes.
        assignor="range" if client is Client.KAFKA_PYTHON else "",
    )
    member = started(client, script, tmp_path)
    try:
        member.until_delivered(COUNT)
        eventually("all is committed", lambda: committed(cluster, script) == log_ends(cluster, topic))
        member.assert_running()
        member.close()
    finally:
        member.kill()
    account({each.record.id: each for each in stored}, member.deliveries).assert_each_once()
    assert ordered(member) == in_partitions(stored)


def produced(client: Client, feed: Feed, folder: Path) -> dict[int, tuple[int, int]]:
    """Partition and offset of what was acknowledged, by number; -1 where the client does not say."""
    output = folder / "producer.out"
    program = ChildProcess([*producer_of(client), feed.to_json()], log=folder / "producer.log", stdout=output)
    code = program.wait(60)
    assert code == 0, f"the producer ended with {code}; its log ends:\n{program.log_tail()}"
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    return {each["number"]: (each["partition"], each["offset"]) for each in lines}


def started(client: Client, script: Script, folder: Path) -> Member:
    """A member of a group."""
    if client is Client.KCAT:
        return KcatMember("member", kcat_arguments(script), folder)
    view = View.WITHOUT_NULL if client is Client.SEGMENTIO else View.WHOLE
    return ScriptedMember("member", [*command_of(client), script.to_json()], folder, view)


def committed(cluster: SeveralBrokers, script: Script) -> dict[int, int]:
    """What the cluster itself says that the group has committed, by partition."""
    assert script.group is not None
    return {partition: offset for (_, partition), offset in cluster.committed(script.group).items()}


def ordered(member: Member) -> dict[int, list[tuple[int, str]]]:
    """Offsets and ids by partition, as they came."""
    found: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for each in member.deliveries:
        found[each.partition].append((each.offset, each.id))
    return found


def in_partitions(stored: Sequence[Stored]) -> dict[int, list[tuple[int, str]]]:
    """The same of what is stored."""
    found: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for each in sorted(stored, key=lambda each: each.offset):
        found[each.partition].append((each.offset, each.record.id))
    return found


def _number(stored: Stored) -> int:
    return int(stored.record.id.rpartition("-")[2])
