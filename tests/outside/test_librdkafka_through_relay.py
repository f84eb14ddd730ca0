"""librdkafka's own tests through a relay, and directly in the same minutes: tests that pass on the brokers pass
here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.relay_mesh import RelayMesh
from tests.outside.building import librdkafka_sources
from tests.outside.conftest import BROKER
from tests.outside.kafka_scripts import write_scripts
from tests.outside.librdkafka_of_relays import NOT_RUN, RUN
from tests.outside.running import run
from tests.outside.test_librdkafka import environment
from tests.relay.cluster import NODES, SeveralBrokers

pytestmark = [pytest.mark.long, pytest.mark.outside]
RULES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
PATIENT = {
    # A node that a busy machine delays should keep its leadership.
    "broker.session.timeout.ms": "18000",
    "replica.lag.time.max.ms": "30000",
}
SHORT_SESSIONS = {"group.min.session.timeout.ms": "100"}
"""Some tests ask for such short sessions."""
SECONDS, PATIENCE = 400, 3
"""Seconds for a test, and the factor by which it may exceed its own time limit."""


@dataclass(frozen=True, slots=True)
class RelayBed:
    """doors: the addresses where clients begin, by way. scripts: a folder with Kafka's scripts."""

    doors: dict[str, str]
    folder: Path
    scripts: Path


@pytest.fixture(scope="module")
def relay_bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RelayBed]:
    librdkafka_sources()
    if missing := missing_programs():
        pytest.skip(f"a real Apache Kafka needs Java 17 and Maven; not found: {', '.join(missing)}")
    folder = tmp_path_factory.mktemp("librdkafka")
    more = {**BROKER, **RULES, **PATIENT, **SHORT_SESSIONS}
    cluster = SeveralBrokers("eu", kafka_jars(), folder / "kafka", more=more)
    relay = RelayMesh(folder, cluster.every_address, NODES)
    doors = {"directly": cluster.every_address, "through the relay": relay.bootstrap_servers}
    yield RelayBed(doors, folder, write_scripts(cluster, folder / "scripts"))
    relay.kill()
    cluster.end()


@pytest.mark.timeout(2 * SECONDS + 30)
@pytest.mark.parametrize("name", RUN)
def test_librdkafka(relay_bed: RelayBed, name: str) -> None:
    sources = librdkafka_sources()
    for way, address in relay_bed.doors.items():
        configuration = relay_bed.folder / "test.conf"
        configuration.write_text(f"bootstrap.servers={address}\ntest.timeout.multiplier={PATIENCE}\n")
        told = {
            "TESTS": name,
            "RDKAFKA_TEST_CONF": str(configuration),
            "TEST_KAFKA_VERSION": "4.3.1",
            "KAFKA_PATH": str(relay_bed.scripts),
            "BROKERS": address,
        }
        command: list[str | Path] = [sources / "tests" / "test-runner", "-p1", "-L"]
        log = relay_bed.folder / f"{name} {way}.log"
        said = run(command, {**environment(sources), **told}, log, timeout=SECONDS)
        assert f"Test {name} PASSED" in said, f"{way}: not passed"


def test_librdkafka_has_the_tests_that_are_named() -> None:
    files = {path.stem for path in (librdkafka_sources() / "tests").glob("0*.c*")}
    numbers = {name.partition("_")[0] for name in (*RUN, *NOT_RUN)}
    assert numbers <= {name.partition("-")[0] for name in files}
