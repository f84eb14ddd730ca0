"""No broker carries out what a client that has not authenticated sends behind a refused request, in one segment."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from struct import pack

import pytest

from mesh.wire.apis import ApiKey
from tests.integration.jars import missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import eventually
from tests.integration.relay_mesh import RelayMesh
from tests.runtime.relay.frames import request
from tests.upstream.harness import new_name

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.smoke,
    pytest.mark.skipif(bool(missing_programs()), reason="a real Apache Kafka needs Java 17 and Maven"),
    pytest.mark.timeout(300),
]
SASL = {"mechanisms": ["SCRAM-SHA-256"], "users": [{"name": "alice", "password": "her secret"}]}
SIZE = {"name": "size", "type": "size", "topics": ["*"], "on": ["produce"], "config": {"maximum": "1MiB"}}


@pytest.fixture
def relay(kafka: KafkaCluster, tmp_path: Path) -> Iterator[RelayMesh]:
    listener = {"sasl": SASL}
    relay = RelayMesh(tmp_path, kafka.bootstrap_servers, listener=listener, interceptors=[SIZE])
    yield relay
    relay.kill()


def test_a_topic_is_not_deleted_by_a_client_that_has_not_authenticated(kafka: KafkaCluster, relay: RelayMesh) -> None:
    name = new_name("kept")
    kafka.create_topic(name, 1)
    topics = pack(">ih", 1, len(name)) + name.encode()
    refused = request(ApiKey.HEARTBEAT, 0, 1, pack(">hih", 0, 0, 0))
    host, _, port = relay.address_of(1).rpartition(":")
    eventually("the relay serves", lambda: relay.metric("kafka_mesh_upstream_up", cluster="eu") == 1)
    with socket.create_connection((host, int(port)), 30) as client:
        client.sendall(refused + request(ApiKey.DELETE_TOPICS, 3, 2, topics + pack(">i", 10_000)))
        assert client.recv(1) == b"", "the connection is closed"
    kafka.create_topic(new_name("later"), 1)  # the controller has carried out what came before
    assert name in kafka.admin().list_topics(timeout=30).topics
