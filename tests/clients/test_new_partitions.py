"""A topic gets more partitions: every client finds them within seconds, however old it lets its metadata become."""

from __future__ import annotations

import time

import pytest

from tests.clients.bench import Client, ClientBench
from tests.clients.selection import OFTEN, clients
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import eventually

pytestmark = pytest.mark.long
NEW = range(3, 6)
# The others do the same, according to their sources: docs/decisions/0024-new-partitions-are-seen-at-once.md.
FINDING_NEW_PARTITIONS = (Client.AIOKAFKA, Client.KAFKA_PYTHON, Client.CONFLUENT)


@pytest.mark.parametrize("client", clients(FINDING_NEW_PARTITIONS, often=OFTEN))
def test_new_partitions_are_found(bench: ClientBench, client: Client) -> None:
    bench.start_mesh()
    member = bench.joined(client, "only", commit="sync")
    bench.feed(300)
    bench.account_when_all_arrived().assert_each_once()
    cluster = bench.clusters[1]
    cluster.grow_topic(bench.topic, 6)
    began = time.monotonic()

    def are_consumed() -> bool:
        bench.feed(60)  # the producer finds them later, too
        return consumed(cluster, bench.group, bench.topic) >= set(NEW)

    eventually("the new partitions are consumed", are_consumed, timeout=60)
    print(f"MEASURED | {client.value} | new partitions found after | {time.monotonic() - began:.1f} s", flush=True)
    bench.account_when_all_arrived(timeout=30).assert_nothing_lost_or_altered()
    assert not member.events["error"], member.events


def consumed(cluster: KafkaCluster, group: str, topic: str) -> set[int]:
    """The partitions in which the group has committed an offset above the beginning."""
    committed = cluster.committed(group)
    return {number for (name, number), offset in committed.items() if name == topic and offset > 0}
