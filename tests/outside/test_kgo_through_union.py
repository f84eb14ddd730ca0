"""kgo's own tests through unions: all of them where everything belongs to the second cluster, so that every node id,
address and producer id is another one than the broker's; those of groups where topics are in both."""

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
SPLIT = {
    "topics": [*({"prefix": each, "route": "us"} for each in "02468ace"), {"prefix": "", "route": "eu"}],
    "default": "eu",
}
"""kgo's names are hexadecimal: half of its topics are us's."""
GROUPS = ("TestGroupETL", "TestGroupSimple", "TestShareGroupETL", "TestIssue865", "TestPauseIssue489")
FAILS = frozenset({"TestOptValuesCoversEveryOption", "Test848RegexBrokerResolves"})
"""The first reads sources of kgo that are not where a built test runs. To the second a union has no features (KIP-584),
so kgo takes the classic protocol, which assigns no internal topics."""


@pytest.fixture
def address(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    if missing := missing_programs():
        pytest.skip(f"a real Apache Kafka needs Java 17 and Maven; not found: {', '.join(missing)}")
    for name in ("eu", "us"):
        (tmp_path / name).mkdir()
    eu, us = (KafkaCluster(name, kafka_jars(), tmp_path / name, BROKER) for name in ("eu", "us"))
    union = UnionMesh(tmp_path, eu, us, getattr(request, "param", CONFIG))
    yield union.bootstrap_servers
    union.kill()
    eu.kill()
    us.kill()


@pytest.mark.timeout(900)
def test_every_test(address: str, tmp_path: Path) -> None:
    outcome, said = kgo_outcome(address, tmp_path)
    assert {name for name, word in outcome.items() if word == "FAIL"} == FAILS, said[-5_000:]
    for name in ("TestGroupETL", "TestTxnEtl", "TestShareGroup", "TestShareGroupETL", "TestConsumeRegex"):
        assert outcome[name] == "PASS"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("address", [SPLIT], indirect=True, ids=["split"])
def test_groups_over_both_clusters(address: str, tmp_path: Path) -> None:
    outcome, said = kgo_outcome(address, tmp_path, f"^({'|'.join(GROUPS)})$")
    assert {name for name, word in outcome.items() if word != "PASS"} == set(), said[-5_000:]
    assert outcome.keys() == set(GROUPS)
