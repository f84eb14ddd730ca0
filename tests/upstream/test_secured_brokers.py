"""How a real broker lets the raw engine in: TLS with and without a client certificate, SASL PLAIN and SCRAM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from mesh.records.spans import CommitPosition
from mesh.upstream.engine import Received
from mesh.upstream.links.connection import BrokerLink
from mesh.upstream.links.connection_settings import connection_settings_of
from mesh.upstream.links.handshake import Unreachable
from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import free_port
from tests.integration.security.certificates import Authority, Pair
from tests.upstream.harness import RunningEngine, engine, new_name, produce, run, source

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
USER, PASSWORD = "mesh", "right, = password"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
LISTENERS = ("SASL_PLAINTEXT", "SSL", "SASL_SSL")


@dataclass(frozen=True, slots=True)
class Doors:
    """A broker with a listener for each protocol; SSL asks for a certificate of the authority. ports: by protocol."""

    cluster: KafkaCluster
    ports: Mapping[str, int]
    authority: Authority
    client: Pair

    def bootstrap(self, protocol: str) -> str:
        return f"localhost:{self.ports[protocol]}"

    def properties(self, protocol: str, mechanism: str = "", **more: str) -> dict[str, str]:
        """A user's properties; more: with underscores for dots."""
        found = {"security.protocol": protocol.lower()}
        if "SSL" in protocol:
            found["ssl.ca.location"] = str(self.authority.certificate)
        if protocol == "SSL":
            found |= {
                "ssl.certificate.location": str(self.client.certificate),
                "ssl.key.location": str(self.client.key),
            }
        if mechanism:
            found |= {"sasl.mechanism": mechanism, "sasl.username": USER, "sasl.password": PASSWORD}
        return {**found, **{name.replace("_", "."): value for name, value in more.items()}}


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    if missing := missing_programs():
        pytest.skip(f"a real Apache Kafka needs Java 17 and Maven; not found: {', '.join(missing)}")
    folder = tmp_path_factory.mktemp("doors")
    authority = Authority(folder / "certificates")
    ports = {protocol: free_port() for protocol in LISTENERS}
    cluster = KafkaCluster("doors", kafka_jars(), folder / "broker", _broker(authority, folder, ports))
    try:
        _add_scram_user(cluster)
        yield Doors(cluster, ports, authority, authority.issue("client"))
    finally:
        cluster.kill()


def _broker(authority: Authority, folder: Path, ports: Mapping[str, int]) -> Mapping[str, str]:
    pair = authority.issue("broker")
    store = folder / "broker.pem"
    store.write_bytes(pair.key.read_bytes() + pair.certificate.read_bytes())
    outer = ",".join(f"{protocol}://localhost:{port}" for protocol, port in ports.items())
    everywhere = outer.replace("localhost", "0.0.0.0")  # also addresses without a valid certificate
    modules = {
        "PLAIN": f'plain.PlainLoginModule required user_{USER}="{PASSWORD}"',
        "SCRAM-SHA-256": "scram.ScramLoginModule required",
        "SCRAM-SHA-512": "scram.ScramLoginModule required",
    }
    logins = {
        f"listener.name.{protocol.lower()}.{mechanism.lower()}.sasl.jaas.config": (
            f"org.apache.kafka.common.security.{module};"
        )
        for protocol in LISTENERS
        if protocol.startswith("SASL")
        for mechanism, module in modules.items()
    }
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{{port}},CONTROLLER://127.0.0.1:{{controller}},{everywhere}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{{port}},{outer}",
        "listener.security.protocol.map": ",".join(f"{name}:{name}" for name in ("PLAINTEXT", *LISTENERS))
        + ",CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        # Sessions end during a test, so that the next one must begin in time (KIP-368).
        "connections.max.reauth.ms": "4000",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "listener.name.ssl.ssl.client.auth": "required",
        **logins,
    }


def _add_scram_user(cluster: KafkaCluster) -> None:
    admin = cluster.admin()
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        user = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
        admin.alter_user_scram_credentials([user])[USER].result(30)


