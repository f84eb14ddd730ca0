"""Real clients through a front: the cluster stores their records once and in order, they consume the stored records at
their true offsets, and the cluster has their commits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.bench import Client
from tests.clients.producing import Feed
from tests.clients.selection import OFTEN, clients
from tests.integration.feeding import log_ends, stored_upstream
from tests.integration.jars import missing_programs
from tests.integration.processes import eventually
from tests.integration.records import account
from tests.relay.cluster import NODES, SeveralBrokers
from tests.relay.front import Front, relayed
from tests.relay.matrix import (
    COUNT,
    PRODUCERS,
    committed,
    created,
    in_partitions,
    member_of,
    number_of,
    ordered,
    produced,
    started,
)

pytestmark = [pytest.mark.kafka, pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}")]


@pytest.fixture(scope="module")
def front(cluster: SeveralBrokers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with relayed(cluster, tmp_path_factory.mktemp("relay")) as front:
        yield front


@pytest.fixture
def topic(cluster: SeveralBrokers, request: pytest.FixtureRequest) -> str:
    """One partition for each node to lead; every node has a replica."""
    return created(cluster, request.node.name)


@pytest.mark.parametrize("client", clients(PRODUCERS, quick=True, often=OFTEN))
def test_produced(cluster: SeveralBrokers, front: Front, topic: str, client: Client, tmp_path: Path) -> None:
    feed = Feed(bootstrap_servers=str(front.bootstrap), client_id="producer", topic=topic, count=COUNT)
    acknowledged = produced(client, feed, tmp_path)
    assert sorted(acknowledged) == list(range(COUNT))
    stored = list(stored_upstream(cluster, topic))
    numbers = [number_of(each) for each in stored]
    assert sorted(numbers) == list(range(COUNT))
    for each in stored:
        said = acknowledged[number_of(each)]
        assert said in {(each.partition, each.offset), (-1, -1)}
        assert each.record.key == feed.key(number_of(each))
    by_key = defaultdict(list)
    for each in sorted(stored, key=lambda each: (each.partition, each.offset)):
        by_key[each.record.key].append((each.partition, number_of(each)))
    for places in by_key.values():
        assert len({partition for partition, _ in places}) == 1
        assert places == sorted(places), "the order in which they were sent"
    assert len({each.partition for each in stored}) == len(NODES), "else too few keys for the question"


@pytest.mark.parametrize("client", clients(quick=True, often=OFTEN))
def test_consumed(cluster: SeveralBrokers, front: Front, topic: str, client: Client, tmp_path: Path) -> None:
    direct = Feed(bootstrap_servers=cluster.every_address, client_id="direct", topic=topic, count=COUNT)
    produced(Client.CONFLUENT, direct, tmp_path)
    stored = list(stored_upstream(cluster, topic))
    script = member_of(str(front.bootstrap), topic, client)
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
