"""A cluster behind a mesh, of which programs see one address, and the mark of all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import Mesh
from tests.outside.front import Front

BROKER = {"auto.create.topics.enable": "true", "num.partitions": "4"}
"""As these programs expect it."""


@dataclass(frozen=True, slots=True)
class Bed:
    """address: of the front. folder: for what the programs write."""

    address: str
    mesh: Mesh
    folder: Path


@pytest.fixture(scope="session")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    if missing := missing_programs():
        pytest.skip(f"a real Apache Kafka needs Java 17 and Maven; not found: {', '.join(missing)}")
    folder = tmp_path_factory.mktemp("outside")
    cluster = KafkaCluster("eu", kafka_jars(), folder / "kafka", BROKER)
    front = Front(cluster.bootstrap_servers)
    pool = {"topics": [{"prefix": "", "cluster": "eu"}], "share": {"auto_offset_reset": "earliest"}}
    mesh = Mesh([cluster], [], folder, pool, relay=front)
    yield Bed(mesh.bootstrap_servers, mesh, folder)
    mesh.kill()
    front.close()
    cluster.kill()
