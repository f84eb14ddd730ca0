"""`make bench`: one command; `--case` selects, `--list` says what there is."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import latency, parked, throughput
from benchmarks.bed import TOPICS, Bed, Engine, Target
from benchmarks.machine import describe
from benchmarks.report import show, write
from benchmarks.rounds import Measure, Measured, Series, interleave

console = Console(width=140)


@dataclass(frozen=True, slots=True)
class Options:
    rounds: int
    engines: tuple[Engine, ...]
    short: bool


Case = Callable[[Bed, Options], Series]


def _cases() -> Iterator[tuple[str, Case]]:
    for client in ("kcat", "java", "confluent", "aiokafka"):
        for topic in TOPICS:
            yield f"{client}-{topic}", _single(client, topic)
    for consumers in (2, 4):
        for topic in ("s100", "s1k"):
            yield f"{consumers}-confluent-{topic}", _several(consumers, topic)
    for rate in (100, 5_000):
        yield f"latency-{rate}", _latency(rate)
    for consumers in (200, 1_000):
        yield f"parked-{consumers}", _parked(consumers)


def _single(client: str, topic: str) -> Case:
    def case(bed: Bed, options: Options) -> Series:
        measures = throughput.single(bed, client, TOPICS[topic], options.engines, share=client == "java")
        return interleave(f"{client}-{topic}", "records/s", measures, options.rounds, console.log)

    return case


def _several(consumers: int, topic: str) -> Case:
    def case(bed: Bed, options: Options) -> Series:
        measures = throughput.several(bed, "confluent", TOPICS[topic], consumers, options.engines)
        return interleave(f"{consumers}-confluent-{topic}", "records/s", measures, options.rounds, console.log)

    return case


def _latency(rate: int) -> Case:
    """Milliseconds; a row for each percentile of each target, a higher ratio being worse."""

    def case(bed: Bed, options: Options) -> Series:
        series = Series(f"latency-{rate}", "ms")
        seconds = 2.0 if options.short else 12.0
        for number in range(1, options.rounds + 1):
            with ExitStack() as stack:
                targets: dict[str, Target] = {"direct": bed.direct, "relay": bed.relay}
                for engine in options.engines:
                    targets[f"mesh, {engine}"] = stack.enter_context(throughput.fresh_mesh(bed, engine))
                for name, percentiles in latency.measure(bed, targets, rate, seconds).items():
                    console.log(f"latency-{rate} {number} {name}: {percentiles}")
                    for percentile, value in percentiles.items():
                        label = name if percentile == "p50" else f"{name} {percentile}"
                        series.add(number, label, Measured(value))
        return series

    return case


def _parked(consumers: int) -> Case:
    def case(bed: Bed, options: Options) -> Series:
        seconds = 2.0 if options.short else 8.0

        def through(engine: Engine) -> Measured:
            with throughput.fresh_mesh(bed, engine) as target:
                found = parked.measure(bed, target, target.pids[0], consumers, seconds)
            console.log(f"{found}")
            return Measured(found.cores)

        measures: dict[str, Measure] = {
            "direct": lambda: Measured(parked.measure(bed, bed.direct, bed.broker.pid, consumers, seconds).cores)
        }
        for engine in options.engines:
            measures[f"mesh, {engine}"] = lambda engine=engine: through(engine)  # type: ignore[misc]
        return interleave(f"parked-{consumers}", "cores", measures, options.rounds, console.log)

    return case


CASES = dict(_cases())
USUAL: tuple[str, ...] = (
    "kcat-s100",
    "java-s100",
    "confluent-s100",
    "kcat-s1k",
    "java-s1k",
    "confluent-s1k",
    "java-lz4-100",
)
USUAL += ("4-confluent-s100", "latency-100", "parked-200")


def main(
    case: Annotated[list[str], typer.Option(help="Which cases; all usual ones unless named.")] = [],  # noqa: B006
    rounds: Annotated[int, typer.Option(min=1, help="How often each target has its turn.")] = 5,
    engine: Annotated[list[str], typer.Option(help="Which engines of the mesh.")] = ["raw", "librdkafka"],  # noqa: B006
    out: Annotated[Path, typer.Option(help="Where results.json and the pictures go.")] = Path("build/bench"),
    short: Annotated[bool, typer.Option(help="Few records: only checks that the benchmark works.")] = False,
    list_cases: Annotated[bool, typer.Option("--list", help="Say which cases there are.")] = False,
) -> None:
    """Measure kafka-mesh beside direct consumption, a TCP relay and share groups, in the same rounds."""
    if list_cases:
        for name in CASES:
            console.print(f"{name}{'  (usual)' if name in USUAL else ''}")
        return
    unknown = [name for name in case if name not in CASES]
    if unknown:
        console.print(f"no such case: {', '.join(unknown)}; --list says which there are")
        raise typer.Exit(2)
    engines: tuple[Engine, ...] = tuple(name for name in ("raw", "librdkafka") if name in engine)
    options = Options(rounds, engines, short)
    machine = describe()
    for name, value in machine.items():
        console.print(f"{name}: {value}")
    results: list[Series] = []
    with tempfile.TemporaryDirectory(prefix="kafka-mesh-bench-") as folder:
        bed = Bed(Path(folder), scale=0.004 if short else 1.0)
        try:
            for name in case or USUAL:
                series = CASES[name](bed, options)
                show(console, series)
                results.append(series)
                write(out, machine, results)
        finally:
            bed.close()
    console.print(f"written to {out}")
    if any(series.failures for series in results):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
