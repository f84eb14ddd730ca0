"""Descriptions of a group, from a coordinator that moves, hangs or is gone; and partitions without an owner."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from mesh.records.spans import ClusterName, TopicName
from mesh.upstream.groups import descriptions as module
from mesh.upstream.groups.descriptions import (
    DescriptionUnavailable,
    GroupsByLibrdkafka,
    GroupsByLinks,
    describe,
    unowned_partitions,
)
from mesh.upstream.links.connection_settings import ConnectionSettings
from mesh.upstream.links.nodes import Nodes
from mesh.wire.client import groups
from mesh.wire.client.groups import GroupMember
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import DescribedGroup, DescribedGroupMember
from tests.planted import PLANTED
from tests.upstream.harness import run
from tests.upstream.raw.fake_broker import TOPIC, FakeCluster, fake_cluster
from tests.wire.client.test_groups import assignment

GROUP = "billing"
TOPICS = [TopicName(TOPIC)]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(module, "RETRY_DELAY", 0.001)
    yield


@asynccontextmanager
async def asked(partitions: int = 4, coordinator: int = 2) -> AsyncIterator[tuple[FakeCluster, Nodes]]:
    """A cluster of three nodes, and the first node's knowledge."""
    async with fake_cluster(partitions, nodes=(1, 2, 3)) as cluster:
        cluster.coordinator = coordinator
        access = ConnectionSettings(request_timeout=60.0, setup_timeout=60.0, backoff=0.001, most_backoff=0.01)
        nodes = Nodes(ClusterName("eu"), f"127.0.0.1:{cluster.ports[1]}", access)
        try:
            yield cluster, nodes
        finally:
            nodes.close()


def group_of(*assigned: list[int], state: str = groups.STABLE) -> DescribedGroup:
    """Each member with its partitions of the topic; the first is static."""
    members = tuple(
        DescribedGroupMember(
            member_id=f"m{number}",
            group_instance_id=None if number else "one",
            client_id="c",
            client_host="/h",
            member_assignment=assignment({TOPIC: partitions}),
        )
        for number, partitions in enumerate(assigned)
    )
    return DescribedGroup(
        group_id=GROUP, group_state=state, protocol_type="consumer", protocol_data="range", members=members
    )


def test_the_coordinator_is_asked() -> None:
    async def test() -> None:
        async with asked() as (cluster, nodes):
            cluster.groups[GROUP] = group_of([0, 2], [1])
            described = await describe(nodes, GROUP)
            assert (described.state, described.assignor) == ("Stable", "range")
            assert described.members == (
                GroupMember("one", frozenset({(TOPIC, 0), (TOPIC, 2)})),
                GroupMember(None, frozenset({(TOPIC, 1)})),
            )
            assert cluster.asked_for_groups == [2]

    run(test)


def test_a_group_that_does_not_exist_has_no_members() -> None:
    async def test() -> None:
        async with asked() as (_, nodes):
            assert (await describe(nodes, GROUP)).members == ()

    run(test)


