"""Topics of small transactions, and compacted ones: most offsets between records have none.

The mesh stores nothing for them, keeps nothing for each of them, and they delay no member.
"""

from __future__ import annotations

import sys
from functools import partial

import pytest

from mesh.apis.answers import Answer
from mesh.pool.common.delivery_events import DeliveryEvent, DeliveryEventType
from mesh.pool.common.effects import CommitUpstream, Gone
from mesh.pool.common.history import Redelivery
from mesh.pool.common.results import CommitResult
from mesh.pool.common.settings import PoolSettings
from mesh.pool.offsets.commits import PASS_AFTER
from mesh.pool.offsets.metadata import unpack
from mesh.pool.pool import Pool
from mesh.pool.state.fetch import FetchResult
from mesh.pool.state.partition import Partition
from mesh.pool.state.window import Window
from mesh.records.batch import RecordBatch
from mesh.records.runs import join_runs
from mesh.records.spans import Gap, Span
from mesh.wire.errors import ErrorCode
from tests.pool.harness import EU, Consumer, World, batch_of, source, value_of

HERE = source(0)


class Log:
    """A partition of transactions of `size` records, each followed by its marker, as the raw engine reports them."""

    def __init__(self, world: World, size: int = 1, empty: int = 1) -> None:
        self.world = world
        self.size = size
        self.empty = empty
        self.position = 0
        self.records: list[int] = []
        world.assign(EU)

    def transaction(self) -> None:
        first, last = self.position, self.position + self.size - 1
        self.records += range(first, last + 1)
        self.world.logs.setdefault(HERE, []).append((first, last))
        self.position = last + 1 + self.empty
        batch = batch_of(HERE, first, last)
        self.world.upstream(lambda pool: pool.intake.received(HERE, [batch], self.world.now, Gap.EMPTY))
        self.world.upstream(lambda pool: pool.intake.reached_end(HERE, self.position, Gap.EMPTY))
        self.world.ends[HERE] = self.position

    @property
    def values(self) -> list[bytes]:
        return [value_of(HERE, offset) for offset in self.records]


def values(consumer: Consumer) -> list[bytes]:
    return [value for _, _, value in consumer.received]


def take_all(consumer: Consumer) -> None:
    """Fetches until no record comes at once."""
    before = -1
    while len(consumer.received) != before:
        before = len(consumer.received)
        consumer.fetch(partitions=[0], wait=0.0)


def window_of(world: World, consumer: Consumer) -> Window:
    return world.pool.members.by_id[consumer.member_id].windows[HERE]


def partition_of(world: World) -> Partition:
    return world.pool.partitions[HERE]


@pytest.mark.parametrize(("size", "empty"), [(1, 0), (1, 1), (3, 1), (1, 40)])
def test_one_upstream_commit_for_each_of_a_member(size: int, empty: int) -> None:
    world = World()
    consumer = world.consumer()
    log = Log(world, size, empty)
    for second in range(20):
        for _ in range(20):
            log.transaction()
            consumer.fetch(partitions=[0], wait=0.0)
            world.advance(0.05)
        if second % 5 == 4:
            consumer.commit()
    assert values(consumer) == log.values
    assert world.stored == {HERE: log.position}
    assert len([each for each in world.effects if isinstance(each, CommitUpstream)]) == 4
    world.check()


def test_the_committed_offset_moves_past_markers_that_come_behind_the_last_commit() -> None:
    world = World()
    consumer = world.consumer()
    log = Log(world, size=2)
    log.transaction()
    take_all(consumer)
    consumer.commit()
    assert world.stored == {HERE: 3}
    world.upstream(lambda pool: pool.intake.reached_end(HERE, 40, Gap.EMPTY))
    assert world.stored == {HERE: 3}
    world.advance(PASS_AFTER)
    assert world.stored == {HERE: 40}
    assert partition_of(world).lag == 0


def test_a_member_that_is_stuck_with_transactions_holds_up_no_commit() -> None:
    world = World(PoolSettings(initial_window=20_000))
    stuck = world.consumer("stuck")
    stuck.fetch(partitions=[0], wait=0.0)
    log = Log(world)
    for _ in range(5_000):
        log.transaction()
    take_all(stuck)
    held = len(stuck.received)
    assert held == 5_000
    other = world.consumer("other")
    for _ in range(50):
        other.fetch(partitions=[0], wait=30.0)
        for _ in range(5):
            log.transaction()
        take_all(other)
        assert set(world.answer(other.commit(), CommitResult).errors.values()) == {ErrorCode.NONE}
    assert values(other) == log.values[held:]
    assert not partition_of(world).is_full
    stored = world.upstreams[world.group].committed(HERE)
    assert (stored.offset, unpack(HERE, stored.offset, stored.metadata).runs) == (0, (Span(9_999, log.position - 2),))
    world.check()


@pytest.mark.parametrize(("size", "empty"), [(1, 1), (2, 30)])
def test_a_reader_that_is_alone_and_never_commits_reads_to_the_end(size: int, empty: int) -> None:
    world = World(PoolSettings(hold_timeout=60.0))
    consumer = world.consumer()
    log = Log(world, size, empty)
    for number in range(3_000):
        log.empty = empty if number < 2_000 else 0
        log.transaction()
        if partition_of(world).backlog:
            consumer.fetch(partitions=[0], wait=0.0)
    take_all(consumer)
    assert values(consumer) == log.values
    assert world.pending_stores == [], "nothing was acknowledged"


