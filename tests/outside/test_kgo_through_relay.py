"""All of kgo's own tests through a relay, and directly: tests that pass on a broker pass here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.relay_mesh import RelayMesh
from tests.outside.conftest import BROKER
from tests.outside.kgo_whole import kgo_outcome

pytestmark = [pytest.mark.long, pytest.mark.outside]
FAILS_ANYWHERE = frozenset({"TestOptValuesCoversEveryOption"})
"""It reads source files of kgo that a built test does not have."""
SKIPPED = frozenset({"TestIssueProduceBrokerTooOldFailsRecords", "TestSCRAMAuth", "TestSCRAMAuthBadCredentials"})
"""They need an older broker, or one with SCRAM."""


@pytest.fixture(params=["directly", "through the relay"])
def address(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address at which the tests begin."""
    if missing := missing_programs():
        pytest.skip(f"a real Apache Kafka needs Java 17 and Maven; not found: {', '.join(missing)}")
    cluster = KafkaCluster("eu", kafka_jars(), tmp_path / "kafka", BROKER)
    relay = RelayMesh(tmp_path, cluster.bootstrap_servers)
    yield cluster.bootstrap_servers if request.param == "directly" else relay.bootstrap_servers
    relay.kill()
    cluster.kill()


@pytest.mark.timeout(900)
def test_every_test(address: str, tmp_path: Path) -> None:
    outcome, said = kgo_outcome(address, tmp_path)
    assert {name for name, word in outcome.items() if word == "FAIL"} <= FAILS_ANYWHERE, said[-5_000:]
    assert {name for name, word in outcome.items() if word == "SKIP"} <= SKIPPED
    for name in ("TestGroupETL", "TestTxnEtl", "TestShareGroup", "TestShareGroupETL", "TestConsumeRegex"):
        assert outcome[name] == "PASS"
