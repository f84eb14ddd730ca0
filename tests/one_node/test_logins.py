"""The identity of a client at one address for all brokers: it uses TLS and SASL with the mesh, which logs in at each
broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.integration.feeding import log_ends
from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.processes import eventually, free_port
from tests.integration.relay_mesh import RelayMesh
from tests.integration.security.certificates import Authority
from tests.relay.cluster import NODES, SeveralBrokers

pytestmark = [
    pytest.mark.long,
    pytest.mark.deep,
    pytest.mark.kafka,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("one node"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
MESH = {"sasl.username": "mesh", "sasl.password": "its secret"}
UPSTREAM = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", **MESH}
USER = {"sasl.username": "alice", "sasl.password": "her secret"}
COUNT = 300


class Logins(SeveralBrokers):
    """Each broker has a listener where the mesh must log in, and again after five seconds."""

    def __init__(self, folder: Path) -> None:
        self.logins = {node: free_port() for node in NODES}
        module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        first = f"SASL://127.0.0.1:{self.logins[NODES[0]]}"
        more = {
            "listeners": f"PLAINTEXT://127.0.0.1:{{port}},CONTROLLER://127.0.0.1:{{controller}},{first}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{{port}},{first}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl.plain.sasl.jaas.config": f'{module} user_mesh="{MESH["sasl.password"]}";',
            "connections.max.reauth.ms": "5000",
        }
        super().__init__("eu", kafka_jars(), folder, more=more)


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logins]:
    brokers = Logins(tmp_path_factory.mktemp("logins"))
    yield brokers
    brokers.end()


def test_clients_log_in_here_and_the_mesh_at_each_broker(brokers: Logins, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certificates")
    pair = authority.issue("mesh")
    user = {"name": USER["sasl.username"], "password": USER["sasl.password"]}
    listener = {
        "nodes": "one",
        "tls": {"certificate_file": str(pair.certificate), "key_file": str(pair.key)},
        "sasl": {"mechanisms": ["SCRAM-SHA-256"], "users": [user]},
    }
    servers = ",".join(f"127.0.0.1:{port}" for port in brokers.logins.values())
    mesh = RelayMesh(tmp_path, servers, listener=listener, upstream={"properties": UPSTREAM})
    address = {
        "bootstrap.servers": mesh.bootstrap_servers,
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "SCRAM-SHA-256",
        "ssl.ca.location": str(authority.certificate),
        "log_level": 0,
    }
    try:
        produce_and_consume(brokers, {**address, **USER})
        wrong = Producer({**address, **USER, "sasl.password": "not hers", "message.timeout.ms": 5_000})
        told: list[object] = []
        wrong.produce("one-logins", b"x", partition=0, on_delivery=lambda error, _: told.append(error))
        assert wrong.flush(60) == 0
        assert told and told != [None]
    finally:
        mesh.kill()
    assert sum(log_ends(brokers, "one-logins").values()) == COUNT


def produce_and_consume(brokers: Logins, address: dict[str, Any]) -> None:
    """Produces a record for each broker in turn, one after the other, and consumes them."""
    places = [[*NODES[at:], *NODES[:at]] for at in range(len(NODES))]
    brokers.create_topic("one-logins", len(NODES), places=places)
    told: list[object] = []
    seen: list[tuple[int, bytes]] = []
    producer = Producer({**address, "linger.ms": 0})
    consumer = Consumer({**address, "group.id": "one-logins", "enable.auto.commit": False})
    consumer.assign([TopicPartition("one-logins", partition, 0) for partition in range(len(NODES))])

    def has(count: int) -> bool:
        found = [each for each in consumer.consume(100, 0.1) if not each.error()]
        seen.extend((each.partition() or 0, each.value() or b"") for each in found)
        return len(seen) >= count

    records = [(number % len(NODES), b"%d" % number) for number in range(COUNT)]
    try:
        for number, (partition, value) in enumerate(records, 1):
            producer.produce("one-logins", value, partition=partition, on_delivery=lambda error, _: told.append(error))
            if number % len(NODES) == 0:
                assert producer.flush(30) == 0
                eventually("they come", lambda: has(number), timeout=60)  # noqa: B023
        consumer.commit(offsets=[TopicPartition("one-logins", 0, 1)], asynchronous=False)
    finally:
        consumer.close()
    assert told == [None] * COUNT
    assert sorted(seen) == sorted(records)
    assert brokers.committed("one-logins") == {("one-logins", 0): 1}