def test_what_is_kept_does_not_grow_with_transactions() -> None:
    world = World(PoolSettings(replay_budget=1_000))
    consumer = world.consumer()
    log = Log(world, size=2)
    for _ in range(1_000):
        log.transaction()
        consumer.fetch(partitions=[0], wait=0.0)
    assert values(consumer) == log.values
    assert len(window_of(world, consumer)) < 30
    assert partition_of(world).ledger.spans == []
    assert sys.getsizeof(partition_of(world).ledger._settled) < 1_000
    world.check()


def test_what_is_read_again_lacks_its_markers_and_nothing_is_told_to_be_gone() -> None:
    world = World(PoolSettings(replay_budget=0), auto_reread=False)
    first, second = world.consumer("first"), world.consumer("second")
    log = Log(world, size=2, empty=2)
    for _ in range(4):
        log.transaction()
    take_all(first)
    second.fetch(partitions=[0], wait=30.0)
    first.leave()
    (wanted,) = world.pending_rereads
    assert wanted.span == Span(0, 13)
    world.reread(empty=[2, 3, 6, 7, 10, 11])
    take_all(second)
    assert values(second) == values(first) == log.values
    assert not [each for each in world.effects if isinstance(each, Gone)]
    second.commit()
    assert world.stored == {HERE: 16}
    world.check()


def test_a_replay_of_transactions_has_the_offsets_that_it_had() -> None:
    world = World(PoolSettings(replay_budget=0), auto_reread=False)
    consumer = world.consumer()
    log = Log(world, size=2, empty=3)
    for _ in range(3):
        log.transaction()
    take_all(consumer)
    before, consumer.received = consumer.received[3:], []
    consumer.positions[0] = before[0][1]
    consumer.fetch(partitions=[0], wait=30.0)
    world.reread(empty=[2, 3, 4, 7, 8, 9])
    take_all(consumer)
    assert consumer.received == before
    consumer.commit()
    assert world.stored == {HERE: 15}
    world.check()


def test_a_clean_leave_counts_for_the_first_record_and_not_for_the_marker_before_it() -> None:
    world = World(PoolSettings(redelivery=Redelivery(limit=2)))
    first, second = world.consumer("first"), world.consumer("second")
    log = Log(world, size=3)
    log.transaction()
    log.transaction()
    first.fetch(partitions=[0], wait=0.0)
    first.commit({0: first.received[2][1] + 1})
    assert world.stored == {HERE: 3}
    first.leave()
    counted = [(each.span, each.count) for each in partition_of(world).ledger.counts]
    assert counted == [(Span(3, 4), 1)]
    take_all(second)
    second.leave()
    assert [letter.batch.first for letter in world.dead_letters] == [4]
    world.check()


def test_a_gap_that_is_larger_than_a_window_is_no_work() -> None:
    """A compacted topic with few records left; the window of a member counts offsets."""
    world = World(PoolSettings(initial_window=10))
    consumers = [world.consumer(name) for name in ("first", "second")]
    log = Log(world, size=2, empty=5_000)
    for _ in range(10):
        log.transaction()
    for _ in range(10):
        for consumer in consumers:
            consumer.fetch(partitions=[0], wait=0.0)
            consumer.commit()
    assert sorted(values(consumers[0]) + values(consumers[1])) == sorted(log.values)
    assert len(partition_of(world).backlog) == 0
    world.advance(PASS_AFTER)
    assert world.stored == {HERE: log.position}
    world.check()


def test_what_is_delivered_again_is_counted_in_records() -> None:
    world = World()
    first, second = world.consumer("first"), world.consumer("second")
    log = Log(world, size=2, empty=3)
    for _ in range(3):
        log.transaction()
    take_all(first)
    first.leave()
    take_all(second)
    results = [each.result for each in world.effects if isinstance(each, Answer)]
    again = [each.delivered.redelivered for each in results if isinstance(each, FetchResult) and each.delivered]
    assert sum(again) == len(second.received) == 6
    assert world.pool.members.by_id[second.member_id].redelivered == 12, "in offsets, as what it may hold"


@pytest.mark.parametrize(("gap", "empty"), [(Gap.EMPTY, {3, 4, 7}), (Gap.UNKNOWN, set())])
def test_the_journal_says_where_there_is_no_record_between_batches_that_come_together(
    gap: Gap, empty: set[int]
) -> None:
    world = World()
    consumer = world.consumer()
    Log(world)
    (run,) = join_runs([batch_of(HERE, first, last) for first, last in ((0, 2), (5, 6), (8, 9))])
    world.upstream(lambda pool: pool.intake.received(HERE, [run], world.now, gap))
    take_all(consumer)
    consumer.commit()
    assert world.journal.known[world.group, HERE].empty == empty
    assert world.journal.known[world.group, HERE].settled == {*range(10)}
    world.check()


def test_the_journal_is_not_told_again_of_what_was_read_before(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.consumer().fetch(partitions=[0], wait=0.0)
    Log(world)
    told: list[DeliveryEvent] = []
    monkeypatch.setattr(world.journal, "add", told.append)
    for batches in (((0, 1), (4, 5)), ((0, 1), (4, 5), (7, 8))):
        (run,) = join_runs([batch_of(HERE, first, last) for first, last in batches])
        world.upstream(partial(received, run, world.now))
    assert [(each.kind, each.first, each.last) for each in told if each.kind is DeliveryEventType.EMPTY] == [
        (DeliveryEventType.EMPTY, 2, 3),
        (DeliveryEventType.EMPTY, 6, 6),
    ]


def received(run: RecordBatch, now: float, pool: Pool) -> None:
    pool.intake.received(HERE, [run], now, Gap.EMPTY)
