"""Records wait in a queue until their interceptors have seen them: in order, independent of other partitions, and
discarded with the partition."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from mesh.interceptors.chain import ChainStep, InterceptorName, OnFailure
from mesh.interceptors.selection import ConfiguredInterceptor, InterceptionPoint, Isolation, Selection
from mesh.interceptors.spi import DROP, KEEP, On, Outcome, Record
from mesh.memory import MemoryBudget
from mesh.pool.common.ids import GroupId
from mesh.records.batch import RecordBatch
from mesh.records.fetched import split_into_runs
from mesh.records.rewrite import records_of, whole_batches
from mesh.records.spans import ClusterName, CommitPosition, Gap, Span, TopicName, UpstreamPartition
from mesh.runtime.interception.interceptor_runner import InterceptorRunner, InterceptorWork, NotIntercepted, Result
from mesh.runtime.pool.intercepted_engine import (
    FIRST_BACKOFF,
    MOST_OF_ENGINE,
    MOST_WAITING,
    IntakeInterceptors,
    InterceptedEngine,
)
from mesh.tasks import TaskName
from mesh.upstream.engine import (
    Assigned,
    AssignedPartition,
    EndReached,
    EngineEvent,
    EngineFailed,
    EventBatch,
    HighWatermarks,
    Lost,
    PositionReset,
    Received,
    Reread,
    RereadToken,
    Revoked,
    Truncated,
)
from tests.benchmarks.steps import count_steps
from tests.fake_time import in_fake_time
from tests.interceptors.fakes import Does, batch
from tests.planted import Planting, plants
from tests.runtime.pool.harness import FakeEngine

EU, GROUP = ClusterName("eu"), GroupId("billing")
SEEN, BESIDE = (UpstreamPartition(EU, TopicName("seen"), index) for index in range(2))
OTHER = UpstreamPartition(EU, TopicName("other"), 0)


class HeldRunner(InterceptorRunner):
    """Interceptors that wait until a test lets them go on. held: partitions whose records wait. asked: the records that
    came, by partition."""

    def __init__(self, steps: Mapping[InterceptorName, ChainStep]) -> None:
        super().__init__("front", steps, None, lambda: 0.0)
        self.held: dict[int, asyncio.Event] = {}
        self.failing: set[int] = set()
        self.raising: set[int] = set()
        self.asked: list[int] = []

    async def run(self, works: Sequence[InterceptorWork]) -> list[Result]:
        (work,) = works
        partition = work.task.where.partition
        self.asked.append(partition)
        if partition in self.held:
            await self.held[partition].wait()
        if partition in self.failing:
            return [NotIntercepted.TIMED_OUT]
        if partition in self.raising:
            raise RuntimeError("a bug")
        return await super().run(works)


class World:
    """An engine with an interceptor of the topic `seen`, and its events."""

    def __init__(self, function: Callable[[Record], Outcome] = lambda _: KEEP) -> None:
        name = InterceptorName("it")
        configured = ConfiguredInterceptor(
            name, "it", ("seen",), frozenset(On), ("*",), 60.0, 0, OnFailure.FAIL, Isolation.INLINE
        )
        self.runner = HeldRunner({name: ChainStep(name, Does(function), OnFailure.FAIL)})
        selection = Selection([configured], lambda topic: [InterceptionPoint((configured,), topic)])
        intake = IntakeInterceptors(
            self.runner, selection, lambda source: (source.topic, source.partition), asyncio.Semaphore(2)
        )
        self.told: list[EngineEvent] = []
        self.memory = MemoryBudget(1 << 30)
        self.engine = InterceptedEngine(self._make, self.told.append, intake, GROUP, self.memory)

    def _make(self, deliver: Callable[[EngineEvent], None]) -> FakeEngine:
        self.behind = FakeEngine(GROUP, EU, deliver)
        return self.behind

    def tell(self, *events: EngineEvent) -> None:
        for event in events:
            self.behind.deliver(event)

    def hold(self, source: UpstreamPartition) -> None:
        self.runner.held[source.partition] = asyncio.Event()

    def let_go(self, source: UpstreamPartition) -> None:
        self.runner.held.pop(source.partition).set()


def batches(*values: bytes, base: int = 0) -> tuple[RecordBatch, ...]:
    return split_into_runs(memoryview(bytearray(batch(*values, base=base))), base).batches


def received(source: UpstreamPartition, *values: bytes, base: int = 0) -> Received:
    return Received(source, batches(*values, base=base), "raw")


def contents(event: EngineEvent) -> list[tuple[int, bytes | None]]:
    """Offsets and values."""
    assert isinstance(event, Received | Reread)
    return [
        (int.from_bytes(each[:8], "big") + record.delta, record.value)
        for run in event.batches
        for each in whole_batches(memoryview(run.data))
        for record in records_of(each)
    ]


def without_x(record: Record) -> Outcome:
    return DROP if record.value == b"x" else record.with_value(b"<" + (record.value or b"") + b">")


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@in_fake_time
async def test_what_nobody_changes_is_the_same_event() -> None:
    world = World()
    event = received(SEEN, b"a", b"b")
    world.tell(event)
    assert world.told == []
    await settle()
    assert world.told[0] is event and len(world.told) == 1
    assert world.memory.used == 0


@in_fake_time
async def test_what_nobody_sees_passes_at_once() -> None:
    world = World()
    nothing = Reread(SEEN, RereadToken(1), (), True)
    events: list[EngineEvent] = [received(OTHER, b"a"), EndReached(SEEN, 1), HighWatermarks({SEEN: 1}), nothing]
    world.tell(*events)
    assert world.told == events and world.runner.asked == []


@in_fake_time
async def test_what_is_changed_and_dropped_leaves_gaps() -> None:
    world = World(without_x)
    world.tell(received(SEEN, b"a", b"x", b"b", base=10))
    await settle()
    (event,) = world.told
    assert contents(event) == [(10, b"<a>"), (12, b"<b>")]
    assert isinstance(event, Received)
    assert [(each.first, each.last, each.record_count) for each in event.batches] == [(10, 12, 2)]


@in_fake_time
async def test_what_is_dropped_whole_is_passed_over() -> None:
    world = World(without_x)
    world.tell(received(SEEN, b"x", b"x", base=5))
    first = received(SEEN, b"a", base=7)
    world.tell(Received(SEEN, (*first.batches, *batches(b"x", base=8)), "raw"))
    await settle()
    whole, kept, rest = world.told
    assert whole == EndReached(SEEN, 7, Gap.EMPTY)
    assert contents(kept) == [(7, b"<a>")]
    assert rest == EndReached(SEEN, 9, Gap.EMPTY)


@in_fake_time
async def test_order_holds_and_other_partitions_go_on() -> None:
    world = World()
    world.hold(SEEN)
    events: list[EngineEvent] = [received(SEEN, b"a"), EndReached(SEEN, 1), received(SEEN, b"b", base=1)]
    beside = received(BESIDE, b"c")
    world.tell(*events, beside)
    await settle()
    assert world.told == [beside]
    world.let_go(SEEN)
    await settle()
    assert world.told == [beside, *events]


@in_fake_time
async def test_what_came_together_is_parted() -> None:
    world = World()
    seen, other, end = received(SEEN, b"a"), received(OTHER, b"b"), EndReached(SEEN, 1)
    world.tell(EventBatch((seen, other, end)))
    assert world.told == [EventBatch((other,))]
    await settle()
    assert world.told == [EventBatch((other,)), seen, end]


@in_fake_time
async def test_a_failure_stands_and_is_tried_again() -> None:
    world = World()
    world.runner.failing.add(SEEN.partition)
    event, beside = received(SEEN, b"a"), received(BESIDE, b"b")
    world.tell(event, beside)
    await asyncio.sleep(FIRST_BACKOFF * 2.5)
    assert world.told == [beside] and world.runner.asked.count(SEEN.partition) == 2
    world.runner.failing.clear()
    await asyncio.sleep(FIRST_BACKOFF * 2)
    assert world.told == [beside, event]


@in_fake_time
async def test_a_bug_ends_the_engine() -> None:
    """Another one is made then. Without that the partition would stand forever."""
    world = World()
    world.hold(BESIDE)
    world.runner.raising.add(SEEN.partition)
    world.tell(received(SEEN, b"a"), received(SEEN, b"b", base=1), received(BESIDE, b"c"))
    await settle()
    (failed,) = world.told
    assert isinstance(failed, EngineFailed)
    assert (failed.reason, "in _intercept" in failed.traceback) == ("RuntimeError('a bug')", True)
    world.let_go(BESIDE)
    await settle()
    assert world.told == [failed] and world.memory.used == 0


@in_fake_time
async def test_what_is_lost_is_not_told() -> None:
    for end in (
        Lost((SEEN,)),
        Assigned(()),
        Assigned((AssignedPartition(SEEN, 0, CommitPosition(0), False),)),
        PositionReset(SEEN, 0, "the topic was made anew"),
        EngineFailed("a bug", ""),
    ):
        world = World()
        world.hold(SEEN)
        world.tell(received(SEEN, b"a"), end)
        world.let_go(SEEN)
        await settle()
        assert world.told == [end]
        assert world.memory.used == 0


@in_fake_time
async def test_what_is_resumed_goes_on() -> None:
    world = World()
    world.hold(SEEN)
    event = received(SEEN, b"a")
    again = Assigned((AssignedPartition(SEEN, 1, CommitPosition(0), True),))
    world.tell(event, Revoked((SEEN,)), again)
    world.let_go(SEEN)
    await settle()
    assert world.told == [Revoked((SEEN,)), again, event]


@in_fake_time
async def test_a_truncated_log() -> None:
    world = World()
    world.hold(SEEN)
    below, above = received(SEEN, b"a", b"b", base=0), received(SEEN, b"c", base=7)
    world.tell(below, above, EndReached(SEEN, 8), Truncated(SEEN, 1))
    world.let_go(SEEN)
    await settle()
    assert world.told == [below, EndReached(SEEN, 1), Truncated(SEEN, 1)]
    world.tell(Truncated(SEEN, 0))
    assert world.told[-1] == Truncated(SEEN, 0)


@in_fake_time
async def test_spans_that_are_read_again_are_seen_again() -> None:
    world = World(without_x)
    world.hold(SEEN)
    token = RereadToken(3)
    world.tell(received(SEEN, b"a", base=9))
    world.tell(Reread(SEEN, token, batches(b"a", b"x", base=2), False), Reread(SEEN, token, (), True))
    world.let_go(SEEN)
    await settle()
    first, part, end = sorted(world.told, key=lambda each: isinstance(each, Reread))
    assert contents(first) == [(9, b"<a>")]
    assert contents(part) == [(2, b"<a>")]
    assert end == Reread(SEEN, token, (), True)


@in_fake_time
async def test_a_partition_with_much_that_waits_is_paused() -> None:
    world = World()
    world.hold(SEEN)
    large = received(SEEN, b"x" * MOST_WAITING)
    world.tell(large)
    paused = frozenset({SEEN})
    assert world.behind.commands == [("pause", paused)]
    world.engine.pause(paused)
    world.engine.resume(paused)
    assert world.behind.commands[1:] == [("pause", paused)], "it has to wait still"
    world.let_go(SEEN)
    await settle()
    assert world.behind.commands[2:] == [("resume", paused)]


@in_fake_time
async def test_an_engine_with_much_that_waits_brings_nothing() -> None:
    world = World()
    sources = [UpstreamPartition(EU, TopicName("seen"), index) for index in range(MOST_OF_ENGINE // MOST_WAITING + 1)]
    for source in sources:
        world.hold(source)
        world.tell(received(source, b"x" * MOST_WAITING))
    assert ("set_consuming", False) in world.behind.commands
    world.engine.set_consuming(True)
    assert ("set_consuming", True) not in world.behind.commands
    for source in sources:
        world.let_go(source)
    for _ in sources:
        await settle()
    assert ("set_consuming", True) in world.behind.commands and world.memory.used == 0


@in_fake_time
async def test_a_pool_that_ends() -> None:
    world = World()
    world.hold(SEEN)
    world.tell(received(SEEN, b"a"))
    world.behind.leaving.set()
    await world.engine.close({})
    world.let_go(SEEN)
    await settle()
    assert world.told == [] and world.memory.used == 0


@in_fake_time
async def test_commands_go_on_to_the_engine() -> None:
    world = World()
    world.engine.subscribe(frozenset({SEEN.topic}))
    world.engine.reread(RereadToken(1), SEEN, Span(1, 2))
    world.engine.set_eager(True)
    assert world.behind.commands == [
        ("subscribe", frozenset({SEEN.topic})),
        ("reread", (SEEN, Span(1, 2))),
        ("set_eager", True),
    ]


@in_fake_time
async def test_records_that_nobody_sees_cost_a_look_at_their_topic() -> None:
    world = World()

    def steps(event: EngineEvent) -> int:
        return count_steps(lambda: world.tell(event))

    few, many = (received(OTHER, *[b"x"] * count) for count in (10, 1_000))
    steps(few)
    assert steps(few) == steps(many)


@plants(TaskName.INTAKE)
@in_fake_time
async def test_an_exception_at_an_await_ends_the_engine(planting: Planting) -> None:
    world = World()
    world.hold(SEEN)
    with planting.into_task(BaseException):
        world.tell(received(SEEN, b"a"), received(SEEN, b"b", base=1))
        await asyncio.sleep(1)
    assert EngineFailed in map(type, world.told) or world.told == []
