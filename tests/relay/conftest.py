"""Clusters for the tests of a relay."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.jars import kafka_jars
from tests.relay.cluster import SeveralBrokers
from tests.relay.questions import PROPERTIES


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeveralBrokers]:
    """Three brokers, of the version with which all clients are tested."""
    cluster = SeveralBrokers("eu", kafka_jars(), tmp_path_factory.mktemp("several"), more=PROPERTIES)
    yield cluster
    cluster.end()
