"""Fetch sessions, and transactions, at one address: the answers equal those of the broker of a cluster of one."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.integration.jars import missing_programs
from tests.integration.kafka import CLIENT_PROPERTIES
from tests.integration.processes import eventually
from tests.integration.raw import Endpoint, RawConnection
from tests.integration.relay_mesh import RelayMesh
from tests.relay.cluster import NODES, SeveralBrokers, connected
from tests.relay.requests import read, request

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.xdist_group("one node"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
FETCH, VERSION = 1, 12
AT_ONE_BROKER = [[1], [1]]
MANY = 90
"""Partitions; a third of them is enough for a session with their leader."""
OF_ALL = MANY / len(NODES) * 33
"""The size of a leg's request that names all of its partitions."""


def fetch(
    connection: RawConnection,
    id: int,
    epoch: int,
    offsets: dict[int, int] | None = None,
    forgotten: tuple[int, ...] = (),
    topic: str = "one-sessions",
) -> Any:
    parts = [
        {"partition": at, "fetch_offset": each, "partition_max_bytes": 1_000} for at, each in (offsets or {}).items()
    ]
    given = {
        "replica_id": -1,
        "max_wait": 100,
        "min_bytes": 1,
        "max_bytes": 10_000,
        "session_id": id,
        "session_epoch": epoch,
        "topics": [{"topic": topic, "partitions": parts}] if parts else [],
        "forgotten_topics_data": [{"topic": topic, "partitions": list(forgotten)}] if forgotten else [],
    }
    answer = connection.ask(request(FETCH, VERSION, given))
    assert answer is not None
    return read("fetch", VERSION, answer)


def said(answer: Any) -> tuple[int, bool, list[tuple[int, int, int, int]]]:
    """The error, whether there is a session, and for each partition its error, its end and the number of bytes."""
    partitions = [
        (each.partition_index, int(each.error_code), each.high_watermark, len(each.records or b""))
        for topic in answer.responses
        for each in topic.partitions
    ]
    return int(answer.error_code), answer.session_id != 0, partitions


def conversation(endpoint: Endpoint) -> list[Any]:
    """The answers to the requests of one client; the log has one record in each of two partitions."""
    with connected(endpoint) as connection:
        first = fetch(connection, 0, 0, {0: 0, 1: 1})
        id = first.session_id
        return [
            said(first),
            said(fetch(connection, id, 1, {0: 1})),
            said(fetch(connection, id, 3)),
            said(fetch(connection, id, 2, {1: 0})),
            said(fetch(connection, id, 3, {0: 0, 1: 1}, forgotten=(1,))),
            said(fetch(connection, id, 4, {7: 0}, forgotten=(0,))),
            said(fetch(connection, id, 5, {0: 99}, forgotten=(7,))),
            said(fetch(connection, id, 6, forgotten=(0,))),
            said(fetch(connection, id, 7, {0: 0})),
            said(fetch(connection, 0, -1, {0: 0, 1: 0})),
            said(fetch(connection, 0, -1, {0: 0}, topic="one-that-is-not-there")),
        ]


def test_sessions_are_those_of_a_broker(cluster: SeveralBrokers, mesh: RelayMesh) -> None:
    cluster.create_topic("one-sessions", 2, places=AT_ONE_BROKER)
    producer = Producer({**CLIENT_PROPERTIES, "bootstrap.servers": mesh.bootstrap_servers, "acks": 1})
    for partition in (0, 1):
        producer.produce("one-sessions", b"record", partition=partition)
    assert producer.flush(30) == 0
    assert conversation(Endpoint.of(mesh.bootstrap_servers)) == conversation(cluster.addresses[1])


def test_brokers_are_told_what_has_changed(cluster: SeveralBrokers, mesh: RelayMesh) -> None:
    """A Fetch of many partitions has sessions with all of their leaders, too."""
    cluster.create_topic("one-many", MANY, places=[[NODES[at % len(NODES)]] for at in range(MANY)])

    def asked() -> tuple[float, float]:
        """Requests, and their bytes."""
        of = (mesh.metric(f"kafka_mesh_relay_{each}_total", api="FETCH") for each in ("requests", "request_bytes"))
        return next(of), next(of)

    with connected(Endpoint.of(mesh.bootstrap_servers)) as connection:
        everything = dict.fromkeys(range(MANY), 0)

        def is_led() -> bool:
            _, _, partitions = said(fetch(connection, 0, -1, everything, topic="one-many"))
            return len(partitions) == MANY and all((error, end) == (0, 0) for _, error, end, _ in partitions)

        eventually("every broker knows what it leads", is_led)
        first = fetch(connection, 0, 0, everything, topic="one-many")
        producer = Producer({**CLIENT_PROPERTIES, "bootstrap.servers": cluster.every_address, "acks": 1})
        producer.produce("one-many", b"record", partition=7)
        assert producer.flush(30) == 0
        (requests, size), epoch = asked(), 1
        while not (found := said(fetch(connection, first.session_id, epoch))[2]):
            epoch += 1
        assert [(partition, error, end) for partition, error, end, _ in found] == [(7, 0, 1)]
        requests, size = asked()[0] - requests, asked()[1] - size
        assert size / requests < OF_ALL / 4
        fetch(connection, first.session_id, epoch + 1, {7: 1}, forgotten=(8,), topic="one-many")
        assert said(fetch(connection, first.session_id, epoch + 2)) == (0, True, [])


def test_a_transaction_over_all_leaders(cluster: SeveralBrokers, mesh: RelayMesh) -> None:
    """A reader gets no aborted records; offsets are committed with the committed ones."""
    places = [[*NODES[at:], *NODES[:at]] for at in range(len(NODES))]
    cluster.create_topic("one-transactions", len(NODES), places=places)
    address = {**CLIENT_PROPERTIES, "bootstrap.servers": mesh.bootstrap_servers}
    member = Consumer({**address, "group.id": "one-transactions", "enable.auto.commit": False})
    producer = Producer({**address, "transactional.id": "one-transactions"})
    producer.init_transactions(60)
    for value, is_committed in ((b"aborted", False), (b"committed", True)):
        producer.begin_transaction()
        for partition in range(len(NODES)):
            producer.produce("one-transactions", value, partition=partition)
        offsets = [TopicPartition("one-transactions", 0, 2 if is_committed else 1)]
        producer.send_offsets_to_transaction(offsets, member.consumer_group_metadata(), 60)
        assert producer.flush(60) == 0, "an abort takes no delivery reports from the queue of this thread"
        if is_committed:
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)
    member.assign([TopicPartition("one-transactions", partition, 0) for partition in range(len(NODES))])
    try:
        records = member.consume(len(NODES), 60)
        assert sorted((each.partition() or 0, each.value()) for each in records) == [
            (partition, b"committed") for partition in range(len(NODES))
        ]
        assert not member.consume(1, 1), "nothing else is there"
    finally:
        member.close()
    assert cluster.committed("one-transactions") == {("one-transactions", 0): 2}
