"""The bench of an acceptance test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.bench import Bench
from tests.integration.kafka import KafkaCluster


@pytest.fixture
def bench(
    kafka_pair: tuple[KafkaCluster, KafkaCluster], tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Bench]:
    """Two clusters with an empty topic of three partitions each; `start_mesh` puts a mesh in front of them."""
    bench = Bench(kafka_pair, re.sub(r"\W+|_", "-", request.node.name.removeprefix("test_")).strip("-"), tmp_path)
    bench.create_topics()
    yield bench
    bench.end()
