"""The bench of a client test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.bench import JAVASCRIPT, KNOWN_TO_ALL, ClientBench
from tests.integration.kafka import KafkaCluster


@pytest.fixture
def bench(
    kafka_pair: tuple[KafkaCluster, KafkaCluster], tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[ClientBench]:
    """Two clusters with an empty topic of three partitions each; `start_mesh` puts a mesh in front of them.

    The feeds use the codecs that the client of the test knows. The log of that mesh must have no error at the end.
    """
    name = re.sub(r"\W+|_", "-", request.node.name.removeprefix("test_")).strip("-")
    bench = ClientBench(kafka_pair, name, tmp_path)
    parameters = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    if parameters.get("client") in JAVASCRIPT:
        bench.compress_with(*KNOWN_TO_ALL)
    bench.create_topics()
    yield bench
    bench.end()
    bench.assert_no_errors_of_the_mesh()
