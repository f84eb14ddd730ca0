"""Partitions whose node changes are read on at the other node: the leader moves, or a replica was read (KIP-392)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from mesh.records.spans import Span
from mesh.upstream.engine import Reread, RereadToken, Truncated
from mesh.upstream.raw import fetching as fetching_module
from mesh.upstream.raw.lanes import PARKED_MS
from mesh.wire.errors import ErrorCode
from tests.upstream.harness import run
from tests.upstream.raw.fake_broker import FakeCluster, fake_cluster
from tests.upstream.raw.test_fetching import Reader, reading, source, twist


@asynccontextmanager
async def reading_a_replica(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[FakeCluster, Reader]]:
    """Node 1 leads partition 0, which is read from node 2. Node 2 leads partition 1. Two records of each are read."""
    preferred = [2]
    twist(
        monkeypatch,
        lambda part: replace(part, preferred_replica=preferred.pop()) if preferred and part.partition == 0 else part,
    )
    async with fake_cluster(2, nodes=(1, 2, 3)) as cluster:
        cluster.leaders, cluster.followers = [1, 2], {2}
        async with reading(cluster) as reader:
            await reader.until(lambda: is_parked(cluster, 2, 0))
            for number in (0, 1):
                await cluster.append(number, 2)
                await reader.until_read(number, 2)
            yield cluster, reader


def is_parked(cluster: FakeCluster, node: int, partition: int) -> bool:
    return any(at == node and partition in asked and wait == PARKED_MS for at, asked, wait in cluster.fetched)


async def end_request(cluster: FakeCluster, reader: Reader) -> None:
    """Ends the request that partition 0 is in, if any, with a record. The partition is in no other one from then on."""
    if reader.readings[source(0)].request is not None:
        await cluster.append(0, 1)
        await reader.until_read(0, cluster.ends[0])


async def look_up_leaders(cluster: FakeCluster, reader: Reader) -> None:
    """Has the leaders of all partitions looked up, since partition 1 has none for a moment."""
    described, moved = len(cluster.described), reader.readings[source(1)]
    cluster.errors[1] = [ErrorCode.LEADER_NOT_AVAILABLE]
    await cluster.append(1, 1)
    await reader.until(lambda: len(cluster.described) > described and moved.leader == cluster.leaders[1])


def test_the_leader_is_read_again_when_the_time_of_a_replica_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching_module, "REPLICA_FOR", 0.2)

    async def test() -> None:
        async with reading_a_replica(monkeypatch) as (cluster, reader):
            began = len(cluster.fetched)
            await reader.until(lambda: any(node == 1 and 0 in asked for node, asked, _ in cluster.fetched[began:]))
            await cluster.append(0, 1)
            await reader.until_read(0, 3)

    run(test)


def test_a_leader_that_is_new_since_a_replica_is_read_is_read_when_the_replica_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        async with reading_a_replica(monkeypatch) as (cluster, reader):
            cluster.leaders, cluster.epoch = [3, 2], 6
            await look_up_leaders(cluster, reader)
            await reader.until(lambda: reader.readings[source(0)].leader == 3)
            cluster.followers = set()
            await cluster.append(0, 1)
            await reader.until_read(0, 3)

    run(test)


def test_a_replica_that_leaves_the_cluster_while_nothing_is_consumed_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """No request fails then."""

    async def test() -> None:
        async with reading_a_replica(monkeypatch) as (cluster, reader):
            reader.readings[source(0)].paused = True
            await end_request(cluster, reader)
            del cluster.ports[2]
            cluster.leaders = [1, 1]
            await reader.cluster.layout(())
            reader.readings[source(0)].paused = False
            reader.fetching.wake()
            await cluster.append(0, 1)
            await reader.until_read(0, cluster.ends[0])

    run(test)


def test_the_leader_is_read_when_the_log_of_a_replica_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with reading_a_replica(monkeypatch) as (cluster, reader):
            parts = [0]
            twist(
                monkeypatch,
                lambda part: replace(part, diverging=parts.pop()) if parts and part.partition == 0 else part,
            )
            await reader.until(lambda: reader.offsets(0) == [0, 1, 0, 1])
            assert Truncated(source(0), 0) in reader.events
            assert cluster.fetched[-1][0] == 1

    run(test)


def test_a_replica_is_read_on_while_the_leader_has_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    """A span is read again from the leader, which may fail."""

    async def test() -> None:
        async with reading_a_replica(monkeypatch) as (cluster, reader):
            parked = reader.readings[source(0)].request
            cluster.errors[0] = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
            reader.rereading.read(RereadToken(1), source(0), Span(0, 1))
            await reader.until(lambda: any(isinstance(event, Reread) and event.complete for event in reader.events))
            await reader.until(lambda: reader.readings[source(0)].request not in (parked, None))
            await cluster.append(0, 1)
            await reader.until_read(0, 3)

    run(test)


def test_a_partition_that_moves_while_its_request_waits_is_read_at_its_new_leader() -> None:
    """The old leader answers that request as if nothing had happened."""

    async def test() -> None:
        async with fake_cluster(2, nodes=(1, 2)) as cluster, reading(cluster) as reader:
            cluster.followers = {1}
            await reader.until(lambda: is_parked(cluster, 1, 0) and is_parked(cluster, 1, 1))
            cluster.leaders, cluster.epoch = [2, 1], 6
            await look_up_leaders(cluster, reader)
            await reader.until(lambda: any(node == 2 and 0 in asked for node, asked, _ in cluster.fetched))
            await cluster.append(0, 1)
            await reader.until_read(0, 1)

    run(test)


@pytest.mark.parametrize("returns", [True, False], ids=["it returns", "another one leads"])
def test_a_partition_whose_leader_has_left_the_cluster_while_it_was_paused_is_read(returns: bool) -> None:
    """No request to the leader fails then. Another purpose has the brokers looked up, such as a group's coordinator."""

    async def test() -> None:
        async with fake_cluster(1, nodes=(1, 2)) as cluster, reading(cluster) as reader:
            await cluster.append(0, 1)
            await reader.until_read(0, 1)
            paused = reader.readings[source(0)]
            paused.paused = True
            await end_request(cluster, reader)
            port = cluster.ports.pop(1)
            await reader.cluster.layout(())
            if returns:
                cluster.ports[1] = port
            else:
                cluster.leaders = [2]
            cluster.epoch += 1
            paused.paused = False
            reader.fetching.wake()
            await cluster.append(0, 1)
            await reader.until_read(0, cluster.ends[0])

    run(test)


def test_a_partition_whose_leader_has_another_address_since_nothing_is_consumed_is_read() -> None:
    async def test() -> None:
        async with fake_cluster(1, nodes=(1, 2)) as cluster, reading(cluster) as reader:
            await cluster.append(0, 1)
            await reader.until_read(0, 1)
            reader.fetching.set_consuming(False)
            await end_request(cluster, reader)
            cluster.followers = {2}  # what answers at the port of node 2 is node 1 from now on
            cluster.ports = {1: cluster.ports[2]}
            await reader.cluster.layout(())
            reader.fetching.set_consuming(True)
            await cluster.append(0, 1)
            await reader.until_read(0, cluster.ends[0])

    run(test)
