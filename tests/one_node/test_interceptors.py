"""Interceptors at one address for all brokers: they see records that are produced to each of them, and fetched
records."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.integration.feeding import stored_upstream
from tests.integration.jars import missing_programs
from tests.integration.kafka import CLIENT_PROPERTIES
from tests.integration.processes import eventually
from tests.integration.relay_mesh import RelayMesh
from tests.relay.cluster import NODES, SeveralBrokers

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.xdist_group("one node"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
COUNT = 60
INTERCEPTORS = (
    {
        "name": "who",
        "type": "stamp",
        "topics": ["one-intercepted"],
        "config": {"headers": {"from": "{client_id}"}},
        "on": ["produce"],
    },
    {
        "name": "few",
        "type": "filter",
        "topics": ["one-intercepted"],
        "config": {"header": "kept", "equals": "yes"},
        "on": ["produce"],
    },
    {
        "name": "cards",
        "type": "mask",
        "topics": ["one-intercepted"],
        "config": {"paths": ["card"], "keep_last": 4},
        "on": ["fetch"],
    },
)


@pytest.fixture(scope="module")
def intercepting(cluster: SeveralBrokers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RelayMesh]:
    folder = tmp_path_factory.mktemp("intercepting")
    mesh = RelayMesh(folder, cluster.every_address, listener={"nodes": "one"}, interceptors=INTERCEPTORS)
    yield mesh
    mesh.kill()


@pytest.mark.parametrize("transactional", [False, True])
def test_records_of_all_leaders_are_seen(cluster: SeveralBrokers, intercepting: RelayMesh, transactional: bool) -> None:
    """The interceptors drop half of the produced records, add a header to those that are stored, and mask their
    cards."""
    if not transactional:
        places = [[*NODES[at:], *NODES[:at]] for at in range(len(NODES))]
        cluster.create_topic("one-intercepted", len(NODES), places=places)
    before = len(list(stored_upstream(cluster, "one-intercepted")))
    address = {**CLIENT_PROPERTIES, "bootstrap.servers": intercepting.bootstrap_servers, "client.id": "writer"}
    more = {"transactional.id": "one"} if transactional else {"enable.idempotence": True}
    producer = Producer({**address, **more})
    if transactional:
        producer.init_transactions(60)
        producer.begin_transaction()
    for number in range(COUNT):
        value = b'{"card": "1234567812345678", "number": %d}' % number
        headers: list[tuple[str, str | bytes | None]] = [("kept", b"yes" if number % 2 else b"no")]
        producer.produce("one-intercepted", value, partition=number % len(NODES), headers=headers)
    if transactional:
        producer.commit_transaction(60)
    assert producer.flush(30) == 0
    stored = list(stored_upstream(cluster, "one-intercepted"))[before:]
    assert len(stored) == COUNT // 2
    assert {dict(each.record.headers)["from"] for each in stored} == {b"writer"}
    consumer = Consumer({**address, "group.id": "one-intercepted", "enable.auto.commit": False})
    consumer.assign([TopicPartition("one-intercepted", partition, 0) for partition in range(len(NODES))])
    seen: list[bytes] = []

    def has_all() -> bool:
        seen.extend(each.value() or b"" for each in consumer.consume(100, 0.2) if not each.error())
        return len(seen) >= before + COUNT // 2

    try:
        eventually("all of them", has_all, timeout=60)
    finally:
        consumer.close()
    assert all(b'"****5678"' in each for each in seen)
