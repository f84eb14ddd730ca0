"""Tables for the terminal, and results.json for machines. A new result of a case replaces the old one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.curves import Curve, Point
from benchmarks.rounds import Measured, Run, Series, spread

MILLION, GB = 1e6, 1e9


@dataclass(slots=True)
class Results:
    """The results. machine: the machine and time of each case. A case may have several series."""

    machine: dict[str, Mapping[str, str]] = field(default_factory=dict)
    series: list[Series] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)

    def add(self, machine: Mapping[str, str], new: Sequence[Series | Curve]) -> None:
        """Adds series in place of earlier ones with the same names."""
        names = {each.case for each in new}
        self.series = [each for each in self.series if each.case not in names]
        self.curves = [each for each in self.curves if each.case not in names]
        self.series += [each for each in new if isinstance(each, Series)]
        self.curves += [each for each in new if isinstance(each, Curve)]
        self.machine |= dict.fromkeys(names, machine)

    def find(self, case: str) -> Series | None:
        return next((each for each in self.series if each.case == case), None)

    def write(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(asdict(self), indent=1))


def read(file: Path) -> Results:
    """What `Results.write` wrote; nothing where there is no such file."""
    if not file.exists():
        return Results()
    content = json.loads(file.read_text())
    series = [
        Series(**{**each, "runs": [Run(**{**run, "measured": Measured(**run["measured"])}) for run in each["runs"]]})
        for each in content["series"]
    ]
    curves = [
        Curve(**{**each, "points": [Point(point["size"], tuple(point["costs"])) for point in each["points"]]})
        for each in content["curves"]
    ]
    return Results(content["machine"], series, curves)


def show(console: Console, result: Series | Curve) -> None:
    if isinstance(result, Curve):
        _show_curve(console, result)
    else:
        _show_series(console, result)


def rows_of(series: Series) -> tuple[list[str], list[list[str]]]:
    """The table of a series: its columns, and a row of text for each target. Medians, with the least and the most."""
    costly = any(series.costs(target, lambda measured: measured.records) for target in series.targets)
    columns = ["target", f"median {series.unit}", "of direct", "of relay"]
    columns += ["CPU s / million", "CPU s / GB", "peak MiB"] if costly else []
    rows: list[list[str]] = []
    for target in series.targets:
        values = series.values(target)
        row = [
            target,
            _figures(values),
            spread(series.ratios(target, "direct")),
            spread(series.ratios(target, "relay")),
        ]
        if costly:
            per_million = series.costs(target, lambda measured: measured.records / MILLION)
            per_gb = series.costs(target, lambda measured: measured.bytes / GB)
            peak = series.peak(target)
            row += [spread(per_million, 3), spread(per_gb), f"{peak:.0f}" if peak else "-"]
        rows.append(row)
    return columns, rows


def _figures(values: Sequence[float]) -> str:
    """Rates in thousands; times and shares as they are."""
    if values and min(values) >= 10_000:
        return f"{spread([value / 1_000 for value in values], 0)} k"
    return spread(values, 3)


def _show_series(console: Console, series: Series) -> None:
    if series.runs:
        columns, rows = rows_of(series)
        table = Table(title=series.case, title_justify="left")
        for column in columns:
            table.add_column(column, justify="left" if column == "target" else "right")
        for row in rows:
            table.add_row(*row)
        console.print(table)
    for failure in series.failures:
        console.print(f"[red]failed:[/] {series.case}: {failure}", soft_wrap=True)
    repeated = sum(run.repeated for run in series.runs)
    if repeated:
        console.print(f"{repeated} of {len(series.runs)} runs were repeated, because other programs disturbed them")


def _show_curve(console: Console, curve: Curve) -> None:
    table = Table(title=f"{curve.case}: {curve.work}", title_justify="left")
    table.add_column(curve.unit, justify="right")
    table.add_column("CPU us / unit of work", justify="right")
    for point in curve.points:
        table.add_row(f"{point.size:,}", spread(point.costs, 1))
    console.print(table)
    verdict = "flat or logarithmic" if curve.is_sound else "[red]it grows[/]"
    console.print(f"x {curve.growth:.2f} from first to last: {verdict}")
