"""Changes while the mesh runs: sessions that end, certificates, users, rules. And clients with certificates."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from tests.integration.kafka import CLIENT_PROPERTIES, KafkaCluster
from tests.integration.mesh_process import Mesh
from tests.integration.processes import eventually
from tests.integration.security import secured
from tests.integration.security.certificates import Authority, Pair
from tests.integration.security.conftest import COUNT, entries, numbers
from tests.integration.security.secured import Login


def tls(server: Pair, **more: object) -> dict[str, object]:
    return {"tls": {"certificate_file": str(server.certificate), "key_file": str(server.key), **more}}


def test_re_authentication_while_consuming(kafka: KafkaCluster, topic: str, tmp_path: Path) -> None:
    sasl = {
        "mechanisms": ["SCRAM-SHA-256"],
        "users": [{"name": "alice", "password": "sesam"}],
        "longest_session": "3s",
    }
    mesh = Mesh([kafka], [topic], tmp_path, {}, listener={"sasl": sasl})
    login = Login("SCRAM-SHA-256", password="sesam")
    errors: list[KafkaError] = []
    properties = {"bootstrap.servers": mesh.bootstrap_servers, "group.id": "again", "auto.offset.reset": "earliest"}
    consumer = Consumer({**CLIENT_PROPERTIES, **properties, **login.librdkafka(), "error_cb": errors.append})
    try:
        consumer.subscribe([topic])
        values: list[str] = []

        def went_on() -> bool:
            values.extend(secured.text_of(message) for message in consumer.consume(50, 0.2))
            done = mesh.metric("kafka_mesh_authentications_total", result="reauthenticated")
            return done >= 4 and len(values) >= COUNT

        eventually("two connections authenticate again, twice", went_on, timeout=40)
        assert sorted(values) == numbers()
        assert mesh.metric("kafka_mesh_protocol_errors_total") == 0
        assert not errors
    finally:
        consumer.close()
        mesh.kill()


def refused(mesh: Mesh, login: Login) -> None:
    """In TLS 1.3 a client's certificate is checked last: it learns of a refusal only by the disconnect."""
    before = mesh.metric("kafka_mesh_tls_failures_total", reason="handshake")
    with pytest.raises(KafkaException):
        AdminClient(
            {**CLIENT_PROPERTIES, "bootstrap.servers": mesh.bootstrap_servers, **login.librdkafka()}
        ).list_topics(timeout=3)
    assert mesh.metric("kafka_mesh_tls_failures_total", reason="handshake") > before


@pytest.mark.long
def test_certificates_of_clients_and_of_the_server_change(
    kafka: KafkaCluster, topic: str, authority: Authority, tmp_path: Path
) -> None:
    ours = Authority(tmp_path / "ours")
    server = ours.issue("mesh")
    listener = tls(
        server,
        client_authentication="required",
        client_ca_file=str(authority.certificate),
        principal_mapping_rules=["RULE:^CN=(.*?),O=Shop$/$1/", "DEFAULT"],
    )
    rules = {"rules": [{"principals": ["User:alice"], "topics": [topic], "groups": ["*"]}]}
    mesh = Mesh([kafka], [topic], tmp_path, {}, listener={**listener, "authorization": rules})
    try:
        login = Login(None, ours.certificate, certificate=authority.issue("alice", organization="Shop"))
        assert sorted(secured.confluent(mesh.bootstrap_servers, topic, "certificates-mtls", COUNT, login)) == numbers()
        refused(mesh, Login(None, ours.certificate))
        stranger = Authority(tmp_path / "stranger").issue("alice", organization="Shop")
        refused(mesh, Login(None, ours.certificate, certificate=stranger))
        bob = Login(None, ours.certificate, certificate=authority.issue("bob", organization="Shop"))
        with pytest.raises(Exception, match=r"(?i)authoriz"):
            secured.confluent(mesh.bootstrap_servers, topic, "certificates-bob", COUNT, bob)
        assert {entry["principal"] for entry in entries(mesh, "request denied")} == {"User:bob"}

        before = server.certificate.read_text()
        server.certificate.write_text("no certificate")
        eventually("the broken file is noticed", lambda: len(entries(mesh, "file not reloaded")) == 1)
        assert sorted(secured.confluent(mesh.bootstrap_servers, topic, "certificates-still", COUNT, login)) == numbers()
        server.certificate.write_text(before)
        renewed = ours.issue("mesh")
        eventually("the new certificate is in use", lambda: bool(entries(mesh, "file reloaded")))
        wanted = renewed.certificate.read_text().split()
        assert (
            sorted(secured.confluent(mesh.bootstrap_servers, topic, "certificates-renewed", COUNT, login)) == numbers()
        )
        assert before.split() != wanted
    finally:
        mesh.kill()


@pytest.mark.long
def test_users_and_rules_change(kafka: KafkaCluster, topic: str, tmp_path: Path) -> None:
    users, rules = tmp_path / "users.yaml", tmp_path / "rules.yaml"

    def write(file: Path, **content: object) -> None:
        file.write_text(yaml.safe_dump(content))

    write(users, users=[{"name": "alice", "password": "before"}])
    write(rules, rules=[])
    listener = {
        "sasl": {"mechanisms": ["PLAIN"], "users_file": str(users)},
        "authorization": {"rules_file": str(rules)},
    }
    mesh = Mesh([kafka], [topic], tmp_path, {}, listener=listener)
    try:
        old, new = Login("PLAIN", password="before"), Login("PLAIN", password="after")
        with pytest.raises(Exception, match=r"(?i)authoriz"):
            secured.confluent(mesh.bootstrap_servers, topic, "users-denied", COUNT, old)
        write(rules, rules=[{"principals": ["User:alice"], "topics": [topic], "groups": ["*"]}])
        eventually("the rules are in use", lambda: len(entries(mesh, "file reloaded")) == 1)
        assert sorted(secured.confluent(mesh.bootstrap_servers, topic, "users-allowed", COUNT, old)) == numbers()
        write(users, users=[{"name": "alice"}])
        eventually("the broken file is noticed", lambda: len(entries(mesh, "file not reloaded")) == 1)
        assert sorted(secured.confluent(mesh.bootstrap_servers, topic, "users-still", COUNT, old)) == numbers()
        write(users, users=[{"name": "alice", "password": "after"}])
        eventually("the users are in use", lambda: len(entries(mesh, "file reloaded")) == 2)
        assert sorted(secured.confluent(mesh.bootstrap_servers, topic, "users-changed", COUNT, new)) == numbers()
        assert secured.first_error(mesh.bootstrap_servers, old).code() == KafkaError._AUTHENTICATION
    finally:
        mesh.kill()
