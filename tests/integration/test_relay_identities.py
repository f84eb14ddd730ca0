"""The identity of a client at a relay: SASL that passes to the cluster, credentials of the mesh, and nodes by names in
TLS."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from struct import Struct, pack

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.integration.feeding import log_ends
from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import eventually, free_port
from tests.integration.relay_mesh import RelayMesh
from tests.integration.security.certificates import Authority

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(bool(missing_programs()), reason="a real Apache Kafka needs Java 17 and Maven"),
    pytest.mark.timeout(300),
]
_LENGTH = Struct(">i")
_METADATA_V1 = pack(">hhihi", 3, 1, 7, -1, 0)
ALICE = {"sasl.username": "alice", "sasl.password": "her secret"}
MESH = {"sasl.username": "mesh", "sasl.password": "its secret"}
PROPERTIES = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN"}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaCluster, int]]:
    """A broker, and the port of its listener with SASL: alice may write to the topics that begin with her name."""
    port = free_port()
    users = " ".join(f'user_{each["sasl.username"]}="{each["sasl.password"]}"' for each in (ALICE, MESH))
    module = f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
    more = {
        "listeners": f"PLAINTEXT://127.0.0.1:{{port}},CONTROLLER://127.0.0.1:{{controller}},SASL://127.0.0.1:{port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{{port}},SASL://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": module,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:mesh",
        "connections.max.reauth.ms": "5000",
    }
    cluster = KafkaCluster("eu", kafka_jars(), tmp_path_factory.mktemp("kafka"), more)
    cluster.create_topic("alices", 1)
    cluster.create_topic("others", 1)
    arguments = (
        "--bootstrap-server",
        cluster.bootstrap_servers,
        "--add",
        "--allow-principal",
        "User:alice",
        "--topic",
        "alices",
    )
    cluster.run_tool("org.apache.kafka.tools.AclCommand", *arguments)
    yield cluster, port
    cluster.kill()


def outcome(address: str, topic: str, **properties: object) -> str:
    """The outcome of writing a record there; "" for success."""
    told: list[str] = []
    producer = Producer({"bootstrap.servers": address, "message.timeout.ms": 20_000, "log_level": 0, **properties})
    producer.produce(topic, b"x", partition=0, on_delivery=lambda error, _: told.append(error.name() if error else ""))
    producer.flush(60)
    return told[0]


def relay_of(port: int, folder: Path, relay: Mapping[str, object]) -> RelayMesh:
    return RelayMesh(folder, f"127.0.0.1:{port}", relay=relay, upstream={"properties": {**PROPERTIES, **MESH}})


def test_the_cluster_authenticates_its_clients(secured: tuple[KafkaCluster, int], tmp_path: Path) -> None:
    _, port = secured
    relay = relay_of(port, tmp_path, {"authentication": "upstream"})
    try:
        assert outcome(relay.bootstrap_servers, "alices", **PROPERTIES, **ALICE) == ""
        assert outcome(relay.bootstrap_servers, "others", **PROPERTIES, **ALICE) == "TOPIC_AUTHORIZATION_FAILED"
        wrong = {**ALICE, "sasl.password": "not hers"}
        assert outcome(relay.bootstrap_servers, "alices", **PROPERTIES, **wrong) == "_MSG_TIMED_OUT"
    finally:
        relay.kill()


@pytest.mark.long
def test_the_mesh_has_credentials_of_its_own(secured: tuple[KafkaCluster, int], tmp_path: Path) -> None:
    """Sessions at the broker end after five seconds; a client does not notice."""
    cluster, port = secured
    relay = relay_of(port, tmp_path, {})
    try:
        assert outcome(relay.bootstrap_servers, "others") == ""
        consumer = Consumer({"bootstrap.servers": relay.bootstrap_servers, "group.id": "reader", "log_level": 0})
        consumer.assign([TopicPartition("others", 0, 0)])
        found: list[bytes] = []

        def ended_often() -> bool:
            found.extend(message.value() or b"" for message in consumer.consume(10, 0.5) if message.error() is None)
            return relay.metric("kafka_mesh_relay_requests_total", api="API_VERSIONS") >= 12

        eventually("several sessions", ended_often, timeout=120, interval=0.0)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        producer.produce("others", b"last", partition=0)
        assert producer.flush(30) == 0
        eventually("the last record", lambda: ended_often() and b"last" in found, timeout=60)
        consumer.close()
        assert relay.metric("kafka_mesh_relay_legs_lost_total", reason="closed_in_flight") == 0
    finally:
        relay.kill()


def metadata(listen: str, name: str, authority: Authority) -> bytes:
    """The answer to a Metadata request v1 of a client that connected under that name."""
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.check_hostname = False
    host, _, port = listen.rpartition(":")
    with socket.create_connection((host, int(port)), 30) as raw, context.wrap_socket(raw, server_hostname=name) as tls:
        tls.sendall(_LENGTH.pack(len(_METADATA_V1)) + _METADATA_V1)
        received = b""
        while len(received) < _LENGTH.size or len(received) < _LENGTH.size + _LENGTH.unpack_from(received)[0]:
            more = tls.recv(65_536)
            assert more, "the connection was closed"
            received += more
        return received


def test_nodes_are_told_apart_by_their_names(secured: tuple[KafkaCluster, int], tmp_path: Path) -> None:
    cluster, _ = secured
    authority = Authority(tmp_path / "certificates")
    pair = authority.issue("mesh")
    tls = {"certificate_file": str(pair.certificate), "key_file": str(pair.key)}
    nodes = {"hosts": "b{node}.kafka.test"}
    relay = RelayMesh(tmp_path, cluster.bootstrap_servers, listener={"tls": tls, "nodes": nodes})
    try:
        port = int(relay.bootstrap_servers.rpartition(":")[2])
        for name in ("anything.kafka.test", "b1.kafka.test"):
            answer = metadata(relay.bootstrap_servers, name, authority)
            assert pack(">ih", 1, 13) + b"b1.kafka.test" + pack(">i", port) in answer
        with pytest.raises((AssertionError, OSError)):
            metadata(relay.bootstrap_servers, "b7.kafka.test", authority)
        assert relay.metric("kafka_mesh_relay_legs_lost_total", node="-1", reason="unreachable") > 0
    finally:
        relay.kill()


@pytest.mark.long
def test_tls_ends_here_and_sasl_passes(secured: tuple[KafkaCluster, int], tmp_path: Path) -> None:
    """With librdkafka and Java's client. They get the addresses of nodes, and connect to those by TLS, too."""
    cluster, port = secured
    authority = Authority(tmp_path / "certificates")
    pair = authority.issue("mesh")
    listener = {"tls": {"certificate_file": str(pair.certificate), "key_file": str(pair.key)}}
    upstream = {"properties": {**PROPERTIES, **MESH}}
    address = f"127.0.0.1:{port}"
    relay = RelayMesh(
        tmp_path, address, listener=listener, relay={"authentication": "upstream"}, upstream=upstream, name="tls"
    )
    by_tls = {**PROPERTIES, "security.protocol": "sasl_ssl", "ssl.ca.location": str(authority.certificate)}
    java = tmp_path / "java.properties"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    identity = f'username="{ALICE["sasl.username"]}" password="{ALICE["sasl.password"]}"'
    lines = (
        "security.protocol=SASL_SSL",
        "sasl.mechanism=PLAIN",
        f"sasl.jaas.config={module} {identity};",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={authority.certificate}",
    )
    java.write_text("\n".join(lines))
    try:
        before = log_ends(cluster, "alices")[0]
        assert outcome(relay.bootstrap_servers, "alices", **by_tls, **ALICE) == ""
        assert outcome(relay.bootstrap_servers, "others", **by_tls, **ALICE) == "TOPIC_AUTHORIZATION_FAILED"
        told = cluster.run_tool(
            "org.apache.kafka.tools.VerifiableProducer",
            *("--bootstrap-server", relay.bootstrap_servers, "--topic", "alices", "--max-messages", "100"),
            *("--command-config", str(java)),
        )
        assert '"acked":100' in told
        assert log_ends(cluster, "alices")[0] - before == 101
    finally:
        relay.kill()
