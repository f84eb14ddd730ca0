"""Tables for the terminal, JSON for machines, pictures for documents."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.rounds import Series, spread


def show(console: Console, series: Series) -> None:
    table = Table(title=f"{series.case} ({series.unit})", title_justify="left")
    for column in ("target", "median", "ratio to direct", "ratio to relay", "CPU us/record", "peak MiB"):
        table.add_column(column, justify="left" if column == "target" else "right")
    for target in series.targets:
        costs = [
            run.measured.cost / run.measured.records * 1e6
            for run in series.runs
            if run.target == target and run.measured.records and run.measured.cost
        ]
        peaks = [run.measured.peak for run in series.runs if run.target == target and run.measured.peak]
        table.add_row(
            target,
            f"{series.median(target):,.4g}",
            spread(series.ratios(target, "direct")),
            spread(series.ratios(target, "relay")),
            spread(costs),
            f"{max(peaks):.0f}" if peaks else "-",
        )
    console.print(table)
    for failure in series.failures:
        console.print(f"[red]failed:[/] {failure}")
    repeated = sum(run.repeated for run in series.runs)
    if repeated:
        console.print(f"{repeated} of {len(series.runs)} runs were disturbed by others, and made once more")


def write(folder: Path, machine: Mapping[str, str], results: Sequence[Series]) -> None:
    """results.json, and a picture if matplotlib is there."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine, "series": [asdict(series) for series in results]}
    (folder / "results.json").write_text(json.dumps(content, indent=1))
    if results:
        _draw(folder / "ratios.png", results)


def _draw(file: Path, results: Sequence[Series]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    targets = [name for name in dict.fromkeys(t for series in results for t in series.targets) if name != "direct"]
    figure, axes = pyplot.subplots(figsize=(max(6.0, 1.6 * len(results)), 4.2))
    width = 0.8 / max(len(targets), 1)
    for index, target in enumerate(targets):
        heights = [
            series.median(target) / series.median("direct")
            if series.values(target) and series.values("direct")
            else 0.0
            for series in results
        ]
        places = [number + index * width for number in range(len(results))]
        axes.bar(places, heights, width, label=target)
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_xticks([number + 0.4 - width / 2 for number in range(len(results))])
    axes.set_xticklabels([series.case for series in results], rotation=20, ha="right")
    axes.set_ylabel("ratio to direct consumption")
    axes.legend()
    figure.tight_layout()
    figure.savefig(file, dpi=120)
