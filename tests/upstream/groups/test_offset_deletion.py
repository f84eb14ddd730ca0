"""A group forgets offsets: the request goes to its coordinator, wherever that is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mesh.records.spans import ClusterName, TopicName, UpstreamPartition
from mesh.upstream.groups import offset_deletion as module
from mesh.upstream.groups.offset_deletion import delete_offsets
from mesh.wire.errors import ErrorCode
from tests.upstream.groups.test_descriptions import GROUP, asked, group_of
from tests.upstream.harness import run
from tests.upstream.raw.fake_broker import TOPIC

SOURCES = [UpstreamPartition(ClusterName("eu"), TopicName(TOPIC), number) for number in (0, 2)]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(module, "RETRY_DELAY", 0.001)
    yield


def test_the_coordinator_forgets() -> None:
    async def test() -> None:
        async with asked() as (cluster, nodes):
            cluster.groups[GROUP] = group_of()
            cluster.committed = {0: 7, 1: 8, 2: 9}
            assert await delete_offsets(nodes, GROUP, SOURCES, 30) == dict.fromkeys(SOURCES, ErrorCode.NONE)
            assert cluster.committed == {1: 8}

    run(test)


def test_a_coordinator_that_moves_is_looked_for_again() -> None:
    async def test() -> None:
        async with asked() as (cluster, nodes):
            cluster.groups[GROUP] = group_of()
            cluster.coordinator_errors = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
            assert set((await delete_offsets(nodes, GROUP, SOURCES, 30)).values()) == {ErrorCode.NONE}
            assert not cluster.coordinator_errors

    run(test)


def test_what_the_whole_group_is_refused_each_partition_is() -> None:
    async def test() -> None:
        async with asked() as (cluster, nodes):
            unknown = await delete_offsets(nodes, GROUP, SOURCES, 30)
            assert unknown == dict.fromkeys(SOURCES, ErrorCode.GROUP_ID_NOT_FOUND)
            cluster.coordinator_errors = [ErrorCode.GROUP_AUTHORIZATION_FAILED]
            refused = await delete_offsets(nodes, GROUP, SOURCES, 30)
            assert refused == dict.fromkeys(SOURCES, ErrorCode.GROUP_AUTHORIZATION_FAILED)

    run(test)


def test_nobody_answers() -> None:
    async def test() -> None:
        async with asked() as (cluster, nodes):
            cluster.silent = {1, 2, 3}
            found = await delete_offsets(nodes, GROUP, SOURCES, 0.05)
            assert found == dict.fromkeys(SOURCES, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    run(test)
