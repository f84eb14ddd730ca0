"""How much the engines may bring."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mesh.memory import MemoryBudget
from mesh.pool.common.effects import ConsumeUpstream, Effect, PauseUpstream, ResumeUpstream
from mesh.pool.common.ids import GroupId
from mesh.pool.common.outbox import CurrentShareSettings, Outbox, PoolParts
from mesh.pool.common.settings import PoolSettings
from mesh.pool.common.timers import Timers
from mesh.pool.intake.backpressure import Backpressure
from mesh.pool.state.partition import Partition
from tests.pool.harness import EU, US, Consumer, World, source

GROUP = GroupId("shop")


class Bench:
    """One pool's demand, and backlogs that are plain numbers."""

    def __init__(self, partition: int = 100, pool: int = 300, shared: MemoryBudget | None = None) -> None:
        self.outbox = Outbox()
        self.shared = shared or MemoryBudget(1 << 30)
        settings = PoolSettings(partition_budget=partition, pool_budget=pool)
        self.backpressure = Backpressure(
            PoolParts(GROUP, settings, Timers(), self.outbox, CurrentShareSettings(settings.share)), self.shared
        )
        self.backpressure.add_cluster(EU)
        self.backpressure.add_cluster(US)
        self.partitions = [Partition(source(index)) for index in range(4)]

    def backlog(self, *sizes: int, hungry: bool = False, kept: int = 0) -> list[Effect]:
        """The effect of backlogs of these sizes."""
        touched = []
        for partition, size in zip(self.partitions, sizes, strict=False):
            if partition.backlog_bytes != size:
                partition.backlog_bytes = size
                touched.append(partition)
        self.outbox.take_all()
        total = sum(partition.backlog_bytes for partition in self.partitions)
        self.backpressure.update(touched, total, kept, hungry)
        return self.outbox.take_all()


STOP = [ConsumeUpstream(GROUP, EU, False), ConsumeUpstream(GROUP, US, False)]
GO = [ConsumeUpstream(GROUP, EU, True), ConsumeUpstream(GROUP, US, True)]


def test_engines_stop_when_a_partition_has_used_up_its_budget() -> None:
    bench = Bench()
    assert bench.backlog(99) == []
    assert bench.backlog(100) == STOP
    assert bench.backlog(120) == []


def test_engines_go_on_when_it_is_below_its_budget_again() -> None:
    bench = Bench()
    bench.backlog(100)
    assert bench.backlog(60) == GO


def test_engines_stop_when_the_pool_has_used_up_its_budget_and_go_on_at_half_of_it() -> None:
    bench = Bench()
    assert bench.backlog(90, 90, 90) == []
    assert bench.backlog(90, 90, 90, 40) == STOP
    assert bench.backlog(90, 90, 0, 0) == []
    assert bench.backlog(90, 60, 0, 0) == GO


def test_a_partition_is_paused_only_when_somebody_waits_for_records_of_another() -> None:
    bench = Bench()
    bench.backlog(100)
    assert bench.backlog(100, hungry=True) == [PauseUpstream(GROUP, source(0)), *GO]
    assert bench.backlog(100, hungry=True) == []


def test_a_paused_partition_is_resumed_when_half_of_its_budget_is_free() -> None:
    bench = Bench()
    bench.backlog(100, hungry=True)
    assert bench.backlog(60) == []
    assert bench.backlog(50) == [ResumeUpstream(GROUP, source(0))]


def test_what_all_pools_keep_is_bounded_together() -> None:
    shared = MemoryBudget(150)
    one, two = Bench(shared=shared), Bench(shared=shared)
    assert one.backlog(90) == []
    assert two.backlog(0, 70) == STOP
    assert shared.used == 160
    one.backlog(0)
    assert shared.used == 70
    assert two.backlog(0, 60) == GO


