"""The raw engine's reading and its group's assignments, in any order: no record of its partitions is ever skipped.

The log of one partition grows, is truncated, and begins again. Its group rebalances, on a thread that learns late of
the engine's reading, and whose events come late. The pool has received all records below the engine's position, of the
log that it believes in.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Container, Mapping
from functools import partial
from typing import Any, cast
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mesh.records.spans import CommitPosition, UpstreamPartition
from mesh.upstream.engine import (
    Assigned,
    CommitToken,
    EngineEvent,
    EngineOptions,
    PositionReset,
    Revoked,
    Truncated,
)
from mesh.upstream.librdkafka.commit_queue import Errors
from mesh.upstream.librdkafka.positions.assigned_positions import AssignedPositions
from mesh.upstream.librdkafka.positions.bounds import LogBounds
from mesh.upstream.links.buffers import ReceiveBuffers
from mesh.upstream.raw.engine import RawEngine
from mesh.upstream.raw.reading import Reading
from mesh.upstream.raw.resets import Resets
from tests.upstream.fakes import FakeAdmin, FakeConsumer, place
from tests.upstream.harness import CLUSTER, source

ORDERS = source("orders")


class Group:
    """librdkafka's side: commands wait until the thread takes them, events until the loop does."""

    def __init__(self) -> None:
        self.commands: deque[Callable[[], None]] = deque()
        self.events: deque[EngineEvent] = deque()
        self.fake = FakeConsumer()
        bounds = LogBounds(FakeAdmin().lazy, "read_committed")
        self.assignment = AssignedPositions(CLUSTER, "earliest", False, self.events.append, lambda: bounds, self._store)
        self.now = 100.0

    def _store(
        self,
        positions: Mapping[UpstreamPartition, CommitPosition],
        answered: Callable[[Errors], None],
        ours: Container[UpstreamPartition],
    ) -> None:
        self.stored = positions[ORDERS].offset
        answered({})

    @property
    def stored(self) -> int | None:
        return self.fake.stored[0].offset if 0 in self.fake.stored else None

    @stored.setter
    def stored(self, offset: int | None) -> None:
        self.fake.stored = {} if offset is None else {0: place(0, offset)}

    def assign(self, *partitions: int) -> None:
        self.assignment.on_assign(self.fake.consumer, [place(each) for each in partitions])
        self.now += 10.0
        assert self.assignment.open(self.fake.consumer, self.now)

    # Calls of the raw engine

    def advance(self, positions: Mapping[UpstreamPartition, int]) -> None:
        for partition, position in positions.items():
            self.commands.append(partial(self.assignment.move, partition, position))

    def commit(self, _: CommitToken, positions: Mapping[UpstreamPartition, CommitPosition]) -> None:
        self.commands.append(lambda: self._commit(positions[ORDERS].offset))

    def _commit(self, offset: int) -> None:
        if ORDERS in self.assignment.positions:
            self.stored = offset

    def note_recreated(self, partition: UpstreamPartition) -> None:
        self.commands.append(lambda: self.assignment.fell_back(partition, self.now))

    def forget_ends(self, _: int) -> None: ...

    def forget_ids(self, _: int) -> None: ...


