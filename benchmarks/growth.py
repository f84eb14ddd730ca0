"""What grows, and the unit of work whose cost must not grow with it; on the core of the mesh, without IO.

Each scenario is prepared at a size and then does its unit of work again and again, leaving the size as it is.
`make bench` takes the time; tests/benchmarks counts steps of the interpreter, which no other process disturbs.
"""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.core import Consumer, Core
from benchmarks.curves import Curve, Point
from mesh.pool.common.ids import GroupId

GROUP = GroupId("shop")
BATCH = 16 << 10
"""Bytes of a batch of the backlog."""
_BACKLOGS = (BATCH, 1 << 20, 10 << 20, 100 << 20)
_SPANS = (2, 1_000, 30_000, 1_000_000)
STRETCHES = 9
FIRST_TIMES = 5
"""Uncounted first units: some steps do work that was put off."""

Work = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Scenario:
    """prepare: makes the unit of work at a size. sizes: of a measurement; small: two that a test compares. units: for
    each stretch of time."""

    case: str
    unit: str
    work: str
    sizes: tuple[int, ...]
    small: tuple[int, int]
    prepare: Callable[[int], Work]
    units: int = 300
    is_shared: bool = False
    """Whether a unit is a part of work that is done at once."""


def measure(scenario: Scenario, short: bool = False) -> Curve:
    """The costs at each size, in CPU time of this thread."""
    curve = Curve(scenario.case, scenario.unit, scenario.work)
    for size in scenario.small if short else scenario.sizes:
        work = scenario.prepare(size)
        gc.collect()
        gc.freeze()  # as in the mesh: long-lived objects are not scanned again and again
        for _ in range(FIRST_TIMES):
            work()
        costs = tuple(_stretch(work, scenario.units) for _ in range(1 if short else STRETCHES))
        gc.unfreeze()
        curve.points.append(Point(size, costs))
    return curve


def _stretch(work: Work, units: int) -> float:
    begin = time.thread_time()
    for _ in range(units):
        work()
    return (time.thread_time() - begin) / units * 1e6


def _members(count: int) -> Work:
    """Members with a parked Fetch of six partitions each; a batch comes, one is answered, commits and asks again."""
    core, clients = _pool(6, count)
    for client in clients:
        core.fetch(client)
    partitions = _in_turn(6)

    def work() -> None:
        partition = partitions()
        core.receive(GROUP, partition)
        (client,) = core.idle
        core.idle.clear()
        core.commit(client, partition)
        core.fetch(client)

    return work


def _joins(count: int) -> Work:
    """A member joins a pool of this many, asks for the first time, and goes with its connection."""
    core, clients = _pool(6, count)
    for client in clients:
        core.fetch(client)

    def work() -> None:
        (client,) = core.join(GROUP, 1)
        core.fetch(client)
        core.leave(client)

    return work


def _partitions(count: int) -> Work:
    """All partitions have backlog; a batch comes, and a member takes one, asking for that partition alone."""
    core, (client,) = _pool(count, 1)
    for partition in range(count):
        core.receive(GROUP, partition, 4)
    core.fetch(client, [0], 1)
    partitions = _in_turn(count)

    def work() -> None:
        partition = partitions()
        core.receive(GROUP, partition)
        core.fetch(client, [partition], 1)
        core.commit(client, partition)
        core.idle.clear()

    return work


def _lanes(count: int) -> Work:
    """A member asks for all partitions, and waits; a batch comes. The work of a request is in its partitions, so this
    is one `count`-th of a Fetch."""
    core, (client, other) = _pool(count, 2)
    core.fetch(other)
    core.fetch(client)

    def rounds() -> Iterator[None]:
        while True:
            core.receive(GROUP, 0)
            (answered,) = core.idle
            core.idle.clear()
            core.commit(answered, 0)
            core.fetch(answered)
            yield from itertools.repeat(None, count)

    done = rounds()
    return lambda: next(done)


def _pools(count: int) -> Work:
    """This many pools, each with two waiting members; a batch comes for one pool."""
    core = Core(6)
    groups = [GroupId(f"group-{number}") for number in range(count)]
    for group in groups:
        clients = core.join(group, 2)
        for client in clients:
            core.fetch(client)
        core.assign(group)
    turn = _in_turn(count)

    def work() -> None:
        group = groups[turn()]
        core.receive(group, 0)
        (client,) = core.idle
        core.idle.clear()
        core.commit(client, 0)
        core.fetch(client)

    return work


def _backlog(size: int) -> Work:
    """This many bytes wait in one partition, in batches of 16 KiB; one more comes, and a member takes one."""
    core, (client,) = _pool(1, 1)
    core.receive(GROUP, 0, max(size // BATCH, 1), BATCH)

    def work() -> None:
        core.receive(GROUP, 0, 1, BATCH)
        core.fetch(client, maximum=1)
        core.commit(client, 0)
        core.idle.clear()

    return work


def _spans(count: int) -> Work:
    """A member holds this many unacknowledged spans; a batch comes, and it takes that one and commits the oldest."""
    core, (client,) = _pool(1, 1)
    oldest = itertools.count(client.positions[0] + 1)
    _hold(core, client, count)
    core.fetch(client)

    def work() -> None:
        core.receive(GROUP, 0)
        core.idle.clear()
        core.commit(client, 0, next(oldest))
        core.fetch(client)

    return work


def _replays(count: int) -> Work:
    """A member holds this many unacknowledged spans, and asks for the oldest again."""
    core, (client,) = _pool(1, 1)
    begin = client.positions[0]
    _hold(core, client, count)

    def work() -> None:
        client.positions[0] = begin
        core.fetch(client, maximum=1)
        core.idle.clear()

    return work


def _hold(core: Core, client: Consumer, count: int) -> None:
    """Sends a member this many spans of partition 0."""
    while count > 0:
        core.receive(GROUP, 0, min(count, 1_000))
        core.fetch(client)
        count -= 1_000
    core.idle.clear()


def _pool(partitions: int, members: int) -> tuple[Core, list[Consumer]]:
    """A pool whose members have asked once, so that its partitions are assigned."""
    core = Core(partitions)
    clients = core.join(GROUP, members)
    core.assign(GROUP)
    return core, clients


def _in_turn(count: int) -> Callable[[], int]:
    numbers = itertools.cycle(range(count))
    return lambda: next(numbers)


_IN_AND_COMMITTED = "a batch in, to a member, committed"
SCENARIOS = {
    scenario.case: scenario
    for scenario in (
        Scenario("growth-members", "members", _IN_AND_COMMITTED, (1, 10, 100, 1_000), (4, 200), _members),
        Scenario("growth-joins", "members", "a member joins, asks and goes", (1, 10, 100, 1_000), (4, 200), _joins, 50),
        Scenario("growth-partitions", "partitions", _IN_AND_COMMITTED, (6, 60, 600), (6, 300), _partitions),
        Scenario("growth-lanes", "partitions", "a partition of a Fetch", (6, 60, 600), (6, 60), _lanes, 3_000, True),
        Scenario("growth-pools", "pools", _IN_AND_COMMITTED, (1, 10, 50), (1, 50), _pools),
        Scenario("growth-backlog", "bytes", "a batch in, another out", _BACKLOGS, (BATCH, 16 << 20), _backlog),
        Scenario("growth-spans", "spans", "a batch in, the oldest committed", _SPANS, (2, 3_000), _spans),
        Scenario("growth-replays", "spans", "the oldest sent again", _SPANS, (2, 3_000), _replays),
    )
}
