"""Clusters of this folder alone, since other tests must not see their faults. Tests of one group of pytest-xdist share
theirs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.bed import Bed
from tests.faults.clusters import ReplicatedCluster, SecuredCluster
from tests.integration.bench import Bench
from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.kafka import KafkaCluster


def _require_java() -> None:
    if missing := missing_programs():
        pytest.skip(f"a real Apache Kafka needs Java 17 and Maven; not found: {', '.join(missing)}")


@pytest.fixture(scope="session")
def replicated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedCluster]:
    _require_java()
    cluster = ReplicatedCluster("us", kafka_jars(), tmp_path_factory.mktemp("replicated"))
    yield cluster
    cluster.kill()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    _require_java()
    cluster = SecuredCluster("us", kafka_jars(), tmp_path_factory.mktemp("secured"))
    yield cluster
    cluster.kill()


def _bed(other: KafkaCluster, healthy: KafkaCluster, folder: Path, request: pytest.FixtureRequest) -> Iterator[Bed]:
    topic = re.sub(r"\W+|_", "-", request.node.name.removeprefix("test_")).strip("-")
    bench = Bench((healthy, other), topic, folder)
    bench.create_topics()
    try:
        yield Bed(bench)
    finally:
        bench.end()


@pytest.fixture
def bed(kafka_pair: tuple[KafkaCluster, KafkaCluster], tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Bed]:
    """A bed with one broker for each cluster."""
    yield from _bed(kafka_pair[1], kafka_pair[0], tmp_path, request)


@pytest.fixture
def bed_with_two_brokers(
    replicated: ReplicatedCluster, kafka: KafkaCluster, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Bed]:
    yield from _bed(replicated, kafka, tmp_path, request)


@pytest.fixture
def bed_with_security(
    secured: SecuredCluster, kafka: KafkaCluster, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Bed]:
    yield from _bed(secured, kafka, tmp_path, request)