WAYS_IN = [
    ("SSL", ""),
    *(("SASL_PLAINTEXT", mechanism) for mechanism in MECHANISMS),
    ("SASL_SSL", "PLAIN"),
    ("SASL_SSL", "SCRAM-SHA-512"),
]


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS_IN)
def test_records_come_over_our_own_connections(doors: Doors, protocol: str, mechanism: str) -> None:
    topic, group = new_name("topic"), new_name("group")
    doors.cluster.create_topic(topic, 2)
    produce(doors.cluster.bootstrap_servers, topic, 50)

    async def test() -> None:
        properties = doors.properties(protocol, mechanism)
        async with engine(doors.bootstrap(protocol), group, topic, reads_with="raw", properties=properties) as running:
            await running.ends(2)
            assert [record.offset for record in running.records(topic)] == list(range(50))
            assert {event.engine for event in running.all(Received)} == {"raw"}
            assert await running.commit({source(topic): CommitPosition(50)}) == {source(topic): 0}

    run(test)


def test_authorities_may_stand_in_the_property_itself(doors: Doors) -> None:
    properties = doors.properties("SASL_SSL", "PLAIN", ssl_ca_pem=doors.authority.certificate.read_text())
    del properties["ssl.ca.location"]

    async def test() -> None:
        link = BrokerLink("localhost", doors.ports["SASL_SSL"], connection_settings_of(properties))
        assert await link.versions()
        link.close()

    run(test)


def has_come(running: RunningEngine, topic: str, count: int) -> bool:
    return [record.offset for record in running.records(topic)] == list(range(count))


def test_sessions_that_end_cost_nothing(doors: Doors) -> None:
    """Several times over; nothing is reported, and no record comes twice."""
    topic = new_name("topic")
    doors.cluster.create_topic(topic, 1)

    async def test() -> None:
        properties = doors.properties("SASL_PLAINTEXT", "SCRAM-SHA-256")
        bootstrap = doors.bootstrap("SASL_PLAINTEXT")
        async with engine(bootstrap, new_name("group"), topic, reads_with="raw", properties=properties) as running:
            await running.ends()
            link = BrokerLink("localhost", doors.ports["SASL_PLAINTEXT"], connection_settings_of(properties))
            used: set[object] = set()
            count = 0
            while len(used) < 3:
                produce(doors.cluster.bootstrap_servers, topic, 5)
                count += 5
                await running.until(partial(has_come, running, topic, count))
                await link.versions()
                used.add(link._connection)
            link.close()

    run(test)


REFUSALS = [
    ("SASL_PLAINTEXT", "PLAIN", {"sasl_password": "wrong"}, "SASL authentication was refused"),
    ("SASL_PLAINTEXT", "SCRAM-SHA-256", {"sasl_password": "wrong"}, "SASL authentication was refused"),
    ("SASL_SSL", "SCRAM-SHA-512", {"sasl_username": "nobody"}, "SASL authentication was refused"),
    ("SASL_SSL", "PLAIN", {"ssl_ca_location": ""}, "certificate verify failed"),
]


@pytest.mark.parametrize(("protocol", "mechanism", "more", "reason"), REFUSALS)
def test_why_it_is_not_let_in(
    doors: Doors, protocol: str, mechanism: str, more: Mapping[str, str], reason: str
) -> None:
    async def test() -> None:
        link = BrokerLink(
            "localhost", doors.ports[protocol], connection_settings_of(doors.properties(protocol, mechanism, **more))
        )
        with pytest.raises(Unreachable, match=reason) as refusal:
            await link.versions()
        link.close()
        assert PASSWORD not in str(refusal.value)

    run(test)


def test_a_name_that_is_not_in_the_certificate(doors: Doors) -> None:
    async def refused() -> None:
        link = BrokerLink(
            "127.0.0.2", doors.ports["SASL_SSL"], connection_settings_of(doors.properties("SASL_SSL", "PLAIN"))
        )
        with pytest.raises(Unreachable, match=r"not valid for '127\.0\.0\.2'"):
            await link.versions()
        link.close()

    run(refused)


def test_without_a_client_certificate(doors: Doors) -> None:
    """A broker that requires one refuses the connection after the handshake (TLS 1.3): at the first request."""
    properties = {"security.protocol": "ssl", "ssl.ca.location": str(doors.authority.certificate)}

    async def test() -> None:
        link = BrokerLink("localhost", doors.ports["SSL"], connection_settings_of(properties))
        with pytest.raises(Unreachable):
            await link.versions()
        link.close()

    run(test)
