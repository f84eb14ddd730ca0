"""Consumers that read a long log at once, as real ones do: a client fetches ahead, its application processes the
records, and the client commits the processed ones at an interval, or after each poll."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from mesh.pool.common.settings import PoolSettings
from mesh.pool.state.fetch import FetchedPartition
from mesh.wire.errors import ErrorCode
from tests.pool.consumer import Consumer
from tests.pool.harness import World, source
from tests.records.reading import split_batches

TICK = 0.005
PARTITIONS = range(4)
BATCH = 5
RUN = 5 * BATCH
WINDOW = 10
"""The first window: as small beside a second's records here as 500 beside a million."""
QUICK = 1e9


@dataclass(slots=True)
class Skimmer(Consumer):
    """A client that does not look at records, because there are too many. ahead: partition, offset and count of each
    batch that waits in it."""

    ahead: deque[tuple[int, int, int]] = field(default_factory=deque)
    taken: int = 0

    def _take(self, partition: int, fetched: FetchedPartition) -> None:
        assert fetched.error is ErrorCode.NONE
        for data in fetched.records:
            for batch in split_batches(data):
                self.ahead.append((partition, batch.first, batch.record_count))
                self.taken += batch.record_count
                self.positions[partition] = batch.last + 1


class Reader:
    """A reader of the log. rate: records a second that it processes. every: seconds between two commits, None for a
    commit after each poll of `per_poll`. phase: seconds until the first. prefetch: the number of waiting records from
    which on it does not fetch."""

    def __init__(
        self,
        consumer: Skimmer,
        rate: float,
        every: float | None,
        phase: float = 0.0,
        per_poll: int = 500,
        prefetch: int = 2_000,
    ) -> None:
        self.consumer = consumer
        self.done = 0
        self._rate = rate
        self._every = every
        self._due = consumer.world.now + phase
        self._per_poll = per_poll
        self._prefetch = prefetch
        self._credit = 0.0
        self._positions: dict[int, int] = {}
        """Processed and uncommitted positions."""
        self._uncommitted = 0

    @property
    def taken(self) -> int:
        return self.consumer.taken

    @property
    def waiting(self) -> int:
        """Records that it has fetched but not processed."""
        return self.taken - self.done

    def ask(self) -> bool:
        """Returns true if it was answered at once."""
        if self.consumer.is_parked or self.waiting >= self._prefetch:
            return False
        self.consumer.fetch(wait=0.5, partition_maximum=4_000)
        return not self.consumer.is_parked

    def work(self, seconds: float) -> None:
        self._credit = min(self._credit + seconds * self._rate, max(self.waiting, 1.0))
        ahead = self.consumer.ahead
        while ahead and self._credit >= 1.0:
            partition, offset, count = ahead.popleft()
            some = min(count, int(self._credit))
            if some < count:
                ahead.appendleft((partition, offset + some, count - some))
            self._positions[partition] = offset + some
            self._credit -= some
            self._uncommitted += some
            self.done += some
        now = self.consumer.world.now
        if self._every is None:
            if self._uncommitted >= self._per_poll or not ahead:
                self._commit()
        elif now >= self._due:
            self._due += self._every
            self._commit()

    def _commit(self) -> None:
        if self._positions:
            self.consumer.commit(self._positions)
            self._positions = {}
            self._uncommitted = 0


class CatchUp:
    """A log of `records`. The upstream clusters bring at most so many a second while the mesh wants any."""

    def __init__(self, records: int, rate: float, settings: PoolSettings | None = None) -> None:
        self.world = World(settings or PoolSettings(initial_window=WINDOW))
        self.world.batch_size = BATCH
        self.readers: list[Reader] = []
        self._rate = rate
        self._credit = 0.0
        self._end = records // len(PARTITIONS)
        self._left = [self._end] * len(PARTITIONS)
        self._turn = 0
        self._generator = random.Random(1)

    def add(self, rate: float, every: float | None, phase: float = 0.0, per_poll: int = 500) -> Reader:
        """Adds a consumer that joins now."""
        world, is_first = self.world, not self.readers
        consumer = Skimmer(world, f"c{len(self.readers)}", world.connect(), world.connect())
        assert consumer.join().error is ErrorCode.NONE
        reader = Reader(consumer, rate, every, phase, per_poll)
        self.readers.append(reader)
        if is_first:
            world.assign_all()
            self.grow(0)
        return reader

    def grow(self, records: int) -> None:
        """Adds so many records to the log."""
        each = records // len(PARTITIONS)
        self._left = [left + each for left in self._left]
        self._end += each
        ends = {source(index): self._end for index in PARTITIONS}
        self.world.upstream(lambda pool: pool.intake.ends_known(ends))

    def run(self, seconds: float) -> list[int]:
        """How many records each consumer took in this time."""
        before = [reader.taken for reader in self.readers]
        for _ in range(round(seconds / TICK)):
            self._tick()
        return [reader.taken - had for reader, had in zip(self.readers, before, strict=True)]

    def _tick(self) -> None:
        world = self.world
        self._credit = min(self._credit, self._rate * TICK) + self._rate * TICK
        for reader in self.readers:
            reader.work(TICK)
        are_answered = True
        while are_answered:
            self._bring()
            turns: Sequence[Reader] = self._generator.sample(self.readers, len(self.readers))
            are_answered = any([reader.ask() for reader in turns])  # all of them
        if round(world.now / TICK) % 200 == 0:
            for reader in self.readers:
                reader.consumer.heartbeat()
        world.advance(TICK)

    def _bring(self) -> None:
        """Brings a run of each wanted partition, as far as the rate allows."""
        for _ in PARTITIONS:
            self._turn = (self._turn + 1) % len(PARTITIONS)
            count = min(self._left[self._turn], RUN)
            if count and count <= self._credit and self.world.is_consumed(self._turn):
                self._credit -= count
                self._left[self._turn] -= count
                self.world.produce(self._turn, count)
