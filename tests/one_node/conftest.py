"""A cluster of several brokers, and a mesh that shows it as one node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.integration.jars import kafka_jars
from tests.integration.kafka import SHORT_SESSIONS
from tests.integration.relay_mesh import RelayMesh
from tests.relay.cluster import SeveralBrokers
from tests.relay.questions import PROPERTIES

EXAMPLE = Path(__file__).parents[2] / "config" / "relay-one-address.yaml"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeveralBrokers]:
    """The cluster of all tests here, which run in one process. Acknowledged records survive the death of a leader."""
    more = {**PROPERTIES, **SHORT_SESSIONS, "min.insync.replicas": "2"}
    cluster = SeveralBrokers("eu", kafka_jars(), tmp_path_factory.mktemp("several"), more=more)
    yield cluster
    cluster.end()


@pytest.fixture(scope="session")
def mesh(cluster: SeveralBrokers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RelayMesh]:
    """`config/relay-one-address.yaml`, with another address: one for all brokers of the cluster."""
    (configured,) = yaml.safe_load(EXAMPLE.read_text())["virtual_clusters"]
    listener = {key: value for key, value in configured.items() if key not in ("name", "listen", "target")}
    mesh = RelayMesh(tmp_path_factory.mktemp("mesh"), cluster.every_address, listener=listener)
    yield mesh
    mesh.kill()
