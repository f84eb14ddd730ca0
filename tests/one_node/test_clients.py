"""Real clients at one address for all brokers: the cluster stores their records once and in order, they consume the
stored records at their true offsets, and the cluster has their commits."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.bench import Client
from tests.clients.producing import Feed
from tests.clients.selection import clients
from tests.integration.feeding import log_ends, stored_upstream
from tests.integration.jars import missing_programs
from tests.integration.processes import eventually
from tests.integration.records import account
from tests.integration.relay_mesh import RelayMesh
from tests.relay.cluster import SeveralBrokers
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

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.xdist_group("one node"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]


CLIENTS = (Client.FRANZ, Client.JAVA, Client.SARAMA)
"""One client for each way to use connections; the tests in which brokers die have those of librdkafka."""


@pytest.mark.parametrize("client", clients(quick=True, often=CLIENTS))
def test_produced_and_consumed(cluster: SeveralBrokers, mesh: RelayMesh, client: Client, tmp_path: Path) -> None:
    topic, address = created(cluster, f"one-{client.value}"), mesh.bootstrap_servers
    producer = client if client in PRODUCERS else Client.CONFLUENT
    feed = Feed(bootstrap_servers=address, client_id="producer", topic=topic, count=COUNT)
    acknowledged = produced(producer, feed, tmp_path)
    stored = list(stored_upstream(cluster, topic))
    assert sorted(map(number_of, stored)) == sorted(acknowledged) == list(range(COUNT))
    for each in stored:
        assert acknowledged[number_of(each)] in {(each.partition, each.offset), (-1, -1)}
    script = member_of(address, topic, client)
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
