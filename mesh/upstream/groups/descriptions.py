"""Who is in an upstream group, and which partitions are nobody's.

librdkafka's admin client ends the process when the coordinator dies while it describes a group. So this is asked over
our own connections (`GroupsByLinks`), and by librdkafka (`GroupsByLibrdkafka`) of those clusters only whose properties
our own connections do not honour; and there only what cannot be left unasked.

Questions are asked on a consumer's thread, which waits for no answer: it looks whether its future is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import Future, InvalidStateError
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from confluent_kafka import ConsumerGroupState, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from mesh.records.spans import TopicName
from mesh.upstream.links.handshake import Unreachable
from mesh.upstream.links.nodes import Nodes
from mesh.wire.client import groups
from mesh.wire.client.groups import (
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    STABLE,
    GroupAnswer,
    GroupDescription,
    GroupMember,
    TopicPartition,
)
from mesh.wire.client.messages import Broker
from mesh.wire.errors import ErrorCode, ProtocolError

REQUEST_TIMEOUT: Final = 5.0
"""Seconds for the whole question, also while coordinators move."""
REST: Final = 0.1
MOST_REST: Final = 1.0
"""Seconds between two attempts; they double from one to the other."""
LANE: Final = "groups"
_MOVING: Final = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)

Partitions: TypeAlias = frozenset[TopicPartition]
Answer = TypeVar("Answer")


class Undescribed(Exception):
    """It is not known who is in the group: nobody answers, or we may not ask."""


class Groups(Protocol):
    """Descriptions of upstream groups, asked for on a consumer's thread. most_rejoins: how often a member may join anew
    for what `nobodys` says, in one life of its consumer."""

    most_rejoins: int

    def describe(self, group: str) -> Future[GroupDescription]:
        """Who is in it. Fails with Undescribed."""
        ...

    def nobodys(self, group: str, topics: Collection[TopicName], ours: Partitions) -> Future[Partitions]:
        """The partitions of these topics that no member has. ours: those that we have. Fails with Undescribed, also
        while the group rebalances."""
        ...


class GroupsByLinks:
    """Descriptions of upstream groups, asked over our own connections. loop: that of `nodes`; the methods may be called
    on any thread."""

    most_rejoins = 3
    """More would be a quarrel with a leader that means it so."""

    def __init__(self, nodes: Nodes, loop: asyncio.AbstractEventLoop) -> None:
        self._nodes = nodes
        self._loop = loop

    def describe(self, group: str) -> Future[GroupDescription]:
        return self._on_loop(describe(self._nodes, group))

    def nobodys(self, group: str, topics: Collection[TopicName], ours: Partitions) -> Future[Partitions]:
        return self._on_loop(nobodys(self._nodes, group, topics))

    def _on_loop(self, question: Coroutine[Any, Any, Answer]) -> Future[Answer]:
        try:
            return asyncio.run_coroutine_threadsafe(question, self._loop)
        except RuntimeError:  # the loop is closed; so is the engine, soon
            question.close()
            failed: Future[Answer] = Future()
            failed.set_exception(Undescribed("the engine is closed"))
            return failed


async def describe(nodes: Nodes, group: str) -> GroupDescription:
    """Asks the coordinator, and looks for it again while it moves. Raises Undescribed."""
    reason, rest = "nobody answers", REST
    try:
        async with asyncio.timeout(REQUEST_TIMEOUT):
            while True:
                try:
                    answer = await _attempt(nodes, group)
                except (Unreachable, ProtocolError) as problem:
                    reason = str(problem)
                else:
                    if answer.error_code == ErrorCode.NONE:
                        return answer.group
                    reason = f"the coordinator answers with error {answer.error_code}"
                    if answer.error_code not in _MOVING:
                        raise Undescribed(reason)
                await asyncio.sleep(rest)
                rest = min(2 * rest, MOST_REST)
    except TimeoutError:
        raise Undescribed(reason) from None


async def nobodys(nodes: Nodes, group: str, topics: Collection[TopicName]) -> Partitions:
    """See `Groups.nobodys`."""
    described = await describe(nodes, group)
    if described.state != STABLE:
        raise Undescribed(f"the group is in the state {described.state}")
    try:
        layout = await nodes.layout(topics)
    except Unreachable as problem:
        raise Undescribed(str(problem)) from problem
    there = {(topic.name, partition.partition) for topic in layout.topics for partition in topic.partitions}
    return frozenset(there.difference(*(member.assigned for member in described.members)))


async def _attempt(nodes: Nodes, group: str) -> GroupAnswer:
    """One question to one coordinator. Raises Unreachable or ProtocolError."""
    found = await nodes.anywhere(
        lambda served: groups.find_coordinator_request(group, served.get(FIND_COORDINATOR)),
        groups.decode_find_coordinator,
    )
    if found.error_code:
        return GroupAnswer(found.error_code, _NOBODY)
    if not _knows(nodes, found.broker):
        await nodes.layout(())
    if not _knows(nodes, found.broker):
        raise Unreachable(f"the coordinator, node {found.broker.node_id}, is no broker of the cluster")
    link = nodes.nodes[found.broker.node_id].link(LANE)
    served = (await link.versions()).get(DESCRIBE_GROUPS)
    return groups.decode_described_group(await link.request(groups.describe_group_request(group, served)))


def _knows(nodes: Nodes, broker: Broker) -> bool:
    known = nodes.nodes.get(broker.node_id)
    return known is not None and known.broker == broker


_NOBODY: Final = GroupDescription("", "", ())


class GroupsByLibrdkafka:
    """Everything but the answers is on the consumer's thread."""

    most_rejoins = 1
    """What it takes for nobody's may be somebody's."""

    def __init__(self, admin: Callable[[], AdminClient]) -> None:
        self._admin = admin

    def describe(self, group: str) -> Future[GroupDescription]:
        """If the coordinator dies before it has answered, the process ends. So this is asked for what cannot go on
        without it: by who was fenced, or refused for its assignor."""
        asked = self._admin().describe_consumer_groups([group], request_timeout=REQUEST_TIMEOUT)
        return _then([asked[group]], lambda answers: _described(answers[0]))

    def nobodys(self, group: str, topics: Collection[TopicName], ours: Partitions) -> Future[Partitions]:
        """Those that are not ours: whose they are is not asked here."""
        asked = self._admin().describe_topics(TopicCollection(sorted(topics)), request_timeout=REQUEST_TIMEOUT)

        def others(answers: list[Any]) -> Partitions:
            return frozenset((each.name, partition.id) for each in answers for partition in each.partitions) - ours

        return _then(list(asked.values()), others)


def _then(asked: Collection[Future[Any]], make: Callable[[list[Any]], Answer]) -> Future[Answer]:
    """What is made of all answers. Fails with Undescribed."""
    made: Future[Answer] = Future()

    def look(_: Future[Any]) -> None:
        if not all(answer.done() for answer in asked):
            return
        try:
            made.set_result(make([answer.result() for answer in asked]))
        except KafkaException as problem:
            made.set_exception(Undescribed(problem.args[0].str()))
        except InvalidStateError:  # two of them were the last
            return

    for answer in asked:
        answer.add_done_callback(look)
    return made


def _described(answer: Any) -> GroupDescription:
    members = tuple(
        GroupMember(
            each.group_instance_id,
            frozenset((place.topic, place.partition) for place in each.assignment.topic_partitions),
        )
        for each in answer.members
    )
    state = STABLE if answer.state is ConsumerGroupState.STABLE else str(answer.state.name)
    return GroupDescription(state, answer.partition_assignor or "", members)
