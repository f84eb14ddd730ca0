from __future__ import annotations

import pytest

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.pool.apis.harness import ENDPOINT, Client, Mesh, versions


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_CLUSTER))
def test_two_nodes(version: int) -> None:
    answer = Client(Mesh()).ask(ApiKey.DESCRIBE_CLUSTER, version)
    assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, ENDPOINT.cluster_id, 1)
    nodes = {each.broker_id: (each.host, each.port) for each in answer.brokers}
    assert nodes == {
        1: (ENDPOINT.broker.host, ENDPOINT.broker.port),
        2: (ENDPOINT.coordinator.host, ENDPOINT.coordinator.port),
    }


def test_there_are_no_controllers() -> None:
    answer = Client(Mesh()).ask(ApiKey.DESCRIBE_CLUSTER, 1, endpoint_type=2)
    assert (answer.error_code, answer.endpoint_type) == (ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, 2)
    assert answer.error_message == "there are no controllers here"
