"""The counts of backlogs are right after batches are put in and taken out, in any parts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mesh.pool.common.history import History, Redelivery
from mesh.pool.common.ids import GroupId
from mesh.pool.common.outbox import CurrentShareSettings, Outbox, PoolParts
from mesh.pool.common.settings import PoolSettings, ShareSettings
from mesh.pool.common.timers import Timers
from mesh.pool.distribution.backlogs import Backlogs
from mesh.pool.distribution.quarantine import Quarantine
from mesh.pool.distribution.slicing import Slicing
from mesh.pool.state.partition import Partition
from mesh.pool.state.window import Available
from mesh.records.runs import join_runs
from tests.pool.names import batch_of, source


class Bench:
    """One partition, and the backlogs of its pool, which suspect records that were delivered in vain twice."""

    def __init__(self) -> None:
        self.partition = Partition(source(0))
        self.backlogs = Backlogs(
            Quarantine(Redelivery(limit=3)),
            Slicing(
                PoolParts(GroupId("billing"), PoolSettings(), Timers(), Outbox(), CurrentShareSettings(ShareSettings()))
            ),
        )

    def batch(self, first: int, last: int, history: History | None = None) -> Available:
        return Available(batch_of(self.partition.source, first, last), history or History())

    def put(self, available: Available) -> Available:
        self.backlogs.put(self.partition, available)
        return available

    @property
    def spans(self) -> list[tuple[int, int]]:
        return [(each.batch.first, each.batch.last) for each in self.partition.backlog.values()]


@pytest.fixture
def bench() -> Iterator[Bench]:
    """After any test, the sizes equal those of the batches in the backlogs."""
    bench = Bench()
    yield bench
    size = sum(each.size for each in bench.partition.backlog.values())
    assert bench.backlogs.size == bench.partition.backlog_bytes == size
    assert bench.partition.suspects == sum(each.history.count >= 2 for each in bench.partition.backlog.values())


def test_what_is_put_is_taken_again(bench: Bench) -> None:
    first, second = bench.put(bench.batch(0, 4)), bench.put(bench.batch(5, 9, History(count=2, was_sent=True)))
    assert bench.partition.suspects == 1
    assert bench.backlogs.size == first.size + second.size
    bench.backlogs.touched.clear()
    bench.backlogs.take(bench.partition, second)
    assert bench.spans == [(0, 4)]
    assert bench.backlogs.touched == {bench.partition}


def test_a_part_of_a_run_is_taken_and_the_rest_stays(bench: Bench) -> None:
    (run,) = join_runs([bench.batch(first, first + 4).batch for first in (0, 5, 10)])
    available = bench.put(Available(run, History(count=1, was_sent=True), None))
    taken = bench.backlogs.take_some(bench.partition, available, 2)
    assert (taken.batch.first, taken.batch.last, taken.history) == (0, 9, available.history)
    assert bench.spans == [(10, 14)]
    (rest,) = bench.partition.backlog.values()
    assert rest.history == available.history
    assert bench.backlogs.take_some(bench.partition, rest, 1) is rest, "one batch is taken whole"
    assert bench.spans == []


def test_of_a_batch_that_is_cut_the_rest_goes_back(bench: Bench) -> None:
    available = bench.put(bench.batch(0, 9))
    bench.backlogs.take(bench.partition, available)
    first = bench.backlogs.put_back_all_but(bench.partition, available, 4)
    assert first is not None
    assert (first.batch.first, first.batch.last, first.batch.record_count) == (0, 3, 4)
    assert bench.spans == [(4, 9)]


def test_nothing_is_left_of_what_is_forgotten(bench: Bench) -> None:
    bench.put(bench.batch(0, 4))
    bench.put(bench.batch(5, 9, History(count=2, was_sent=True)))
    bench.backlogs.forget(bench.partition)
    assert (bench.spans, bench.backlogs.size) == ([], 0)
