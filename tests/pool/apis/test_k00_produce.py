from __future__ import annotations

import pytest

from mesh.pool.apis.k00_produce import MESSAGE
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode, ProtocolError
from tests.pool.apis.harness import Client, Mesh, versions
from tests.pool.apis.messages import response

DATA = tuple(
    {"name": name, "partition_data": tuple({"index": index, "records": b"records"} for index in (0, 7))}
    for name in ("orders", "unknown")
)


@pytest.mark.parametrize("version", versions(ApiKey.PRODUCE))
@pytest.mark.parametrize("acks", [1, -1])
def test_every_partition_is_refused(version: int, acks: int) -> None:
    answer = Client(Mesh()).ask(ApiKey.PRODUCE, version, acks=acks, timeout=1_000, topic_data=DATA)
    refused = {"error_code": ErrorCode.POLICY_VIOLATION, "base_offset": -1, "error_message": MESSAGE}
    partitions = tuple({"index": index, **refused} for index in (0, 7))
    topics = tuple({"name": name, "partition_responses": partitions} for name in ("orders", "unknown"))
    assert answer == response(ApiKey.PRODUCE, version, responses=topics)


@pytest.mark.parametrize("version", versions(ApiKey.PRODUCE))
def test_without_acks_the_connection_ends(version: int) -> None:
    with pytest.raises(ProtocolError) as caught:
        Client(Mesh()).send(ApiKey.PRODUCE, version, acks=0, timeout=1_000, topic_data=DATA)
    assert caught.value.reason == "produce"


@pytest.mark.parametrize("version", versions(ApiKey.PRODUCE))
@pytest.mark.parametrize("data", [(), ({"name": "orders", "partition_data": ()},)])
def test_without_acks_and_without_partitions_there_is_nothing_to_refuse(version: int, data: object) -> None:
    client = Client(Mesh())
    unanswered = client.send(ApiKey.PRODUCE, version, acks=0, timeout=1_000, topic_data=data)
    assert client.ask(ApiKey.API_VERSIONS, 0).error_code == ErrorCode.NONE
    assert client.answer(unanswered) is None
    assert client.wire.held == 0
    asked = client.ask(ApiKey.PRODUCE, version, acks=1, timeout=1_000, topic_data=())
    assert asked == response(ApiKey.PRODUCE, version, responses=())
