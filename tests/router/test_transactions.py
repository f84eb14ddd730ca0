"""Transactions of Kafka's own producer through a union, in the protocol that the features of its clusters allow
(KIP-890): with transaction.version 2 a Produce adds its partitions to the transaction itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.transactions import Transaction, outcomes
from tests.integration.feeding import stored_upstream
from tests.integration.jars import missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import eventually
from tests.router.union_mesh import UnionMesh

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.xdist_group("union"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
FEATURES = "org.apache.kafka.tools.FeatureCommand"


def level(cluster: KafkaCluster, servers: str) -> str:
    """The finalized level of transaction.version at these servers, from Kafka's tool."""
    said = cluster.run_tool(FEATURES, "--bootstrap-server", servers, "describe")
    (line,) = (each for each in said.splitlines() if "transaction.version" in each)
    return line.partition("FinalizedVersionLevel: ")[2].split()[0]


def values(cluster: KafkaCluster, topic: str) -> list[str]:
    """The values of committed records, in their order."""
    stored = sorted(stored_upstream(cluster, topic), key=lambda each: each.offset)
    return [(each.record.value or b"").decode() for each in stored]


def asked(mesh: UnionMesh, api: str) -> float:
    """The number of requests of an API that went to us."""
    found = mesh.samples("kafka_mesh_route_requests_total")
    return sum(value for labels, value in found if (labels["route"], labels["api"]) == ("us", api))


def test_what_holds_in_both_clusters_is_told(kafka_pair: tuple[KafkaCluster, KafkaCluster], union: UnionMesh) -> None:
    eu = kafka_pair[0]
    said = eu.run_tool(FEATURES, "--bootstrap-server", union.bootstrap_servers, "describe")
    finalized = {line.split()[1]: line.partition("FinalizedVersionLevel: ")[2].split()[0] for line in said.splitlines()}
    direct = eu.run_tool(FEATURES, "--bootstrap-server", eu.bootstrap_servers, "describe")
    assert finalized == {
        line.split()[1]: line.partition("FinalizedVersionLevel: ")[2].split()[0] for line in direct.splitlines()
    }, "both clusters are alike"
    assert finalized["transaction.version"] == "2"


@pytest.mark.smoke
def test_a_transaction_stays_in_its_home(
    kafka_pair: tuple[KafkaCluster, KafkaCluster], union: UnionMesh, tmp_path: Path
) -> None:
    eu, us = kafka_pair
    for cluster, topic in ((us, "written"), (us, "read"), (eu, "foreign")):
        cluster.create_topic(topic, 1)
    before = asked(union, "ADD_PARTITIONS_TO_TXN")
    said = outcomes(
        union.bootstrap_servers,
        "us.copier",
        [
            Transaction("first", ("us.written",), "us.readers", "us.read", 1),
            Transaction("dropped", ("us.written",), "us.readers", "us.read", 2, commit=False),
            Transaction("abroad", ("us.written", "foreign")),
            Transaction("second", ("us.written",)),
            Transaction("group abroad", ("us.written",), "readers", "us.read", 3),
            Transaction("third", ("us.written",), "us.readers", "us.read", 4),
        ],
        tmp_path,
    )
    assert said == [
        "committed",
        "aborted",
        "TransactionAbortableException",
        "committed",
        "TransactionAbortableException",
        "committed",
    ]
    assert values(us, "written") == ["first", "second", "third"]
    assert values(eu, "foreign") == []
    eventually("the offset is committed", lambda: us.committed("us.readers") == {("read", 0): 4})
    assert eu.committed("readers") == {}
    assert asked(union, "ADD_PARTITIONS_TO_TXN") == before, "they were added by what was produced"
    assert asked(union, "END_TXN") > 0


def test_a_cluster_that_is_set_back_sets_the_union_back(
    kafka_pair: tuple[KafkaCluster, KafkaCluster], union: UnionMesh, tmp_path: Path
) -> None:
    eu, us = kafka_pair
    us.create_topic("set-back", 1)
    downgrade = ("downgrade", "--feature", "transaction.version=1")
    eu.run_tool(FEATURES, "--bootstrap-server", eu.bootstrap_servers, *downgrade)
    try:
        eventually("the union is set back", lambda: level(eu, union.bootstrap_servers) == "1", timeout=90)
        said = outcomes(union.bootstrap_servers, "us.set-back", [Transaction("one", ("us.set-back",))], tmp_path)
        assert said == ["committed"]
        assert asked(union, "ADD_PARTITIONS_TO_TXN") > 0
    finally:
        eu.run_tool(
            FEATURES, "--bootstrap-server", eu.bootstrap_servers, "upgrade", "--feature", "transaction.version=2"
        )
    assert values(us, "set-back") == ["one"]
    eventually("all are as they were", lambda: level(eu, union.bootstrap_servers) == "2", timeout=90)
