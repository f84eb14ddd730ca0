"""`make bench`: one command; `--case` selects, `--list` says what there is."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import growth
from benchmarks.bed import Bed, Engine
from benchmarks.cases import CASES, NAMES, USUAL, grow
from benchmarks.curves import Curve
from benchmarks.machine import describe
from benchmarks.options import Options
from benchmarks.report import Results, read, show
from benchmarks.rounds import PROBLEMS, Series

SHORT = 0.004
"""The part of the records to use with `--short`."""


def main(
    case: Annotated[list[str], typer.Option(help="Which cases; all usual ones unless named.")] = [],  # noqa: B006
    rounds: Annotated[int, typer.Option(min=1, help="How often each target has its turn.")] = 5,
    engine: Annotated[list[str], typer.Option(help="Which engines of the mesh.")] = ["raw"],  # noqa: B006
    peers: Annotated[bool, typer.Option(help="Kroxylicious in the same rounds.")] = False,
    beside: Annotated[
        Path | None, typer.Option(exists=True, help="The program kafka-mesh of another version, in the same rounds.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where results.json and the pictures go.")] = Path("build/bench"),
    scale: Annotated[float, typer.Option(min=0.01, max=10, help="How much of the usual number of records.")] = 1.0,
    short: Annotated[bool, typer.Option(help="Few records: only checks that the benchmark works.")] = False,
    list_cases: Annotated[bool, typer.Option("--list", help="Say which cases there are.")] = False,
) -> None:
    """Measure kafka-mesh beside direct consumption, a TCP relay and share groups, in the same rounds."""
    console = Console(width=150)
    if list_cases:
        for name in NAMES:
            console.print(f"{name}{'  (usual)' if name in USUAL else ''}")
        return
    _refuse("case", case, NAMES)
    _refuse("engine", engine, ("raw", "librdkafka"))
    engines: tuple[Engine, ...] = tuple(name for name in ("raw", "librdkafka") if name in engine)
    options = Options(rounds, engines, SHORT if short else scale, short, peers, console.log, beside)
    machine = describe()
    for key, value in machine.items():
        console.print(f"{key}: {value}")
    results = run(case or USUAL, options, out, console)
    if _draw(out, results):
        console.print(f"written to {out}")
    else:
        console.print(f"written to {out}; no pictures without matplotlib (pip install 'kafka-mesh[bench]')")
    if any(series.failures for series in results.series):
        raise typer.Exit(1)


def run(names: Sequence[str], options: Options, out: Path, console: Console) -> Results:
    """Measures these cases. Each result is written as soon as it exists, beside older results of others."""
    file, machine = out / "results.json", describe()
    done = Results()

    def add(new: Sequence[Series | Curve]) -> None:
        for each in new:
            show(console, each)
        done.add(machine, new)
        everything = read(file)
        everything.add(machine, new)
        everything.write(file)

    for name in [name for name in names if name in growth.SCENARIOS]:
        add([grow(name, options)])
    on_broker = [name for name in names if name in CASES]
    if on_broker:
        with tempfile.TemporaryDirectory(prefix="kafka-mesh-bench-") as folder:
            bed = Bed(Path(folder), options.scale, options.beside)
            machine = {**machine, "relay": bed.relay_kind}
            try:
                for name in on_broker:
                    try:
                        add(CASES[name](bed, options))
                    except PROBLEMS as problem:
                        add([Series(name, "", failures=[str(problem)])])
            finally:
                bed.close()
    return done


def _refuse(option: str, given: Sequence[str], known: Sequence[str]) -> None:
    unknown = [name for name in given if name not in known]
    if unknown:
        typer.echo(f"--{option} {unknown[0]}: there is no such {option}; --list says which cases there are", err=True)
        raise typer.Exit(2)


def _draw(out: Path, results: Results) -> bool:
    try:
        from benchmarks.pictures import draw

        draw(out, read(out / "results.json"))
    except ModuleNotFoundError:
        return False
    return True


if __name__ == "__main__":
    typer.run(main)
