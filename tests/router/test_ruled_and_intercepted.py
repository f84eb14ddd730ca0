"""Rules and interceptors in front of topics that are not where their names say: a topic of two clusters, and a moved
one. Both use the names that clients see."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.integration.feeding import stored_upstream
from tests.integration.jars import missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import START, eventually
from tests.router.move_mesh import ALL_AT_EU, MoveMesh

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.xdist_group("union"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
Clusters = tuple[KafkaCluster, KafkaCluster]
PASSWORD = "sesam"
TOPICS = ["ruled-joined", "ruled-moved"]
CLOSED = "closed-joined"
RULES = [
    {"principals": ["User:shop"], "operations": ["write"], "topics": TOPICS},
    {"principals": ["User:billing"], "operations": ["read"], "topics": TOPICS, "groups": ["billing"]},
]
INTERCEPTORS: list[dict[str, Any]] = [
    {"name": "cards", "type": "mask", "topics": TOPICS, "on": ["fetch"], "config": {"paths": ["card"]}},
    {
        "name": "regions",
        "type": "filter",
        "topics": TOPICS,
        "on": ["produce"],
        "config": {"header": "region", "equals": "eu"},
    },
]
COUNT = 60
"""Records of one round; the interceptor drops every second one."""


def joined(name: str) -> dict[str, Any]:
    parts = [{"route": "eu", "width": 1}, {"route": "us", "topic": f"{name}-west", "width": 1}]
    return {"name": name, "parts": parts}


@pytest.fixture(scope="module")
def mesh(kafka_pair: Clusters, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MoveMesh]:
    eu, us = kafka_pair
    for name in ("ruled-joined", CLOSED):
        eu.create_topic(name, 1)
        us.create_topic(f"{name}-west", 1)
    eu.create_topic("ruled-moved", 1)
    users = [{"name": name, "password": PASSWORD} for name in ("shop", "billing")]
    mesh = MoveMesh(
        tmp_path_factory.mktemp("ruled"),
        *kafka_pair,
        "ruled",
        config={**ALL_AT_EU, "concatenated": [joined("ruled-joined"), joined(CLOSED)]},
        listener={
            "sasl": {"mechanisms": ["PLAIN"], "users": users},
            "authorization": {"rules": RULES},
            "interceptors": [each["name"] for each in INTERCEPTORS],
        },
        more={"interceptors": INTERCEPTORS},
    )
    yield mesh
    mesh.kill()


class Shop:
    """A producer of user shop. Every second record is of another region than the kept one."""

    def __init__(self, mesh: MoveMesh) -> None:
        self._producer = Producer(of(mesh, "shop", **{"enable.idempotence": True, "message.timeout.ms": 60_000}))
        self._next = 0

    def produces(self, topic: str, *partitions: int) -> dict[str, int]:
        """Produces the next records; returns their errors, with the number of each."""
        told: dict[str, int] = {}

        def take(error: KafkaError | None, _: object) -> None:
            name = error.name() if error else ""
            told[name] = told.get(name, 0) + 1

        for number in range(self._next, self._next + COUNT):
            headers: list[tuple[str, str | bytes | None]] = [("region", (b"eu", b"us")[number % 2])]
            for partition in partitions:
                self._producer.produce(topic, value(number), partition=partition, headers=headers, on_delivery=take)
        self._next += COUNT
        assert self._producer.flush(90) == 0
        return told


class Billing:
    """A consumer of user billing."""

    def __init__(self, mesh: MoveMesh, topic: str, *partitions: int) -> None:
        self._consumer = Consumer(of(mesh, "billing", **{"group.id": "billing", "enable.auto.commit": False}))
        self._consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
        self._found: dict[int | None, list[tuple[int | None, bytes | None]]] = {each: [] for each in partitions}

    def finds(self, count: int) -> None:
        """Checks that it reads so many kept records of each partition, in order, at the offsets of the cluster,
        masked."""

        def has_all() -> bool:
            for each in self._consumer.consume(1_000, 0.5):
                assert each.error() is None, each.error()
                self._found[each.partition()].append((each.offset(), each.value()))
            return all(len(each) >= count for each in self._found.values())

        eventually("the records", has_all, timeout=START)
        kept = [(offset, value(2 * offset, masked=True)) for offset in range(count)]
        assert all(each == kept for each in self._found.values())

    def close(self) -> None:
        self._consumer.close()


def value(number: int, *, masked: bool = False) -> bytes:
    card = "****" if masked else f"4000-{number:012}"
    return json.dumps({"id": number, "card": card}, separators=(",", ":")).encode()


def of(mesh: MoveMesh, user: str, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": mesh.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": PASSWORD,
        "log_level": 0,
        **more,
    }


def kept_at(cluster: KafkaCluster, topic: str) -> list[bytes]:
    return [each.record.value or b"" for each in stored_upstream(cluster, topic)]


def test_a_topic_of_two_clusters(kafka_pair: Clusters, mesh: MoveMesh) -> None:
    eu, us = kafka_pair
    shop = Shop(mesh)
    assert shop.produces("ruled-joined", 0, 1) == {"": 2 * COUNT}
    kept = [value(number) for number in range(0, COUNT, 2)]
    assert kept_at(eu, "ruled-joined") == kept_at(us, "ruled-joined-west") == kept
    billing = Billing(mesh, "ruled-joined", 0, 1)
    billing.finds(COUNT // 2)
    billing.close()
    assert set(shop.produces(CLOSED, 0, 1)) == {"TOPIC_AUTHORIZATION_FAILED"}
    assert not kept_at(eu, CLOSED) + kept_at(us, f"{CLOSED}-west")


def test_a_topic_that_is_moved(kafka_pair: Clusters, mesh: MoveMesh) -> None:
    """One producer and one consumer stay connected all the time."""
    topic, shop, billing = "ruled-moved", Shop(mesh), Billing(mesh, "ruled-moved", 0)
    assert shop.produces(topic, 0) == {"": COUNT}
    billing.finds(COUNT // 2)
    for times, (place, cluster) in enumerate(zip(("us", "eu"), reversed(kafka_pair), strict=True), start=2):
        mesh.begin(topic, **({"to": "us"} if place == "us" else {"back": "true"}))
        mesh.until_at(topic, place)
        assert shop.produces(topic, 0) == {"": COUNT}
        assert kept_at(cluster, topic) == [value(number) for number in range(0, times * COUNT, 2)]
        billing.finds(times * COUNT // 2)
    billing.close()
    # The consumer always has a Fetch at the broker: its answer comes when the topic has moved away.
    assert [each for each in mesh.log_entries() if each["level"] == "error"] == []
