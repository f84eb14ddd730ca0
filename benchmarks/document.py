"""`python -m benchmarks.document`: writes the results into docs/performance.md, so that page and results agree.

The results are in docs/performance/, with their pictures.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.curves import Curve
from benchmarks.goals import GOALS, NOT_MEASURED
from benchmarks.report import Results, read, rows_of
from benchmarks.rounds import spread

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "performance.md"
FOLDER = DOCS / "performance"
BEGIN, END = "<!-- measured: written by `make bench-document` -->", "<!-- end of what was measured -->"
_GOALS = """\
### Goals

A goal has a bound that the mesh must reach (`at least`), and a better value (`aim`). For times, CPU and memory less is
better. `reached` says `aim`, `yes` for the bound, or `no`. Rows without a bound have no goal."""
_CASES = """\
### Each case

Figures are medians of the rounds, with the least and the most of them in brackets. A ratio compares two runs of the
same round. CPU and memory are those of the target; for `direct`, those of the broker."""


def render(results: Results) -> str:
    """Everything between the two marks."""
    parts = [_machines(results), _disturbance(results), _GOALS, _goals(results)]
    if results.series:
        parts.append(_CASES)
    if any(series.unit == "records/s" for series in results.series):
        parts.append("![throughput, ratios to direct consumption](performance/ratios.png)")
    for series in results.series:
        columns, rows = rows_of(series)
        failures = [f"Failed: {failure.splitlines()[0]}" for failure in series.failures]
        rounds = len({run.round for run in series.runs})
        parts += [
            f"**{series.case}** ({rounds} round{'s' * (rounds != 1)})",
            _table(columns, rows) if rows else "",
            *failures,
        ]
    if results.curves:
        parts += ["### Growth", _curves(results.curves), "![costs by size](performance/growth.png)"]
    return "\n\n".join(part for part in parts if part)


def put_into(page: str, measured: str) -> str:
    """The page with new text between the marks."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{measured}\n\n{END}{tail}"


def _machines(results: Results) -> str:
    """One line for each machine and time of measurement."""
    lines: dict[str, None] = {}
    for machine in results.machine.values():
        facts = [
            f"{key} {value}" for key, value in machine.items() if key not in ("date", "processor", "memory", "system")
        ]
        lines[f"{machine['processor']}, {machine['memory']}, {machine['system']}; {'; '.join(facts)}"] = None
    dates = sorted({machine["date"] for machine in results.machine.values()})
    if not dates:
        return "Nothing has been measured yet."
    when = f"on {dates[0]}" if len(dates) == 1 else f"from {dates[0]} to {dates[-1]}"
    machines = "this machine" if len(lines) == 1 else "these machines"
    return f"Measured {when} on {machines}:\n\n" + "\n".join(f"* {line}" for line in lines)


def _disturbance(results: Results) -> str:
    """How much others used meanwhile: a reader must know, since no rule makes a busy machine a quiet one."""
    runs = [run for series in results.series for run in series.runs]
    if not runs:
        return ""
    foreign = [run.foreign for run in runs]
    repeated = sum(run.repeated for run in runs)
    text = f"Other programs used {statistics.median(foreign):.2f} cores meanwhile (median of {len(runs)} runs; at most "
    return f"{text}{max(foreign):.2f}). Runs repeated because of that: {repeated}."


def _goals(results: Results) -> str:
    rows = [goal.row(results) for goal in GOALS]
    table = _table(("case", "at least", "aim", "measured", "reached", "TCP relay"), rows)
    missing = sum(row[3] == NOT_MEASURED for row in rows)
    note = f"There is no claim about {missing} of these {len(rows)}: the present benchmark has not measured them."
    return f"{table}\n\n{note}" if missing else table


def _curves(curves: Sequence[Curve]) -> str:
    rows = []
    for curve in curves:
        costs = "; ".join(f"{point.size:,}: {spread(point.costs, 0)}" for point in curve.points)
        verdict = "flat or logarithmic" if curve.is_sound else "grows"
        rows.append(
            [curve.case.removeprefix("growth-"), curve.work, curve.unit, costs, f"x {curve.growth:.2f}, {verdict}"]
        )
    return _table(("what grows", "unit of work", "size in", "CPU us of a unit, by size", "from first to last"), rows)


def _table(columns: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    head = list(columns)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(
    results: Annotated[Path, typer.Option("--from", help="The folder that `make bench` wrote.")] = Path("build/bench"),
    again: Annotated[bool, typer.Option(help="Only write the page again, from what is in docs/performance.")] = False,
) -> None:
    """Takes the results over, and writes docs/performance.md."""
    if not again:
        FOLDER.mkdir(exist_ok=True)
        for file in FOLDER.glob("*.png"):
            file.unlink()
        for file in (results / "results.json", *sorted(results.glob("*.png"))):
            shutil.copy(file, FOLDER / file.name)
    PAGE.write_text(put_into(PAGE.read_text(), render(read(FOLDER / "results.json"))))


if __name__ == "__main__":
    typer.run(main)
