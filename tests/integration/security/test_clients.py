"""Real clients through a listener with TLS, by each mechanism and by certificate, from a real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import Mesh
from tests.integration.security import secured
from tests.integration.security.certificates import Authority
from tests.integration.security.conftest import COUNT, TOPIC, entries, numbers
from tests.integration.security.secured import SECRET, Login

PASSWORD = "correct horse, battery=staple"
READERS: dict[str, Callable[..., list[str]]] = {
    "confluent-kafka": secured.confluent,
    "kafka-python": secured.kafka_python,
    "aiokafka": secured.aiokafka,
    "kcat": secured.kcat,
}
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
# kcat accepts no token; its librdkafka does.
WITHOUT_JAVA = [
    (client, mechanism)
    for client in ("kafka-python", "aiokafka", "kcat")
    for mechanism in MECHANISMS
    if (client, mechanism) != ("kcat", "OAUTHBEARER")
]


@pytest.fixture(scope="module")
def mesh(
    kafka: KafkaCluster, topic: str, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mesh]:
    """A mesh with every mechanism, and a rule that admits only alice."""
    server = authority.issue("mesh")
    listener = {
        "tls": {"certificate_file": str(server.certificate), "key_file": str(server.key)},
        "sasl": {
            "mechanisms": MECHANISMS,
            "users": [{"name": "alice", "password": PASSWORD}, {"name": "mallory", "password": PASSWORD}],
            "oauthbearer": {"shared_secret": SECRET},
        },
        "authorization": {"rules": [{"principals": ["User:alice"], "topics": [TOPIC], "groups": ["*"]}]},
    }
    mesh = Mesh([kafka], [topic], tmp_path_factory.mktemp("mesh"), {}, listener=listener)
    yield mesh
    mesh.kill()


def login(authority: Authority, mechanism: str | None, **changes: object) -> Login:
    values = {"ca": authority.certificate, "password": PASSWORD, **changes}
    return Login(mechanism, **values)  # type: ignore[arg-type]


@pytest.mark.smoke
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent(mesh: Mesh, authority: Authority, mechanism: str) -> None:
    values = secured.confluent(mesh.bootstrap_servers, TOPIC, f"c-{mechanism}", COUNT, login(authority, mechanism))
    assert sorted(values) == numbers()
    assert mesh.metric("kafka_mesh_authentications_total", mechanism=mechanism, result="success") >= 2, "both ports"


@pytest.mark.long
@pytest.mark.parametrize(("client", "mechanism"), WITHOUT_JAVA)
def test_other_clients(mesh: Mesh, authority: Authority, client: str, mechanism: str) -> None:
    read, group = READERS[client], f"{client}-{mechanism}"
    assert sorted(read(mesh.bootstrap_servers, TOPIC, group, COUNT, login(authority, mechanism))) == numbers()


@pytest.mark.long
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_java(mesh: Mesh, kafka: KafkaCluster, authority: Authority, tmp_path: Path, mechanism: str) -> None:
    read = secured.java_console(kafka, tmp_path)
    values = read(mesh.bootstrap_servers, TOPIC, f"java-{mechanism}", COUNT, login(authority, mechanism))
    assert sorted(values) == numbers()


@pytest.mark.smoke
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_wrong_credentials(mesh: Mesh, authority: Authority, mechanism: str) -> None:
    wrong = login(authority, mechanism, password="wrong", token=lambda: secured.token(secret=SECRET[::-1]))
    before = mesh.metric("kafka_mesh_authentications_total", mechanism=mechanism)
    error = secured.first_error(mesh.bootstrap_servers, wrong)
    assert error.code() == KafkaError._AUTHENTICATION
    assert mesh.metric("kafka_mesh_authentications_total", mechanism=mechanism) > before
    assert mesh.metric("kafka_mesh_authentications_total", mechanism=mechanism, result="success") <= before


def test_an_expired_token(mesh: Mesh, authority: Authority) -> None:
    expired = login(authority, "OAUTHBEARER", token=lambda: secured.token(seconds=-60))
    secured.fail_with_aiokafka(mesh.bootstrap_servers, expired)
    assert mesh.metric("kafka_mesh_authentications_total", mechanism="OAUTHBEARER", result="expired_token") >= 1


def test_another_authority_is_not_trusted(mesh: Mesh, tmp_path: Path) -> None:
    before = mesh.metric("kafka_mesh_tls_failures_total")
    stranger = login(Authority(tmp_path), "PLAIN")
    assert secured.first_error(mesh.bootstrap_servers, stranger).code() == KafkaError._SSL
    assert mesh.metric("kafka_mesh_tls_failures_total") > before


@pytest.mark.smoke
def test_what_the_rules_do_not_allow(mesh: Mesh, authority: Authority) -> None:
    mallory = login(authority, "PLAIN", name="mallory")
    with pytest.raises(Exception, match=r"(?i)authoriz"):
        secured.confluent(mesh.bootstrap_servers, TOPIC, "mallory", COUNT, mallory)
    assert mesh.metric("kafka_mesh_authorization_refusals_total") >= 1
    written = entries(mesh, "request denied")
    assert {(entry["principal"], entry["operation"]) for entry in written} == {("User:mallory", "DESCRIBE")}
