"""The upstream clusters, topics and records of the tests of pools."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mesh.pool.common.ids import GroupId, MemberId
from mesh.records.batch import RecordBatch
from mesh.records.encode import encode_batch
from mesh.records.runs import join_runs
from mesh.records.spans import ClusterName, TopicName, UpstreamPartition

EU, US = ClusterName("eu"), ClusterName("us")
ORDERS = TopicName("orders")
GROUP = GroupId("shop")
MAXIMUM = 1 << 20
NOBODY = MemberId("")
NO_KEYS: Mapping[int, bytes] = MappingProxyType({})
HOST = "10.0.0.1"


def source(index: int) -> UpstreamPartition:
    """The upstream partition behind partition 0-3 of the topic: two on eu, two on us."""
    return UpstreamPartition(EU if index < 2 else US, ORDERS, index % 2)


def value_of(partition: UpstreamPartition, offset: int) -> bytes:
    return f"{partition}@{offset}".encode()


def batch_of(
    partition: UpstreamPartition,
    first: int,
    last: int,
    size: int | None = None,
    keys: Mapping[int, bytes] = NO_KEYS,
) -> RecordBatch:
    """One batch, or a run of batches of `size` records. keys: of some offsets."""
    batches = []
    for begin in range(first, last + 1, size or last - first + 1):
        offsets = range(begin, min(begin + size, last + 1) if size else last + 1)
        records = [(offset, 0, keys.get(offset), value_of(partition, offset), None) for offset in offsets]
        batches.append(encode_batch(begin, records))
    (batch,) = join_runs(batches)
    return batch
