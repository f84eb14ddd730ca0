"""librdkafka's mock cluster, inside of this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.mock_cluster import EmbeddedCluster


@pytest.fixture(scope="session")
def mock_cluster() -> Iterator[str]:
    """The bootstrap servers of one mock broker. Its topics have four partitions, and a request for one creates it."""
    cluster = EmbeddedCluster()
    yield cluster.bootstrap_servers
    del cluster
