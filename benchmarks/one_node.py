"""The cases of a cluster of three brokers, at an address for each of them, and at one address for all."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import held, producing, throughput
from benchmarks.bed import TOPICS, Bed, Target
from benchmarks.options import Case, Options
from benchmarks.rounds import Measure, Measured, Series, interleave
from benchmarks.several import several_beside

CLIENTS: tuple[producing.Producer, ...] = ("java", "confluent")


def one_node_cases() -> Iterator[tuple[str, Case]]:
    """Three brokers at an address for each, and at one."""
    for client in CLIENTS:
        for topic in ("s100", "s1k", "s100k"):
            yield f"one-node-{client}-{topic}", _at_one_node(f"one-node-{client}-{topic}", client, topic)
        for size in (100, 1_000, 100_000):
            name = f"one-node-{client}-produce-{size}-all"
            yield name, _produced_at_one_node(name, client, size)
    yield "one-node-held", _held


def _at_one_node(name: str, client: producing.Producer, topic: str) -> Case:
    def case(bed: Bed, options: Options) -> list[Series]:
        several = several_beside(bed)
        with throughput.at_one_node(several, client, TOPICS[topic]) as measures:
            return [interleave(Series(name, "records/s"), measures, options.rounds, options.say)]

    return case


def _produced_at_one_node(name: str, producer: producing.Producer, size: int) -> Case:
    def case(bed: Bed, options: Options) -> list[Series]:
        several = several_beside(bed)
        count = max(int(producing.PRODUCED_BYTES / size * options.scale), min(10_000, 50_000_000 // size))
        with several.shown() as targets:
            measures = {target.name: producing.at(several, target, producer, size, "all", count) for target in targets}
            return [interleave(Series(name, "records/s"), measures, options.rounds, options.say)]

    return case


def _held(bed: Bed, options: Options) -> list[Series]:
    """A partition beside one whose leader hangs most of the time."""
    several, seconds = several_beside(bed), 2.0 if options.short else 10.0
    median, p99 = Series("one-node-held median", "ms"), Series("one-node-held p99", "ms")

    def measure(target: Target, is_slow: bool) -> Measured:
        found = held.measure(several, target, seconds, is_slow=is_slow)
        return Measured(found["median"], second=found["p99"])

    with several.shown() as targets:
        measures: dict[str, Measure] = {target.name: lambda target=target: measure(target, True) for target in targets}  # type: ignore[misc]
        for target in targets:
            measures[f"{target.name}, none hangs"] = lambda target=target: measure(target, False)  # type: ignore[misc]
        interleave(median, measures, options.rounds, options.say)
    for run in median.runs:
        p99.add(run.round, run.target, Measured(run.measured.second), run.foreign)
    return [median, p99]
