"""One address for all brokers, in each of several networks: clients learn only the address that they came to."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.integration.feeding import log_ends
from tests.integration.jars import missing_programs
from tests.integration.kafka import CLIENT_PROPERTIES
from tests.integration.processes import free_port
from tests.integration.relay_mesh import RelayMesh
from tests.relay.cluster import NODES, SeveralBrokers

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.xdist_group("one node"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]


def told(address: str) -> list[str]:
    """The nodes that a client learns at this address."""
    admin = AdminClient({**CLIENT_PROPERTIES, "bootstrap.servers": address})
    return [f"{each.host}:{each.port}" for each in admin.list_topics(timeout=30).brokers.values()]


def test_each_listener_has_its_own_node(cluster: SeveralBrokers, tmp_path: Path) -> None:
    cluster.create_topic("one-listeners", len(NODES), places=[[node] for node in NODES])
    inside = f"127.0.0.1:{free_port()}"
    listeners = {"nodes": "one", "listeners": [{"name": "inside", "listen": inside, "nodes": "one"}]}
    mesh = RelayMesh(tmp_path, cluster.every_address, listener=listeners)
    try:
        assert told(mesh.bootstrap_servers) == [mesh.bootstrap_servers]
        assert told(inside) == [inside]
        outcomes: list[object] = []
        producer = Producer({**CLIENT_PROPERTIES, "bootstrap.servers": inside})
        for partition in range(len(NODES)):
            producer.produce(
                "one-listeners", b"x", partition=partition, on_delivery=lambda error, _: outcomes.append(error)
            )
        assert producer.flush(60) == 0
        assert outcomes == [None] * len(NODES)
        mesh.listen({"nodes": "one"})
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", int(inside.rpartition(":")[2]))).close()
        assert told(mesh.bootstrap_servers) == [mesh.bootstrap_servers]
    finally:
        mesh.kill()
    assert log_ends(cluster, "one-listeners") == dict.fromkeys(range(len(NODES)), 1)
