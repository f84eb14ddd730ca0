"""Real clients through a union: the owner of a topic stores their records once and in order, they consume these at
their true offsets, and the home of their group has their commits."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from tests.clients.bench import Client
from tests.clients.producing import Feed
from tests.clients.script import Script
from tests.clients.selection import OFTEN, clients
from tests.integration.feeding import log_ends, stored_upstream
from tests.integration.jars import missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import eventually
from tests.integration.records import account
from tests.relay.matrix import committed, in_partitions, number_of, ordered, produced, started
from tests.router.union_mesh import UnionMesh

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.xdist_group("union"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]

COUNT, PARTITIONS = 500, 3
PRODUCERS = [client for client in Client if client is not Client.KCAT]


@pytest.fixture
def topic(kafka_pair: tuple[KafkaCluster, KafkaCluster], request: pytest.FixtureRequest) -> str:
    """A topic of us under this name; clients see it with the prefix `us.`."""
    name = "".join(each if each.isalnum() else "-" for each in request.node.name).strip("-")
    kafka_pair[1].create_topic(name, PARTITIONS)
    return name


@pytest.mark.smoke
@pytest.mark.parametrize("client", clients(PRODUCERS, quick=True, often=OFTEN))
def test_produced(
    kafka_pair: tuple[KafkaCluster, KafkaCluster], union: UnionMesh, topic: str, client: Client, tmp_path: Path
) -> None:
    feed = Feed(bootstrap_servers=union.bootstrap_servers, client_id="producer", topic=f"us.{topic}", count=COUNT)
    acknowledged = produced(client, feed, tmp_path)
    assert sorted(acknowledged) == list(range(COUNT))
    stored = list(stored_upstream(kafka_pair[1], topic))
    assert sorted(map(number_of, stored)) == list(range(COUNT))
    by_key = defaultdict(list)
    for each in sorted(stored, key=lambda each: (each.partition, each.offset)):
        assert acknowledged[number_of(each)] in {(each.partition, each.offset), (-1, -1)}
        by_key[each.record.key].append((each.partition, number_of(each)))
    for places in by_key.values():
        assert len({partition for partition, _ in places}) == 1
        assert places == sorted(places), "the order in which they were sent"


@pytest.mark.smoke
@pytest.mark.parametrize("client", clients(quick=True, often=OFTEN))
def test_consumed(
    kafka_pair: tuple[KafkaCluster, KafkaCluster], union: UnionMesh, topic: str, client: Client, tmp_path: Path
) -> None:
    us = kafka_pair[1]
    direct = Feed(bootstrap_servers=us.bootstrap_servers, client_id="direct", topic=topic, count=COUNT)
    produced(Client.CONFLUENT, direct, tmp_path)
    stored = list(stored_upstream(us, topic))
    script = Script(
        bootstrap_servers=union.bootstrap_servers,
        client_id="member",
        group=f"us.{topic}",
        topic=f"us.{topic}",
        # With a named assignor it waits until it knows the topic; otherwise a leader of its group may assign nothing
        # for minutes.
        assignor="range" if client is Client.KAFKA_PYTHON else "",
    )
    member = started(client, script, tmp_path)
    try:
        member.until_delivered(COUNT)
        eventually("all is committed", lambda: committed(us, script) == log_ends(us, topic))
        member.assert_running()
        member.close()
    finally:
        member.kill()
    account({each.record.id: each for each in stored}, member.deliveries).assert_each_once()
    assert ordered(member) == in_partitions(stored)