def test_what_was_sent_and_is_kept_for_replays_counts_in_what_all_pools_keep() -> None:
    bench = Bench(shared=MemoryBudget(150))
    assert bench.backlog(10, kept=140) == STOP
    bench.backpressure.close()
    assert bench.shared.used == 0


def test_a_new_assignment_has_no_paused_partition() -> None:
    bench = Bench()
    bench.backlog(100, hungry=True)
    bench.backpressure.forget(bench.partitions[0])
    assert bench.backlog(101, hungry=True) == [PauseUpstream(GROUP, source(0))]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 150), st.booleans()), max_size=40))
def test_what_is_full_is_never_asked_for_more_and_what_is_empty_always(
    changes: list[tuple[int, int, bool]],
) -> None:
    bench, sizes = Bench(), [0, 0, 0, 0]
    idle, paused = set[object](), set[object]()
    for index, size, hungry in changes:
        sizes[index] = size
        for effect in bench.backlog(*sizes, hungry=hungry):
            match effect:
                case ConsumeUpstream(_, cluster, consuming):
                    assert consuming is (cluster in idle), "said twice"
                    (idle.discard if consuming else idle.add)(cluster)
                case PauseUpstream(_, partition):
                    assert partition not in paused
                    paused.add(partition)
                case ResumeUpstream(_, partition):
                    paused.remove(partition)
                case _:
                    raise AssertionError(effect)
        over = sum(sizes) >= 300
        for number, size in enumerate(sizes):
            full = size >= 100 or (over and size > 0)
            stopped = source(number) in paused or source(number).cluster in idle
            assert stopped or not full
            assert not (hungry and size == 0 and stopped)
        if not any(sizes):
            assert not idle
            assert not paused


def test_a_pool_that_is_full_goes_on_when_a_member_takes_from_it() -> None:
    world = World(PoolSettings(partition_budget=300, pool_budget=10_000))
    consumer = world.consumer()
    consumer.fetch(wait=0.0)
    for _ in range(5):
        if world.is_consumed(0):
            world.produce(0, 10)
    world.assign_all()
    while world.is_consumed(0):
        world.produce(0, 10)
    world.check()
    take_all(consumer)
    assert world.is_consumed(0)
    world.check()


def take_all(consumer: Consumer) -> None:
    while not consumer.is_parked:
        consumer.fetch(wait=30.0)


def test_a_paused_partition_whose_offsets_start_again_is_read_again() -> None:
    world = World(PoolSettings(partition_budget=300, pool_budget=10_000))
    consumer = world.consumer()
    world.assign_all()
    consumer.fetch(partitions=[1], wait=30.0)
    while world.is_consumed(0):
        world.produce(0, 10)
    assert source(0) in world.upstreams[GROUP].paused
    world.upstream(lambda pool: pool.intake.position_reset(source(0), 0, "made anew", world.now))
    assert source(0) not in world.upstreams[GROUP].paused
    world.check()


def test_what_is_kept_for_replays_gives_way_when_all_pools_together_keep_too_much() -> None:
    world = World(PoolSettings(replay_budget=1 << 20))
    consumer = world.consumer()
    world.assign_all()
    world.produce(0, 10)
    consumer.fetch()
    kept = world.pool.serving.sent_batches.size
    assert kept > 0
    world.memory.limit = kept - 1
    world.produce(1, 1)
    assert world.pool.serving.sent_batches.size < kept
    assert world.memory.used <= world.memory.limit
    world.check()


def test_a_partition_that_comes_back_unpaused_is_paused_again_while_it_is_full() -> None:
    world = World(PoolSettings(partition_budget=300, pool_budget=10_000))
    consumer = world.consumer()
    world.assign_all()
    consumer.fetch(partitions=[1], wait=30.0)
    while world.is_consumed(0):
        world.produce(0, 10)
    assert source(0) in world.upstreams[GROUP].paused
    world.upstream(lambda pool: pool.intake.revoked([source(0), source(1)]))
    world.assign(EU, resumed=True)
    assert source(0) in world.upstreams[GROUP].paused
    world.check()
