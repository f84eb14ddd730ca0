"""All of kgo's own tests through a union, twice. In the first run the second cluster has all topics, so every node id,
address and producer id differs from the broker's. In the second run both clusters have topics, by their names, which
are random: a group has topics of two clusters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.kafka import KafkaCluster
from tests.outside.conftest import BROKER
from tests.outside.kgo_whole import kgo_outcome
from tests.router.union_mesh import UnionMesh

pytestmark = [pytest.mark.long, pytest.mark.outside]
CONFIG = {"topics": [{"prefix": "eu-only.", "route": "eu"}, {"prefix": "", "route": "us"}], "default": "us"}
FAILS = frozenset({"TestOptValuesCoversEveryOption"})
"""It reads source files of kgo that a built test does not have."""


OF_ONE_HOME = frozenset({"TestTxnEtl"})
"""A transaction has one home. This test writes to topics of both clusters, is refused, and retries for ever."""
SPLIT = {
    "topics": [*({"pattern": f"{digit}*", "route": "eu"} for digit in "01234567"), {"prefix": "", "route": "us"}],
    "default": "eu",
}
"""kgo's tests name topics with random hexadecimal digits."""


@pytest.fixture
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if missing := missing_programs():
        pytest.skip(f"a real Apache Kafka needs Java 17 and Maven; not found: {', '.join(missing)}")
    for name in ("eu", "us"):
        (tmp_path / name).mkdir()
    eu, us = (KafkaCluster(name, kafka_jars(), tmp_path / name, BROKER) for name in ("eu", "us"))
    union = UnionMesh(tmp_path, eu, us, request.param)
    yield union.bootstrap_servers
    union.kill()
    eu.kill()
    us.kill()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("address", [CONFIG], indirect=True)
def test_every_test(address: str, tmp_path: Path) -> None:
    outcome, said = kgo_outcome(address, tmp_path)
    assert {name for name, word in outcome.items() if word == "FAIL"} == FAILS, said[-5_000:]
    for name in (
        "TestGroupETL",
        "TestTxnEtl",
        "Test848RegexBrokerResolves",
        "TestShareGroup",
        "TestShareGroupETL",
        "TestConsumeRegex",
    ):
        assert outcome[name] == "PASS"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("address", [SPLIT], indirect=True)
def test_over_both_clusters(address: str, tmp_path: Path) -> None:
    outcome, said = kgo_outcome(address, tmp_path, without=OF_ONE_HOME)
    assert {name for name, word in outcome.items() if word == "FAIL"} == FAILS, said[-5_000:]
    for name in (
        "TestGroupETL",
        "TestShareGroup",
        "TestShareGroupETL",
        "TestShareGroupOffsetsAdmin",
        "TestConsumeRegex",
    ):
        assert outcome[name] == "PASS"
