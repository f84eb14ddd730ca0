"""A cluster behind a mesh, of which programs see one address, and the mark of all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.jars import kafka_jars, missing_programs
from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import Mesh
from tests.integration.processes import eventually
from tests.outside.front import Front

SHARE_OF_KGO = {"auto_offset_reset": "earliest"}
"""kgo does not set the start of its groups."""
BROKER = {"auto.create.topics.enable": "true", "num.partitions": "4"}
"""The settings that these programs expect."""


@dataclass(frozen=True, slots=True)
class Bed:
    """address: of the front. folder: for the files of the programs."""

    address: str
    mesh: Mesh
    folder: Path


@pytest.fixture(scope="session")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    with made_bed(tmp_path_factory.mktemp("outside"), SHARE_OF_KGO) as bed:
        yield bed


@contextmanager
def made_bed(folder: Path, share: Mapping[str, str]) -> Iterator[Bed]:
    """share: the settings of the pool's share groups."""
    if missing := missing_programs():
        pytest.skip(f"a real Apache Kafka needs Java 17 and Maven; not found: {', '.join(missing)}")
    cluster = KafkaCluster("eu", kafka_jars(), folder / "kafka", BROKER)
    front = Front(cluster.bootstrap_servers)
    pool = {"topics": [{"prefix": "", "cluster": "eu"}], "share": dict(share)}
    store = {"cluster": "eu", "topic": "kafka-mesh.store", "create": True}
    process = {"process_id": "mesh-1", "store": store, "metadata_refresh": "1s"}
    mesh = Mesh([cluster], [], folder, pool, relay=front, process=process)
    # Until then the mesh keeps nothing of groups, and kgo configures one at once, and only once.
    eventually("the store is read", lambda: any(each["event"] == "store loaded" for each in mesh.log_entries()))
    yield Bed(mesh.bootstrap_servers, mesh, folder)
    mesh.kill()
    front.close()
    cluster.kill()
