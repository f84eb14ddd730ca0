"""Large Produces in front of a union: of a single partition they pass as they come, in part inside the kernel."""

from __future__ import annotations

import os
from struct import pack

import pytest

from mesh.routing.node_ids import NODE_BITS
from mesh.runtime.relay.splicing import Pipe
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.trees import Tree, write_tree
from tests.routing.unions import RENAMED
from tests.runtime.entity_router.harness import LeafCluster, union
from tests.runtime.relay.frames import framed
from tests.runtime.relay.loops import everywhere, until

US = 1 << NODE_BITS
LARGE = 1 << 20


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each move inside the kernel."""
    counts: list[int] = []
    fill = Pipe.fill

    def counting(pipe: Pipe, source: int, most: int) -> int:
        counts.append(fill(pipe, source, most))
        return counts[-1]

    monkeypatch.setattr(Pipe, "fill", counting)
    return counts


def batch(size: int, producer_id: int = -1) -> bytes:
    """A batch of that many bytes, as far as a union looks at it."""
    head = bytes(8) + pack(">iibih", size - 12, 0, 2, 0, 0)
    return head + bytes(20) + pack(">qhii", producer_id, -1, -1, 1) + os.urandom(size - 61)


def produce(version: int, *topics: tuple[str, bytes]) -> bytes:
    data = [{"name": name, "partition_data": [{"index": 0, "records": records}]} for name, records in topics]
    request: Tree = {"acks": -1, "timeout_ms": 1_000, "transactional_id": None, "topic_data": data}
    tags = b"\0" if version >= 9 else b""
    body = write_tree(ApiKey.PRODUCE, version, Direction.REQUEST, request)
    return framed(pack(">hhih", ApiKey.PRODUCE, version, 1, 4) + b"test" + tags + body)


def stored(cluster: LeafCluster) -> list[tuple[str, bytes]]:
    topics = [
        topic for api_key, request in cluster.seen if api_key is ApiKey.PRODUCE for topic in request["topic_data"]
    ]
    return [(each["name"], bytes(each["partition_data"][0]["records"])) for each in topics]


def confirm(*clusters: LeafCluster) -> None:
    for each in clusters:
        each.answers = lambda *_: {"responses": []}


@everywhere
@pytest.mark.parametrize("version", [8, 12])
async def test_it_passes_inside_the_kernel_in_its_cluster_s_names(version: int, moved: list[int]) -> None:
    records = [batch(LARGE) for _ in range(5)]
    async with union(config=RENAMED) as made:
        confirm(made.us)
        client = await made.client(US)
        await client.asked(ApiKey.HEARTBEAT, 3, {})
        for each in records:
            client.send(produce(version, ("us.orders", each)))
            await client.tree(ApiKey.PRODUCE, version)
        assert stored(made.us) == [("orders", each) for each in records]
        assert sum(moved) > LARGE


@everywhere
async def test_it_reaches_its_broker_before_its_end_is_sent() -> None:
    frame = produce(8, ("orders", records := batch(LARGE)))
    async with union() as made:
        confirm(made.eu)
        client = await made.client()
        await client.asked(ApiKey.HEARTBEAT, 3, {})
        reader = made.eu.brokers[0].leg.reader
        client.send(frame[: LARGE // 2])
        await until(lambda: len(reader._buffer) > 50_000)  # type: ignore[attr-defined]
        assert made.memory.used == 0
        client.send(frame[LARGE // 2 :])
        await client.tree(ApiKey.PRODUCE, 8)
        assert stored(made.eu) == [("orders", records)]


@everywhere
async def test_another_cluster_s_is_taken_whole_and_none_of_it_reaches_the_wrong_one(moved: list[int]) -> None:
    records = batch(LARGE)
    async with union() as made:
        confirm(made.eu, made.us)
        client = await made.client()
        client.send(produce(8, ("us.orders", records)), produce(8, ("orders", records), ("us.orders", records)))
        told = await client.tree(ApiKey.PRODUCE, 8)
        assert [each["name"] for each in told["responses"]] == ["us.orders"]
        told = await client.tree(ApiKey.PRODUCE, 8)
        assert {each["name"] for each in told["responses"]} == {"orders", "us.orders"}
        assert made.eu.seen == []
        assert not moved
