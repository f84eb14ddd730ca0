"""Logins of kafka-mesh at a real broker that accepts only tokens, and checks them by the keys of their issuer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from mesh.app.logins import fetch_of
from mesh.config.login import LoginConfig
from mesh.upstream.links.connection import BrokerLink
from mesh.upstream.links.connection_settings import connection_settings_of
from mesh.upstream.links.handshake import Unreachable
from mesh.upstream.tokens.source import TokenSource
from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import MeshProcess
from tests.integration.processes import eventually, free_port, free_ports
from tests.integration.security.issuer import AUDIENCE, CLIENT, SECRET, Issuer
from tests.security.test_oidc import pem

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(bool(missing_programs()), reason="a real Apache Kafka needs Java 17 and Maven"),
    pytest.mark.timeout(300),
]


class _Cluster(KafkaCluster):
    allowed_urls = ""

    def _java_options(self) -> Sequence[str]:
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.allowed_urls}"
        return (*super()._java_options(), allowed)


@dataclass(frozen=True, slots=True)
class Guarded:
    """A broker, its listener for tokens, and their issuer."""

    cluster: KafkaCluster
    address: str
    issuer: Issuer

    def feed(self, topic: str, *values: bytes) -> None:
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap_servers})
        for value in values:
            producer.produce(topic, value)
        assert producer.flush(30) == 0


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    issuer, port = Issuer(), free_port()
    security = "org.apache.kafka.common.security.oauthbearer"
    more = {
        "listeners": f"PLAINTEXT://127.0.0.1:{{port}},CONTROLLER://127.0.0.1:{{controller}},SASL://127.0.0.1:{port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{{port}},SASL://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.sasl.oauthbearer.sasl.jaas.config": f"{security}.OAuthBearerLoginModule required;",
        "listener.name.sasl.oauthbearer.sasl.server.callback.handler.class": (
            f"{security}.OAuthBearerValidatorCallbackHandler"
        ),
        "sasl.oauthbearer.jwks.endpoint.url": issuer.keys_url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": issuer.url,
        "sasl.oauthbearer.clock.skew.seconds": "0",
        "connections.max.reauth.ms": "3600000",
    }
    _Cluster.allowed_urls = issuer.keys_url
    cluster = _Cluster("eu", kafka_jars(), tmp_path_factory.mktemp("guarded"), more)
    try:
        yield Guarded(cluster, f"127.0.0.1:{port}", issuer)
    finally:
        cluster.kill()
        issuer.close()


def mesh_of(
    guarded: Guarded,
    topic: str,
    login: Mapping[str, Any],
    folder: Path,
    engine: str = "auto",
    keeps: Sequence[str] = (),
) -> tuple[MeshProcess, str, str]:
    """A mesh with a pool and a relay over the cluster, and their addresses. keeps: journal and store, or not."""
    ports = free_ports(6)
    pool, relay = f"127.0.0.1:{ports[0]}", f"127.0.0.1:{ports[2]}"
    cluster = {
        "name": "eu",
        "bootstrap_servers": guarded.address,
        "engine": engine,
        "properties": {"security.protocol": "sasl_plaintext"},
        "login": login,
    }
    sources = [{"name": topic, "from": [{"cluster": "eu", "topic": topic}]}]
    virtual_clusters = [
        {
            "name": "pool",
            "listen": pool,
            "coordinator": f"127.0.0.1:{ports[1]}",
            "target": {"pool": {"topics": sources, "groups": ["*"], "start": "earliest"}},
        },
        {
            "name": "relay",
            "listen": relay,
            "nodes": {"ports": f"{ports[3]}-{ports[5]}", "ids": [1]},
            "target": {"relay": {"cluster": "eu"}},
        },
    ]
    kept = {kind: {"cluster": "eu", "topic": f"kafka-mesh.{kind}", "create": True} for kind in keeps}
    mesh = MeshProcess(folder, "mesh", {**kept, "clusters": [cluster], "virtual_clusters": virtual_clusters})
    return mesh, pool, relay


def consumer_of(address: str, group: str, topic: str) -> Consumer:
    consumer = Consumer({"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    return consumer


def take(consumer: Consumer, values: set[bytes]) -> None:
    for message in consumer.consume(100, 0.2):
        if message.error() is None:
            values.add(message.value() or b"")


OIDC = {"client_id": CLIENT, "client_secret": SECRET}


@pytest.mark.parametrize("engine", ["auto", pytest.param("librdkafka", marks=pytest.mark.long)])
def test_records_come_and_go_while_tokens_are_renewed(guarded: Guarded, tmp_path: Path, engine: str) -> None:
    """Tokens last a few seconds: each connection of the mesh, and each of librdkafka, goes through several."""
    topic = f"renewed-{engine}"
    guarded.cluster.create_topic(topic, 1)
    # librdkafka asks for a new token after 0.8 of the lifetime, and authenticates again after 0.9 of it. If the new
    # token is not there by then, it does so with the old one, and again before that ends. The last tenth has to be more
    # than a second: brokers refuse two authentications within one, with ILLEGAL_SASL_STATE.
    guarded.issuer.lifetime, before = 20, len(guarded.issuer.given)
    mesh, pool, relay = mesh_of(
        guarded, topic, {"oidc": {"url": guarded.issuer.token_url, **OIDC}}, tmp_path, engine, ("journal", "store")
    )
    consumer, producer = consumer_of(pool, f"group-{engine}", topic), Producer({"bootstrap.servers": relay})
    seen: set[bytes] = set()
    sent: set[bytes] = set()
    refused: list[Any] = []
    try:

        def has_gone_on() -> bool:
            if sent <= seen:
                value = b"%d" % len(sent)
                producer.produce(topic, value, on_delivery=lambda error, _: refused.append(error) if error else None)
                producer.flush(30)
                sent.add(value)
            take(consumer, seen)
            return len(guarded.issuer.given) - before >= 3 and sent <= seen

        eventually("records through three tokens", has_gone_on, timeout=90, interval=0)
        consumer.commit(asynchronous=False)
        assert refused == []
        assert guarded.cluster.committed(f"group-{engine}") == {(topic, 0): len(sent)}
        engines = {labels["engine"] for labels, value in mesh.samples("kafka_mesh_engine_bytes_in_total") if value}
        assert engines == {"raw" if engine == "auto" else "librdkafka"}
        told = [line for line in mesh.log_entries() if line["level"] in ("warning", "error")]
        # A new coordinator is still loading when the store asks it for a producer id.
        assert [line for line in told if not line["event"].startswith("GETPID")] == []
        assert "store loaded" in [line["event"] for line in mesh.log_entries()]
        assert mesh.metric("kafka_mesh_journal_events_total", result="written") > 0
        assert SECRET not in str(mesh.log_entries())
    finally:
        guarded.issuer.lifetime = 300
        consumer.close()
        mesh.kill()


@pytest.mark.long
def test_an_issuer_that_is_down_and_comes_back(guarded: Guarded, tmp_path: Path) -> None:
    """The mesh logs the reason, and starts by itself when there are tokens."""
    topic = "down"
    guarded.cluster.create_topic(topic, 1)
    guarded.feed(topic, b"x")
    guarded.issuer.fails = 3
    mesh, pool, _ = mesh_of(guarded, topic, {"oidc": {"url": guarded.issuer.token_url, **OIDC}}, tmp_path)
    consumer = consumer_of(pool, "group-down", topic)
    seen: set[bytes] = set()
    try:
        told = [line for line in mesh.log_entries() if line["event"] == "token cannot be fetched"]
        assert [(line["cluster"], line["reason"]) for line in told] == [("eu", "the issuer answered 503")]

        def has_come() -> bool:
            take(consumer, seen)
            return seen == {b"x"}

        eventually("the record", has_come, timeout=60, interval=0)
    finally:
        guarded.issuer.fails = 0
        consumer.close()
        mesh.kill()


def refusal_of(guarded: Guarded, login: Mapping[str, Any]) -> str:
    """The reason why a connection of our own is refused with it; "" if it is not."""
    properties = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "OAUTHBEARER"}
    tokens = TokenSource("eu", fetch_of(LoginConfig.model_validate(login)))
    host, _, port = guarded.address.partition(":")

    async def ask() -> str:
        link = BrokerLink(host, int(port), connection_settings_of({**properties, "oauth_cb": tokens}))
        try:
            assert await link.versions()
        except Unreachable as problem:
            return str(problem)
        finally:
            link.close()
        return ""

    return asyncio.run(ask())


def test_every_kind_of_login_is_let_in_and_a_bad_token_is_not(guarded: Guarded, tmp_path: Path) -> None:
    key, token = tmp_path / "key.pem", tmp_path / "token"
    key.write_bytes(pem(guarded.issuer.client_key))
    oidc = {"url": guarded.issuer.token_url, "client_id": CLIENT}
    token.write_text(guarded.issuer.token())
    by_file = {"file": {"path": str(token)}, "extensions": {"traceId": "1"}}
    by_post = {"oidc": {**oidc, "client_secret": SECRET, "authentication": "client_secret_post"}}
    for login in (by_file, by_post, {"oidc": {**oidc, "private_key_file": str(key)}}):
        assert refusal_of(guarded, login) == ""
    token.write_text(guarded.issuer.token(aud="another"))
    assert refusal_of(guarded, by_file) == 'SASL authentication was refused: {"status":"invalid_token"}'
    wrong = {"oidc": {**oidc, "client_secret": "wrong"}}
    assert refusal_of(guarded, wrong) == "no token: the issuer answered 401: invalid_client nobody I know"
