"""Records per second of one consumer, and of several that share; CPU and memory of what stands in front."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from benchmarks.bed import Bed, Engine, Target, Topic
from benchmarks.clients import Consumed, consume, share_out
from benchmarks.machine import cpu_seconds, peak_mib
from benchmarks.rounds import Measure, Measured

_numbers = itertools.count(1)


def single(bed: Bed, client: str, topic: Topic, engines: tuple[Engine, ...], share: bool) -> Mapping[str, Measure]:
    """One consumer of `client` on each target, and a share group's consumer where that is asked for."""
    bed.fill(topic)
    count = bed.records(topic)

    def run(target: Target) -> Consumed:
        return consume(client, bed, target, topic, f"bench-{next(_numbers)}", count)

    measures = _targets(bed, engines, run)
    if share:
        measures["share group"] = lambda: _measured(
            bed.direct, lambda: consume("share", bed, bed.direct, topic, f"share-{next(_numbers)}", count)
        )
    return measures


def several(bed: Bed, client: str, topic: Topic, consumers: int, engines: tuple[Engine, ...]) -> Mapping[str, Measure]:
    """Consumers of one group: directly they split the partitions, through the mesh they share the records."""
    bed.fill(topic)
    count = bed.records(topic)

    def run(target: Target) -> Consumed:
        return share_out(client, target, topic, f"bench-{next(_numbers)}", count, consumers)

    return _targets(bed, engines, run)


def _targets(bed: Bed, engines: tuple[Engine, ...], run: Callable[[Target], Consumed]) -> dict[str, Measure]:
    def through(engine: Engine) -> Measured:
        with bed.mesh(engine, group_less=f"bench-{next(_numbers)}") as target:
            return _measured(target, lambda: run(target))

    measures: dict[str, Measure] = {
        "direct": lambda: _measured(bed.direct, lambda: run(bed.direct)),
        "relay": lambda: _measured(bed.relay, lambda: run(bed.relay)),
    }
    for engine in engines:
        measures[f"mesh, {engine}"] = lambda engine=engine: through(engine)  # type: ignore[misc]
    return measures


def _measured(target: Target, run: Callable[[], Consumed]) -> Measured:
    before = sum(map(cpu_seconds, target.pids))
    consumed = run()
    cost = sum(map(cpu_seconds, target.pids)) - before
    return Measured(consumed.rate, cost, sum(map(peak_mib, target.pids)), consumed.records)


@contextmanager
def fresh_mesh(bed: Bed, engine: Engine) -> Iterator[Target]:
    """For other cases."""
    with bed.mesh(engine, group_less=f"bench-{next(_numbers)}") as target:
        yield target