class Resuming(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        options = EngineOptions(CLUSTER, "localhost:1", {}, "group", None, "earliest", "read_committed", 1 << 20)
        self.engine = RawEngine(options, self.told, self.loop, ReceiveBuffers(1 << 20))
        self.group = Group()
        self.engine._group = cast(Any, self.group)
        self.resets = Resets(
            cast(Any, None),
            self.engine._readings,
            self.engine._noticed,
            self.group.note_recreated,
            lambda: None,
            lambda reading, seconds: None,
            cast(Any, self),
            cast(Any, None),
        )
        self.life, self.end = 1, 0
        self.received: int | None = None
        """The position that the pool has received; None before the assignment."""
        self.is_revoked = self.is_others = False
        """Whether the revocation was reported; whether another member has had it since."""
        self.wrong: list[EngineEvent] = []
        """Events that must not be reported."""
        self.group.assign(0)
        self.take_events()

    def create_task(self, task: Any) -> None:
        """In place of a TaskGroup: `learn_where_it_begins` answers the request."""
        task.close()

    def told(self, event: EngineEvent) -> None:
        match event:
            case Assigned(partitions=(assigned,)):
                if not assigned.resumed:
                    if self.received is not None and not self.is_others:
                        self.wrong.append(event)
                    self.received = assigned.start
                self.is_revoked = self.is_others = False
            case Assigned(partitions=()):
                self.received, self.is_revoked = None, False
            case PositionReset(start=start):
                self.received = start
            case Truncated(offset=offset):
                self.received = min(self.received or 0, offset)
            case Revoked():
                self.is_revoked = True
            case _:
                self.wrong.append(event)

    @property
    def reading(self) -> Reading | None:
        return self.engine._readings.get(ORDERS)

    # The log

    @rule(count=st.integers(0, 50), is_late=st.booleans())
    def make_anew(self, count: int, is_late: bool) -> None:
        """is_late: a commit for the old topic comes after the new one exists; else its offsets go with the old
        topic."""
        self.life, self.end = self.life + 1, count
        if not is_late:
            self.group.stored = None

    # Our own reading

    @precondition(lambda self: self.reading is not None and self.reading.is_asked_for)
    @rule(more=st.integers(0, 50), count=st.integers(1, 50))
    def grow_and_be_read(self, more: int, count: int) -> None:
        reading = self.reading
        assert reading is not None
        self.end += more
        reading.topic_id = reading.topic_id or UUID(int=self.life)
        if reading.topic_id == UUID(int=self.life) and reading.position < self.end:
            assert reading.position == self.received
            reading.position = self.received = min(reading.position + count, self.end)

    @precondition(lambda self: self.reading is not None and self.reading.topic_id)
    @rule(is_answered=st.booleans())
    def notice_another_topic(self, is_answered: bool) -> None:
        reading = self.reading
        assert reading is not None
        if reading.topic_id != UUID(int=self.life):
            self.resets.start_over(ORDERS, 1, UUID(int=self.life))
            if is_answered:
                self.learn_where_it_begins()

    @precondition(lambda self: self.reading is not None and self.reading.recreated)
    @rule()
    def learn_where_it_begins(self) -> None:
        reading = self.reading
        assert reading is not None
        reading.suspended = reading.recreated = False
        self.resets._reset(reading, 0, "anew")

    @precondition(lambda self: self.reading is not None and self.reading.is_asked_for and self.reading.topic_id)
    @rule(back=st.integers(1, 30), is_heard=st.booleans())
    def cut(self, back: int, is_heard: bool) -> None:
        """An unclean election, which the next Fetch reports."""
        reading = self.reading
        assert reading is not None
        if reading.topic_id == UUID(int=self.life):
            self.end = max(self.end - back, 0)
            if self.end < reading.position:
                self.resets.truncated(reading, self.end)
            if is_heard:
                self.take_commands()

    # The group

    @precondition(lambda self: self.received)
    @rule(back=st.integers(0, 20), is_sent=st.booleans())
    def commit(self, back: int, is_sent: bool) -> None:
        assert self.received is not None
        self.engine.commit(CommitToken(1), {ORDERS: CommitPosition(max(self.received - back, 0))})
        if is_sent:
            self.take_commands()

    @precondition(lambda self: self.group.assignment.positions)
    @rule(is_told=st.booleans())
    def revoke(self, is_told: bool) -> None:
        self.group.assignment.on_revoke(self.group.fake.consumer, [place(0)])
        if is_told:
            self.take_events()

    @precondition(lambda self: not self.group.assignment.positions)
    @rule(is_told=st.booleans())
    def assign(self, is_told: bool) -> None:
        self.group.assign(0)
        if is_told:
            self.take_events()

    @precondition(lambda self: not self.group.assignment.positions)
    @rule(further=st.integers(0, 100))
    def assign_to_another(self, further: int) -> None:
        """Assigns it to another member for a whole generation, in which that member has committed."""
        self.group.assign()
        self.is_others = True
        self.group.stored = min((self.group.stored or 0) + further, self.end)

    @precondition(lambda self: self.group.commands)
    @rule()
    def take_commands(self) -> None:
        while self.group.commands:
            self.group.commands.popleft()()

    @precondition(lambda self: self.group.events)
    @rule()
    def take_events(self) -> None:
        while self.group.events:
            self.engine._from_group(self.group.events.popleft())

    @invariant()
    def nothing_is_passed_over(self) -> None:
        assert self.wrong == []
        if (reading := self.reading) is not None:
            assert reading.recreated or reading.position == self.received
            assert not (self.is_revoked and reading.is_asked_for)

    def teardown(self) -> None:
        self.loop.close()


TestResuming = Resuming.TestCase
TestResuming.settings = settings(max_examples=300, stateful_step_count=40, deadline=None)


def test_a_commit_of_what_is_gone_is_not_stored_for_the_topic_created_again() -> None:
    """The commit comes after the notice that the topic is another one, and before the answer with its beginning."""
    state = Resuming()
    state.revoke(is_told=False)
    state.take_events()
    state.assign(is_told=False)
    state.take_events()
    state.make_anew(count=1, is_late=False)
    state.grow_and_be_read(more=0, count=1)
    state.make_anew(count=0, is_late=False)
    state.notice_another_topic(is_answered=False)
    state.commit(back=0, is_sent=False)
    state.take_commands()
    assert state.group.stored is None
    state.revoke(is_told=False)
    state.assign(is_told=True)
    state.nothing_is_passed_over()
    state.loop.close()
