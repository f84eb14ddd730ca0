"""All of kgo's own tests through a relay, and directly: what passes on a broker passes here."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.relay_mesh import RelayMesh
from tests.outside.building import kgo_tests
from tests.outside.conftest import BROKER

pytestmark = [pytest.mark.long, pytest.mark.outside]
FAILS_ANYWHERE = frozenset({"TestOptValuesCoversEveryOption"})
"""It reads sources of kgo that are not where a built test runs."""
SKIPPED = frozenset({"TestIssueProduceBrokerTooOldFailsRecords", "TestSCRAMAuth", "TestSCRAMAuthBadCredentials"})
"""They need an older broker, or one with SCRAM."""


@pytest.fixture(params=["directly", "through the relay"])
def address(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """Where the tests begin."""
    if missing := missing_programs():
        pytest.skip(f"a real Apache Kafka needs Java 17 and Maven; not found: {', '.join(missing)}")
    cluster = KafkaCluster("eu", kafka_jars(), tmp_path / "kafka", BROKER)
    relay = RelayMesh(tmp_path, cluster.bootstrap_servers)
    yield cluster.bootstrap_servers if request.param == "directly" else relay.bootstrap_servers
    relay.kill()
    cluster.kill()


@pytest.mark.timeout(900)
def test_every_test(address: str, tmp_path: Path) -> None:
    log = tmp_path / "kgo.log"
    environment = {
        **os.environ,
        "KGO_SEEDS": address,
        "KGO_TEST_RF": "1",
        "KGO_TEST_RECORDS": "20000",
        "KGO_TEST_MAX_TOPIC_PARTS": "4",
    }
    command: list[str | Path] = [kgo_tests(), "-test.v", "-test.timeout", "800s", "-test.parallel", "2"]
    with log.open("wb") as out:
        subprocess.run(command, env=environment, cwd=tmp_path, stdout=out, stderr=out, timeout=850, check=False)
    said = log.read_text(errors="replace")
    outcome = {name: word for word, name in re.findall(r"^--- (PASS|FAIL|SKIP): (\w+) ", said, re.MULTILINE)}
    assert {name for name, word in outcome.items() if word == "FAIL"} <= FAILS_ANYWHERE, said[-5_000:]
    assert {name for name, word in outcome.items() if word == "SKIP"} <= SKIPPED
    for name in ("TestGroupETL", "TestTxnEtl", "TestShareGroup", "TestShareGroupETL", "TestConsumeRegex"):
        assert outcome[name] == "PASS"
