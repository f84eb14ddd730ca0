"""A union in front of two clusters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.kafka import KafkaCluster
from tests.router.union_mesh import UnionMesh


@pytest.fixture(scope="module")
def union(
    kafka_pair: tuple[KafkaCluster, KafkaCluster], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[UnionMesh]:
    mesh = UnionMesh(tmp_path_factory.mktemp("union"), *kafka_pair)
    yield mesh
    mesh.kill()
