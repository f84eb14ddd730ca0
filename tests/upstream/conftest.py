"""librdkafka's mock cluster, inside of this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer


@pytest.fixture(scope="session")
def mock_cluster() -> Iterator[str]:
    """The bootstrap servers of one mock broker. Its topics have four partitions, and a request for one creates it."""
    host = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = host.list_topics(timeout=10).brokers.values()
    yield f"{broker.host}:{broker.port}"
    del host
