"""Requests of tools to upstream clusters, through librdkafka's clients, against brokers that a test controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from mesh.pool.common.ids import GroupId
from mesh.pool.common.queries import CommittedUpstream, FindGroupOffsets
from mesh.records.spans import ClusterName, TopicName, UpstreamPartition
from mesh.runtime.pool.administration import UpstreamAdministration
from mesh.wire.errors import ErrorCode
from tests.upstream.raw.fake_broker import TOPIC, FakeCluster, fake_cluster

EU = ClusterName("eu")
SOURCES = frozenset(UpstreamPartition(EU, TopicName(TOPIC), number) for number in range(3))
BILLING, SHIPPING = GroupId("billing"), GroupId("shipping")

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def asked(
    cluster: FakeCluster, groups: Sequence[GroupId] = (BILLING,), sources: frozenset[UpstreamPartition] = SOURCES
) -> CommittedUpstream:
    properties = {EU: {"bootstrap.servers": f"127.0.0.1:{cluster.ports[1]}"}}
    administration = UpstreamAdministration(properties, "", lambda _: None)
    try:
        answer = await administration.ask(FindGroupOffsets(tuple(groups), sources))
    finally:
        administration.close()
    assert isinstance(answer, CommittedUpstream)
    return answer


def positions(answer: CommittedUpstream, group: GroupId = BILLING) -> Mapping[int, int]:
    return {source.partition: offset for source, offset in answer.offsets[group].items()}


async def test_positions_of_groups() -> None:
    async with fake_cluster(3) as cluster:
        cluster.committed = {0: 7, 2: 1 << 40}
        answer = await asked(cluster, [BILLING, SHIPPING])
    assert positions(answer) == positions(answer, SHIPPING) == {0: 7, 2: 1 << 40}
    assert answer.errors == {BILLING: {}, SHIPPING: {}}


@pytest.mark.parametrize(
    "error",
    [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.GROUP_AUTHORIZATION_FAILED],
)
async def test_a_group_that_is_not_answered_for(error: ErrorCode) -> None:
    """With the first two, librdkafka's admin client ends the process with a segmentation fault."""
    async with fake_cluster(3) as cluster:
        cluster.committed = {1: 5}
        cluster.group_errors = [error]
        refused = await asked(cluster)
        answered = await asked(cluster)
    assert refused == CommittedUpstream({BILLING: {}}, {BILLING: {EU: error}})
    assert positions(answered) == {1: 5}


async def test_a_coordinator_that_loads_its_groups() -> None:
    async with fake_cluster(3) as cluster:
        cluster.committed = {1: 5}
        cluster.group_errors = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        answer = await asked(cluster)
    assert positions(answer) == {1: 5}
    assert answer.errors == {BILLING: {}}


async def test_a_cluster_of_which_no_partition_is_known() -> None:
    async with fake_cluster(1) as cluster:
        assert await asked(cluster, sources=frozenset()) == CommittedUpstream({BILLING: {}}, {BILLING: {}})


@pytest.mark.parametrize("sources", [SOURCES, frozenset()], ids=["known", "unknown"])
async def test_a_cluster_that_does_not_answer(
    sources: frozenset[UpstreamPartition], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are more groups than requests at a time: the waiting ones share the time limit."""
    monkeypatch.setattr("mesh.runtime.pool.administration.REQUEST_TIMEOUT", 0.5)
    groups = [GroupId(f"group-{number}") for number in range(20)]
    async with fake_cluster(1) as cluster:
        cluster.silent = {1}
        answer = await asked(cluster, groups, sources)
    assert answer.errors == {group: {EU: ErrorCode.COORDINATOR_NOT_AVAILABLE} for group in groups}


def test_no_admin_client_is_asked_for_positions() -> None:
    """Not even in tests: it ends them without a trace (docs/decisions/0018)."""
    root, request = Path(__file__).parents[3], ".list_consumer_group_" + "offsets("
    files = [file for folder in ("mesh", "tests", "benchmarks") for file in (root / folder).rglob("*.py")]
    assert len(files) > 100
    assert [file for file in files if request in file.read_text()] == []
