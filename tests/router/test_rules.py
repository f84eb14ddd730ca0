"""Rules of a union use the names that clients see, whichever cluster has a topic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from tests.integration.feeding import stored_upstream
from tests.integration.jars import missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import START, eventually
from tests.router.union_mesh import UnionMesh

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.xdist_group("union"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
PASSWORD = "sesam"
RULES = [
    {"principals": ["User:shop"], "operations": ["write"], "topics": ["ruled", "us.ruled"]},
    {"principals": ["User:billing"], "topics": ["us."], "groups": ["us."], "pattern_type": "prefixed"},
]
COUNT = 50


@pytest.fixture(scope="module")
def ruled(
    kafka_pair: tuple[KafkaCluster, KafkaCluster], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[UnionMesh]:
    """Topics with the prefix `us.` belong to us, which has them without it. Both clusters have the topics `ruled` and
    `closed`."""
    for cluster in kafka_pair:
        for name in ("ruled", "closed"):
            cluster.create_topic(name, 1)
    users = [{"name": name, "password": PASSWORD} for name in ("shop", "billing")]
    listener = {"sasl": {"mechanisms": ["PLAIN"], "users": users}, "authorization": {"rules": RULES}}
    mesh = UnionMesh(tmp_path_factory.mktemp("ruled"), *kafka_pair, listener=listener)
    yield mesh
    mesh.kill()


def of(mesh: UnionMesh, user: str, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": mesh.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": PASSWORD,
        "log_level": 0,
        **more,
    }


@pytest.mark.smoke
def test_each_sees_its_topics(ruled: UnionMesh) -> None:
    seen = {}
    for user in ("shop", "billing"):
        topics = AdminClient(of(ruled, user)).list_topics(timeout=30).topics
        seen[user] = {name for name in topics if name.endswith(("ruled", "closed"))}
    assert seen == {"shop": {"ruled", "us.ruled"}, "billing": {"us.ruled", "us.closed"}}


def test_producing_to_both_clusters_and_reading_of_one(
    kafka_pair: tuple[KafkaCluster, KafkaCluster], ruled: UnionMesh
) -> None:
    told: dict[str, set[str]] = {}
    producer = Producer(of(ruled, "shop", **{"enable.idempotence": True, "message.timeout.ms": 30_000}))
    for number in range(COUNT):
        for topic in ("ruled", "us.ruled", "us.closed"):
            producer.produce(
                topic,
                b"%d" % number,
                partition=0,
                on_delivery=lambda error, _, topic=topic: told.setdefault(topic, set()).add(
                    error.name() if error else ""
                ),  # type: ignore[misc]
            )
    assert producer.flush(60) == 0
    assert told == {"ruled": {""}, "us.ruled": {""}, "us.closed": {"TOPIC_AUTHORIZATION_FAILED"}}
    for cluster in kafka_pair:
        stored = [each.record.value for each in stored_upstream(cluster, "ruled")]
        assert stored == [b"%d" % number for number in range(COUNT)]
        assert not list(stored_upstream(cluster, "closed"))

    consumer = Consumer(of(ruled, "billing", **{"group.id": "us.billing", "auto.offset.reset": "earliest"}))
    consumer.subscribe(["us.ruled", "ruled"])
    found: list[str] = []
    refused: set[str] = set()

    def has_read() -> bool:
        for each in consumer.consume(100, 0.5):
            if (error := each.error()) is None:
                found.append(each.topic() or "")
            else:
                refused.add(error.name())
        return len(found) >= COUNT and bool(refused)

    eventually("the records of us.ruled", has_read, timeout=START)
    consumer.close()
    assert found == ["us.ruled"] * COUNT
    assert refused == {"TOPIC_AUTHORIZATION_FAILED"}


def test_a_member_of_the_consumer_protocol(kafka_pair: tuple[KafkaCluster, KafkaCluster], ruled: UnionMesh) -> None:
    """Its group has topics of us only. A member that subscribes to a topic that it may not see gets an error."""
    producer = Producer({"bootstrap.servers": kafka_pair[1].bootstrap_servers})
    for number in range(COUNT):
        producer.produce("closed", b"%d" % number, partition=0)
    assert producer.flush(30) == 0
    properties = {"group.protocol": "consumer", "auto.offset.reset": "earliest"}
    consumer = Consumer(of(ruled, "billing", **{**properties, "group.id": "us.consumers"}))
    consumer.subscribe(["us.closed"])
    found: list[bytes] = []

    def has_read() -> bool:
        found.extend(each.value() or b"" for each in consumer.consume(100, 0.5) if each.error() is None)
        return len(found) >= COUNT

    eventually("the records of us.closed", has_read, timeout=START)
    consumer.commit(asynchronous=False)
    consumer.close()
    assert found == [b"%d" % number for number in range(COUNT)]

    stranger = Consumer(of(ruled, "billing", **{**properties, "group.id": "us.strangers"}))
    stranger.subscribe(["us.closed", "closed"])
    told: set[str] = set()

    def is_refused() -> bool:
        told.update(error.name() for each in stranger.consume(10, 0.5) if (error := each.error()) is not None)
        return "TOPIC_AUTHORIZATION_FAILED" in told

    eventually("an error", is_refused, timeout=START)
    stranger.close()
