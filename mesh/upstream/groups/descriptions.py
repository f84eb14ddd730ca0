"""Describes an upstream group: its members, and the partitions without an owner.

librdkafka's admin client ends the process if the coordinator dies while it describes a group. So the mesh asks over
its own connections (`GroupsByLinks`). It asks by librdkafka (`GroupsByLibrdkafka`) only clusters whose properties its
own connections do not honour, and only where it cannot do without an answer.

Questions are asked on a consumer's thread. It does not wait for an answer: it checks whether the future is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import Future, InvalidStateError
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from confluent_kafka import ConsumerGroupState, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from mesh.records.spans import TopicName
from mesh.upstream.groups.coordinators import NoCoordinator, link_to_coordinator
from mesh.upstream.links.handshake import Unreachable
from mesh.upstream.links.nodes import Nodes
from mesh.wire.client import groups
from mesh.wire.client.groups import (
    DESCRIBE_GROUPS,
    STABLE,
    GroupAnswer,
    GroupDescription,
    GroupMember,
    TopicPartition,
)
from mesh.wire.errors import ErrorCode, ProtocolError

REQUEST_TIMEOUT: Final = 5.0
"""Seconds for the whole request, also while coordinators move."""
RETRY_DELAY: Final = 0.1
MAX_RETRY_DELAY: Final = 1.0
"""The most seconds between two attempts; the pause doubles."""
_MOVING: Final = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)

Partitions: TypeAlias = frozenset[TopicPartition]
Answer = TypeVar("Answer")


class DescriptionUnavailable(Exception):
    """Raised when the members of the group are unknown: no broker answers, or the mesh may not ask."""


class Groups(Protocol):
    """Descriptions of upstream groups, requested on a consumer's thread. most_rejoins: how often a member may rejoin
    because of `unowned_partitions`, in the lifetime of its consumer."""

    most_rejoins: int

    def describe(self, group: str) -> Future[GroupDescription]:
        """Describes a group. Fails with DescriptionUnavailable."""
        ...

    def unowned_partitions(self, group: str, topics: Collection[TopicName], ours: Partitions) -> Future[Partitions]:
        """Returns the partitions of these topics that no member owns. ours: the partitions that this member owns. Fails
        with DescriptionUnavailable, also while the group rebalances."""
        ...


class GroupsByLinks:
    """Descriptions of upstream groups, requested over the mesh's own connections. loop: the loop of `nodes`; the
    methods may be called on any thread."""

    most_rejoins = 3
    """The limit avoids a fight with a group leader that leaves partitions unassigned on purpose."""

    def __init__(self, nodes: Nodes, loop: asyncio.AbstractEventLoop) -> None:
        self._nodes = nodes
        self._loop = loop

    def describe(self, group: str) -> Future[GroupDescription]:
        return self._on_loop(describe(self._nodes, group))

    def unowned_partitions(self, group: str, topics: Collection[TopicName], ours: Partitions) -> Future[Partitions]:
        return self._on_loop(unowned_partitions(self._nodes, group, topics))

    def _on_loop(self, question: Coroutine[Any, Any, Answer]) -> Future[Answer]:
        try:
            return asyncio.run_coroutine_threadsafe(question, self._loop)
        except RuntimeError:  # the loop is closed, and soon the engine
            question.close()
            failed: Future[Answer] = Future()
            failed.set_exception(DescriptionUnavailable("the engine is closed"))
            return failed


async def describe(nodes: Nodes, group: str) -> GroupDescription:
    """Asks the coordinator, and looks for it again while it moves. Raises DescriptionUnavailable."""
    reason, rest = "nobody answers", RETRY_DELAY
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
                        raise DescriptionUnavailable(reason)
                await asyncio.sleep(rest)
                rest = min(2 * rest, MAX_RETRY_DELAY)
    except TimeoutError:
        raise DescriptionUnavailable(reason) from None


async def unowned_partitions(nodes: Nodes, group: str, topics: Collection[TopicName]) -> Partitions:
    """See `Groups.unowned_partitions`."""
    described = await describe(nodes, group)
    if described.state != STABLE:
        raise DescriptionUnavailable(f"the group is in the state {described.state}")
    try:
        layout = await nodes.layout(topics)
    except Unreachable as problem:
        raise DescriptionUnavailable(str(problem)) from problem
    there = {(topic.name, partition.partition) for topic in layout.topics for partition in topic.partitions}
    return frozenset(there.difference(*(member.assigned for member in described.members)))


async def _attempt(nodes: Nodes, group: str) -> GroupAnswer:
    """Asks one coordinator one time. Raises Unreachable or ProtocolError."""
    try:
        link = await link_to_coordinator(nodes, group)
    except NoCoordinator as problem:
        return GroupAnswer(problem.error_code, _NOBODY)
    served = (await link.versions()).get(DESCRIBE_GROUPS)
    return groups.decode_described_group(await link.request(groups.describe_group_request(group, served)))


_NOBODY: Final = GroupDescription("", "", ())


class GroupsByLibrdkafka:
    """Descriptions of groups by librdkafka. Its methods are called on the consumer's thread; the answers come on
    another."""

    most_rejoins = 1
    """It is 1, since a partition that seems to have no owner may have one."""

    def __init__(self, admin: Callable[[], AdminClient]) -> None:
        self._admin = admin

    def describe(self, group: str) -> Future[GroupDescription]:
        """Describes a group. If the coordinator dies before it answers, librdkafka ends the process. So this is used
        only where nothing works without it: by a member that was fenced, or refused for its assignor."""
        asked = self._admin().describe_consumer_groups([group], request_timeout=REQUEST_TIMEOUT)
        return _then([asked[group]], lambda answers: _described(answers[0]))

    def unowned_partitions(self, group: str, topics: Collection[TopicName], ours: Partitions) -> Future[Partitions]:
        """Returns all partitions that are not ours; it does not ask for their owners."""
        asked = self._admin().describe_topics(TopicCollection(sorted(topics)), request_timeout=REQUEST_TIMEOUT)

        def others(answers: list[Any]) -> Partitions:
            return frozenset((each.name, partition.id) for each in answers for partition in each.partitions) - ours

        return _then(list(asked.values()), others)


def _then(asked: Collection[Future[Any]], make: Callable[[list[Any]], Answer]) -> Future[Answer]:
    """Returns the result that `make` makes of all answers. The future fails with DescriptionUnavailable."""
    made: Future[Answer] = Future()

    def look(_: Future[Any]) -> None:
        if not all(answer.done() for answer in asked):
            return
        try:
            made.set_result(make([answer.result() for answer in asked]))
        except KafkaException as problem:
            made.set_exception(DescriptionUnavailable(problem.args[0].str()))
        except InvalidStateError:  # the last two answers came at the same time
            return
        except BaseException as problem:  # noqa: BLE001 - a future only logs what its callbacks raise
            made.set_exception(problem)

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
