"""The thread that owns the consumer of a pool on one cluster.

Each turn handles waiting commands, then librdkafka's messages, then due timers. With `eager` a turn lasts 2 ms at most,
else 50 ms; an arriving record ends it, if nothing is unacknowledged. If other readers read this consumer's partitions
(`OtherReaders`), it waits for commands instead, 50 ms at most: 500 polls a second for nothing would cost a twentieth
of a core.

While nothing is consumed, the thread must still serve rebalances and answers to commits. librdkafka serves them only in
a poll, which may return a message too. It serves them first (measured: a poll of one message serves a rebalance before
a full queue, whose messages are outdated by then). So such a poll happens 4 times a second, and in each turn while a
commit is in flight. If its messages reach `TRICKLE_BYTES`, the partitions are paused, which drops prefetched messages;
then polls return none.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
import traceback
from collections.abc import Callable, Container, Mapping
from contextlib import suppress

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from mesh.records.spans import ClusterName, CommitPosition, TopicName, UpstreamPartition
from mesh.upstream.admin import LazyAdmin
from mesh.upstream.engine import Committed, CommitToken, EngineEvent, EngineFailed, PositionReset, Start, Truncated
from mesh.upstream.events import EventChannel
from mesh.upstream.groups.descriptions import Groups, GroupsByLibrdkafka
from mesh.upstream.groups.fencing import Fence
from mesh.upstream.groups.membership import membership_of
from mesh.upstream.groups.reachability import Reachability
from mesh.upstream.groups.unassigned_partitions import UnassignedPartitions
from mesh.upstream.librdkafka.close import commit_at_last, leave
from mesh.upstream.librdkafka.commit_queue import COMMIT_TIMEOUT, REQUEST_TIMED_OUT, CommitQueue, Errors
from mesh.upstream.librdkafka.message_reader import MessageReader
from mesh.upstream.librdkafka.other_readers import OtherReaders
from mesh.upstream.librdkafka.pausing import Pausing
from mesh.upstream.librdkafka.positions.assigned_positions import AssignedPositions
from mesh.upstream.librdkafka.positions.bounds import LogBounds
from mesh.upstream.librdkafka.positions.log_ends import LogEnds
from mesh.upstream.librdkafka.positions.topic_ids import TopicIds
from mesh.upstream.librdkafka_properties import COOPERATIVE, EAGER, Properties
from mesh.upstream.problems import UpstreamProblem
from mesh.upstream.property_files import check_files

EAGER_POLL = 0.002
IDLE_POLL = 0.05
STOPPED_POLL = 0.25
RETRY = 1.0
REJOIN = 10.0
"""Seconds until a consumer that failed for good in librdkafka (for example a fenced one) is replaced."""
MOST_MESSAGES = 2_000
MOST_UNDELIVERED = 32
"""The most undelivered events. A busy event loop gets no more until it has taken some."""

Ended = asyncio.Future[Mapping[UpstreamPartition, int]]


class ConsumerThread(threading.Thread):
    """The thread of one consumer; everything but `command` and `start` runs on it."""

    def __init__(
        self,
        cluster: ClusterName,
        properties: Properties,
        start: Start,
        channel: EventChannel[EngineEvent],
        other_readers: OtherReaders | None = None,
        groups: Groups | None = None,
    ) -> None:
        """other_readers: the readers of this consumer's partitions, which the consumer itself keeps paused, except
        those that it must read itself. groups: None lets librdkafka describe the group."""
        group, instance_id = properties["group.id"], properties.get("group.instance.id")
        super().__init__(name=f"consumer of {group} on {cluster}", daemon=True)
        self._properties = properties
        self._channel = channel
        self._commands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._consumer: Consumer | None = None
        self._commits = CommitQueue()
        self._admin = LazyAdmin(properties)
        self._assignment = AssignedPositions(
            cluster, start, False, self._put, lambda: LogBounds(self._admin, properties["isolation.level"]), self._store
        )
        groups = groups or GroupsByLibrdkafka(self._admin.client)
        self._reachability = Reachability(cluster, properties, channel.put, lambda: groups.describe(group))
        self._unassigned_partitions = UnassignedPartitions(cluster, groups, group, instance_id is not None)
        self._topic_ids = TopicIds(self._admin.client, channel.put)
        self._log_ends = LogEnds(
            self._admin.client, properties["isolation.level"], channel.put, self._reachability.unanswered
        )
        self._message_reader = MessageReader(
            cluster,
            self._assignment,
            self._put,
            self._reachability.suspect,
            self._reachability.records_arrived,
            self.note_recreated,
        )
        self._fence = Fence(lambda: groups.describe(group), instance_id)
        self._topics: frozenset[TopicName] = frozenset()
        self._running = True
        self.has_failed = False
        self._other_readers = other_readers
        self._pausing = Pausing(other_readers is None)
        self._eager = False
        self._consuming = True
        self._poll_at = 0.0
        self._create_at = 0.0

    def command(self, command: Callable[[], None]) -> None:
        """Runs a command between two polls. May be called from any thread."""
        self._commands.put(command)

    # Commands

    def subscribe(self, topics: frozenset[TopicName]) -> None:
        self._topics = topics
        if self._consumer is not None:
            self._subscribe(self._consumer)

    def set_consuming(self, consuming: bool) -> None:
        self._consuming = consuming
        self._pausing.set_consuming(self._consumer, consuming, self._assignment.positions)

    def set_eager(self, eager: bool) -> None:
        self._eager = eager

    def change_login(self, username: str, password: str) -> None:
        self._properties = {**self._properties, "sasl.username": username, "sasl.password": password}
        self._admin.change_login(username, password)
        if self._consumer is not None:
            self._consumer.set_sasl_credentials(username, password)

    def look_at_ends(self, number: int) -> None:
        self._log_ends.look(number)

    def pause(self, partitions: frozenset[UpstreamPartition]) -> None:
        self._pausing.pause(self._consumer, partitions & self._assignment.positions.keys())

    def resume(self, partitions: frozenset[UpstreamPartition]) -> None:
        self._pausing.resume(self._consumer, partitions)

    def advance(self, positions: Mapping[UpstreamPartition, int]) -> None:
        for source, position in positions.items():
            self._assignment.move(source, position)

    def pass_on_membership(self) -> None:
        """Passes its membership in the group on to the other readers."""
        if self._other_readers is not None:
            consumer = self._consumer if self._assignment.positions else None
            metadata: bytes = consumer.consumer_group_metadata() if consumer is not None else b""
            self._other_readers.membership_changed(membership_of(metadata))

    def read(self, source: UpstreamPartition, position: int) -> None:
        if self._consumer is not None and source in self._assignment.positions:
            self._assignment.positions[source] = position
            self._pausing.read(self._consumer, source, position)

    def note_recreated(self, source: UpstreamPartition) -> None:
        self._assignment.fell_back(source, time.monotonic())

    def forget_ends(self, resets: int) -> None:
        self._log_ends.forget(resets)

    def forget_ids(self, resets: int) -> None:
        self._topic_ids.forget(resets)

    def commit(
        self, token: CommitToken, positions: Mapping[UpstreamPartition, CommitPosition], deadline: float
    ) -> None:
        self._commits.offer(positions, lambda errors: self._channel.put(Committed(token, errors)), deadline)
        self._send_commits()

    def _store(
        self,
        positions: Mapping[UpstreamPartition, CommitPosition],
        answered: Callable[[Errors], None],
        ours: Container[UpstreamPartition],
    ) -> None:
        """Stores the start positions of partitions."""
        self._commits.offer(positions, answered, time.monotonic() + COMMIT_TIMEOUT, ours)
        self._send_commits()

    def stop(
        self,
        positions: Mapping[UpstreamPartition, CommitPosition],
        loop: asyncio.AbstractEventLoop,
        ended: Ended,
        *,
        leaves: bool,
    ) -> None:
        """Commits a last time, leaves the group, and ends. `ended` gets the errors when all that is done. leaves: False
        if a static member stays in the group."""
        self._running = False
        self._admin.close()
        errors: Mapping[UpstreamPartition, int] = dict.fromkeys(positions, REQUEST_TIMED_OUT)
        try:
            if self._consumer is not None:
                errors = commit_at_last(self._consumer, self._commits, self._assignment.positions, positions)
                (leave if leaves else Consumer.close)(self._consumer)
        finally:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(lambda: None if ended.done() else ended.set_result(errors))

    # The thread

    def _put(self, event: EngineEvent) -> None:
        self._channel.put(event)
        if isinstance(event, PositionReset | Truncated):
            self._log_ends.forget()
            self._topic_ids.forget()

    def run(self) -> None:
        try:
            while self._running:
                try:
                    self._turn()
                except KafkaException as problem:
                    self._reachability.suspect(problem.args[0])
                    self._wait(IDLE_POLL)
        except BaseException as problem:  # noqa: BLE001 - reported with its traceback; another engine is made
            self._fail(problem)

    def _fail(self, problem: BaseException) -> None:
        self._running, self.has_failed = False, True
        self._channel.put(EngineFailed(repr(problem), "".join(traceback.format_exception(problem))))
        self._admin.close()
        if self._consumer is not None:
            with suppress(Exception):  # this call itself may fail
                self._consumer.close()

    def _turn(self) -> None:
        if self._commits.expire(time.monotonic()):
            self._reachability.complain("a commit was not answered in time")
        now = time.monotonic()
        if self._consumer is None and self._topics and now >= self._create_at and self._may_join(now):
            self._create_at = now + REJOIN
            self._consumer = self._create()
        if self._consumer is None:
            self._wait(IDLE_POLL)
        else:
            self._turn_of(self._consumer)

    def _may_join(self, now: float) -> bool:
        return not self._reachability.is_fenced or self._fence.check_may_rejoin(now)

    def _turn_of(self, consumer: Consumer) -> None:
        is_eager = self._eager or self._commits.in_flight or self._assignment.is_opening
        wait = EAGER_POLL if is_eager else IDLE_POLL
        if self._only_commits:
            rest = EAGER_POLL if self._assignment.is_opening else IDLE_POLL
            self._wait(self._commits.rest() if self._commits.in_flight else rest)
            if self._running:
                self._take(self._receive(consumer, 0))
        elif self._may_consume():
            self._wait(0)
            if self._running:
                self._take(self._receive(consumer, wait))
        else:
            self._wait(wait)
            if self._running and not self._may_consume():
                self._serve(consumer)
        if self._running:
            self._tend(consumer)

    @property
    def _only_commits(self) -> bool:
        """Returns whether only rebalances and answers can come. Then a command ends the wait, and polls need not be
        frequent."""
        return not self._pausing.is_reading and bool(self._assignment.positions)

    def _may_consume(self) -> bool:
        return self._consuming and len(self._channel) < MOST_UNDELIVERED

    def _wait(self, seconds: float) -> None:
        """Executes the commands that wait, or the first one that comes within these seconds."""
        try:
            command = self._commands.get(timeout=seconds) if seconds else self._commands.get_nowait()
            while True:
                command()
                if not self._running:
                    return
                command = self._commands.get_nowait()
        except queue.Empty:
            return

    def _receive(self, consumer: Consumer, wait: float) -> list[Message]:
        """Returns the messages that have come, or the first one that comes. consume() alone would wait for as many as
        it may return."""
        try:
            if wait == EAGER_POLL:
                return consumer.consume(MOST_MESSAGES, wait)
            first = consumer.poll(wait)
            return [] if first is None else [first, *consumer.consume(MOST_MESSAGES - 1, 0)]
        except KafkaException:
            self._assignment.rewind(consumer)
            raise

    def _take(self, messages: list[Message]) -> None:
        self._message_reader.take(self._pausing.ours(messages))

    def _serve(self, consumer: Consumer) -> None:
        """Polls, so that librdkafka does the work that it does only in polls, although no messages are wanted."""
        now = time.monotonic()
        if now < self._poll_at and not self._commits.in_flight:
            return
        self._poll_at = now + STOPPED_POLL
        message = consumer.poll(0)
        if message is None:
            return
        self._take([message])
        if message.error() is None:
            self._pausing.trickled(consumer, message, self._assignment.positions)

    def _tend(self, consumer: Consumer) -> None:
        now = time.monotonic()
        self._reachability.probe(consumer, self._topics, now)
        # Opening partitions blocks on requests, and delays all commands. So not while a cluster may hang.
        if not self._reachability.is_suspected and self._open(consumer, now):
            self._pausing.assigned(consumer, self._assignment.positions)
            self.pass_on_membership()
            self._log_ends.forget()
            self._unassigned_partitions.assigned(now)
            self._reachability.assigned({source.topic for source in self._assignment.positions})
        self._send_commits()
        for topic in self._topic_ids.find_recreated(self._topics, now) if self._assignment.positions else ():
            self._assignment.topic_recreated(topic, now)
        self._assignment.seek_recreated(consumer, now)
        self._log_ends.poll(self._assignment.positions, now)
        if self._reachability.is_fatal:
            self._close()
            self._create_at = max(self._create_at, now + RETRY)
            self._fence.fenced(now)
        elif self._reachability.check_assignor_switch(cooperative := not self._assignment.cooperative):
            self._close()
            self._assignment.cooperative = cooperative
            self._create_at = 0.0
        elif self._unassigned_partitions.check_for_rejoin(self._topics, self._assignment.assigned, now):
            self._join_again(consumer)

    def _open(self, consumer: Consumer, now: float) -> bool:
        if self._assignment.is_opening:
            self._catch_up()
        return self._assignment.open(consumer, now)

    def _catch_up(self) -> None:
        """Takes over the positions of the other readers, so that their commits are not taken for another member's."""
        if self._other_readers is not None:
            self.advance(self._other_readers.positions())

    def _join_again(self, consumer: Consumer) -> None:
        """Rejoins the group, so that all partitions are assigned again."""
        if self._assignment.cooperative:
            # For an unchanged subscription librdkafka would not ask the coordinator.
            self._close(leave)
            self._create_at = 0.0
        else:
            # Rejoin with the member id. If this member leads the group, even without knowing it, that starts a
            # rebalance.
            self._subscribe(consumer)

    def _send_commits(self) -> None:
        self._commits.send(self._consumer, self._assignment.positions)

    # The consumer

    def _create(self) -> Consumer | None:
        """Returns a new consumer, which joins the group; None when librdkafka refuses its properties."""
        strategy = COOPERATIVE if self._assignment.cooperative else EAGER
        own = {
            "partition.assignment.strategy": strategy,
            "error_cb": self._reachability.suspect,
            "on_commit": self._on_commit,
        }
        try:
            check_files(self._properties)
            consumer = Consumer({**self._properties, **own})
        except KafkaException as problem:
            self._reachability.report_down(problem.args[0].str(), UpstreamProblem.PROPERTIES)
            return None
        self._reachability.is_fatal = False
        self._unassigned_partitions.begin()
        self._subscribe(consumer)
        return consumer

    def _subscribe(self, consumer: Consumer) -> None:
        consumer.subscribe(
            sorted(self._topics),
            on_assign=self._assignment.on_assign,
            on_revoke=self._revoke,
            on_lost=self._lose,
        )

    def _on_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        if error is None and not any(each.error for each in partitions):
            self._reachability.stored()
        self._commits.on_commit(error, partitions)

    def _revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._catch_up()
        self._assignment.on_revoke(consumer, partitions)

    def _lose(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._assignment.on_lost(consumer, partitions)
        self._reachability.complain("the membership in the group was lost")

    def _close(self, close: Callable[[Consumer], None] = Consumer.close) -> None:
        """Closes the consumer; the next turn makes another."""
        consumer, self._consumer = self._consumer, None
        self._assignment.forget()
        self._commits.abandon()
        if consumer is not None:
            close(consumer)