def test_a_coordinator_that_moves_or_begins_is_looked_for_again() -> None:
    async def test() -> None:
        async with asked() as (cluster, nodes):
            cluster.coordinator_errors = [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
            cluster.groups[GROUP] = group_of([0])

            def moves() -> None:
                cluster.coordinator = 3

            cluster.describing = moves
            assert len((await describe(nodes, GROUP)).members) == 1
            assert cluster.asked_for_groups == [2, 3]

    run(test)


def test_a_coordinator_that_dies_while_it_is_asked_is_no_end() -> None:
    async def test() -> None:
        async with asked() as (cluster, nodes):
            cluster.groups[GROUP] = group_of([0])

            def dies() -> None:
                cluster.describing = lambda: None
                cluster.coordinator = 3
                cluster.silent = {2}
                for connection in cluster.connections:
                    connection.close()

            cluster.describing = dies
            assert len((await describe(nodes, GROUP)).members) == 1
            assert cluster.asked_for_groups == [2, 3]

    run(test)


def test_one_that_hangs_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the answer says why nothing is known."""
    monkeypatch.setattr(module, "REQUEST_TIMEOUT", 0.2)

    async def test() -> None:
        async with asked() as (cluster, nodes):
            cluster.describing = lambda: cluster.silent.update({2})
            with pytest.raises(DescriptionUnavailable, match="nobody answers"):
                await describe(nodes, GROUP)

    run(test)


def test_an_error_of_authorization_is_told_at_once() -> None:
    async def test() -> None:
        async with asked() as (cluster, nodes):
            cluster.groups[GROUP] = DescribedGroup(group_id=GROUP, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
            with pytest.raises(DescriptionUnavailable, match="30"):
                await describe(nodes, GROUP)
            assert cluster.asked_for_groups == [2]

    run(test)


@pytest.mark.parametrize(
    ("assigned", "left"), [([[0, 1], [2, 3]], set()), ([[0, 1, 2]], {3}), ([[], [1]], {0, 2, 3}), ([], {0, 1, 2, 3})]
)
def test_what_no_member_has_is_nobodys(assigned: list[list[int]], left: set[int]) -> None:
    async def test() -> None:
        async with asked() as (cluster, nodes):
            cluster.groups[GROUP] = group_of(*assigned)
            assert await unowned_partitions(nodes, GROUP, TOPICS) == {(TOPIC, partition) for partition in left}

    run(test)


def test_while_a_group_rebalances_nothing_is_nobodys() -> None:
    async def test() -> None:
        async with asked() as (cluster, nodes):
            cluster.groups[GROUP] = group_of([], state="PreparingRebalance")
            with pytest.raises(DescriptionUnavailable, match="PreparingRebalance"):
                await unowned_partitions(nodes, GROUP, TOPICS)

    run(test)


def test_a_thread_asks_and_waits_for_nothing() -> None:
    async def test() -> None:
        async with asked() as (cluster, nodes):
            cluster.groups[GROUP] = group_of([0, 1])
            ours = GroupsByLinks(nodes, asyncio.get_running_loop())
            described = await asyncio.to_thread(lambda: ours.describe(GROUP))
            left = await asyncio.to_thread(lambda: ours.unowned_partitions(GROUP, TOPICS, frozenset()))
            assert len((await asyncio.wrap_future(described)).members) == 1
            assert await asyncio.wrap_future(left) == {(TOPIC, 2), (TOPIC, 3)}

    run(test)


def test_on_a_loop_that_is_closed_nothing_is_known() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    asked_late = GroupsByLinks(cast(Nodes, None), loop).describe(GROUP)
    with pytest.raises(DescriptionUnavailable):
        asked_late.result()


class Admin:
    """librdkafka's admin client, of a group and a topic."""

    def __init__(self) -> None:
        self.group: Future[Any] = Future()
        self.topics: dict[str, Future[Any]] = {}

    def describe_consumer_groups(self, names: list[str], request_timeout: float) -> dict[str, Future[Any]]:
        return dict.fromkeys(names, self.group)

    def describe_topics(self, topics: TopicCollection, request_timeout: float) -> dict[str, Future[Any]]:
        self.topics = {name: Future() for name in topics.topic_names}
        return self.topics


def topic(name: str, partitions: int) -> Any:
    return SimpleNamespace(name=name, partitions=[SimpleNamespace(id=number) for number in range(partitions)])


def test_by_librdkafka_a_group_is_described_alike() -> None:
    admin = Admin()
    described = GroupsByLibrdkafka(lambda: cast(AdminClient, admin)).describe(GROUP)
    assert not described.done()
    places = [SimpleNamespace(topic=TOPIC, partition=3)]
    member = SimpleNamespace(group_instance_id="one", assignment=SimpleNamespace(topic_partitions=places))
    admin.group.set_result(
        SimpleNamespace(state=ConsumerGroupState.STABLE, partition_assignor="range", members=[member])
    )
    assert described.result() == groups.GroupDescription(
        "Stable", "range", (GroupMember("one", frozenset({(TOPIC, 3)})),)
    )


def test_by_librdkafka_what_is_not_ours_may_be_nobodys() -> None:
    """The mesh asks no coordinator for the owner: that could end the process."""
    admin = Admin()
    admin.group.set_exception(AssertionError("not to be asked"))
    by_librdkafka = GroupsByLibrdkafka(lambda: cast(AdminClient, admin))
    left = by_librdkafka.unowned_partitions(GROUP, [TopicName("a"), TopicName("b")], frozenset({("a", 0), ("b", 1)}))
    admin.topics["a"].set_result(topic("a", 1))
    assert not left.done()
    admin.topics["b"].set_result(topic("b", 2))
    assert left.result() == {("b", 0)}


def test_by_librdkafka_a_failure_is_told_as_by_others() -> None:
    admin = Admin()
    described = GroupsByLibrdkafka(lambda: cast(AdminClient, admin)).describe(GROUP)
    admin.group.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
    with pytest.raises(DescriptionUnavailable):
        described.result()


@pytest.mark.parametrize("problem", PLANTED, ids=repr)
def test_by_librdkafka_an_exception_that_no_code_has_foreseen_is_told(problem: BaseException) -> None:
    """The consumer's thread looks for an answer again and again."""
    admin = Admin()
    by_librdkafka = GroupsByLibrdkafka(lambda: cast(AdminClient, admin))
    described, unreadable = by_librdkafka.describe(GROUP), Admin()
    admin.group.set_exception(problem)
    assert described.done() and described.exception() is problem
    described = GroupsByLibrdkafka(lambda: cast(AdminClient, unreadable)).describe(GROUP)
    unreadable.group.set_result(SimpleNamespace())
    assert isinstance(described.exception(), AttributeError)
    left = by_librdkafka.unowned_partitions(GROUP, [TopicName("a"), TopicName("b")], frozenset())
    admin.topics["b"].cancel()
    assert not left.done(), "the other topic is not answered"
    admin.topics["a"].set_result(topic("a", 1))
    assert left.done() and left.exception() is not None
