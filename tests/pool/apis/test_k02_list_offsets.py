from __future__ import annotations

from typing import Any

import pytest

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.pool.apis.harness import Client, Mesh, fetch_values, joined, values_of, versions
from tests.pool.apis.messages import response

UNKNOWN: dict[str, Any] = {"error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def asked(timestamp: int, topic: str = "orders", indexes: tuple[int, ...] = (0, 3)) -> dict[str, Any]:
    partitions = tuple({"partition_index": index, "timestamp": timestamp} for index in indexes)
    return {"topics": ({"name": topic, "partitions": partitions},)}


def answered(version: int, topic: str = "orders", indexes: tuple[int, ...] = (0, 3), **values: Any) -> Any:
    partitions = tuple({"partition_index": index, **values} for index in indexes)
    return response(ApiKey.LIST_OFFSETS, version, topics=({"name": topic, "partitions": partitions},))


@pytest.mark.parametrize("version", versions(ApiKey.LIST_OFFSETS))
def test_the_ends_of_the_log_and_other_times(version: int) -> None:
    mesh = Mesh()
    client = Client(mesh)
    latest = mesh.cluster.slots.latest
    assert client.ask(ApiKey.LIST_OFFSETS, version, **asked(-2)) == answered(version, offset=0, leader_epoch=0)
    assert client.ask(ApiKey.LIST_OFFSETS, version, **asked(-1)) == answered(version, offset=latest, leader_epoch=0)
    for timestamp in (-3, -9, 0, 1_700_000_000_000):
        assert client.ask(ApiKey.LIST_OFFSETS, version, **asked(timestamp)) == answered(version, offset=-1)


@pytest.mark.parametrize("version", versions(ApiKey.LIST_OFFSETS))
def test_unknown_topics_and_partitions(version: int) -> None:
    client = Client(Mesh())
    for indexes in ((4, -1, 2**31 - 1, -(2**31)), ()):
        values = asked(-2, indexes=indexes)
        assert client.ask(ApiKey.LIST_OFFSETS, version, **values) == answered(version, indexes=indexes, **UNKNOWN)
    values = asked(-1, topic="unknown")
    assert client.ask(ApiKey.LIST_OFFSETS, version, **values) == answered(version, topic="unknown", **UNKNOWN)


def test_latest_lies_above_every_offset_and_a_fetch_there_begins_with_what_comes_next() -> None:
    mesh = Mesh()
    client = joined(mesh)
    (partition,) = client.ask(ApiKey.LIST_OFFSETS, 7, **asked(-1, indexes=(0,))).topics[0].partitions
    assert partition.offset > max(client.positions().values())
    correlation = client.send(ApiKey.FETCH, 12, **fetch_values(mesh, {0: partition.offset}))
    mesh.produce(0, count=2)
    answer = client.answer(correlation)
    records = values_of(answer.responses[0].partitions[0].records)
    assert [value for _, value in records] == [b"eu/orders-0@0", b"eu/orders-0@1"]
    assert records[0][0] > partition.offset
