"""Pictures of the results, where matplotlib is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.curves import Curve
from benchmarks.report import Results
from benchmarks.rounds import Series


def draw(folder: Path, results: Results) -> list[Path]:
    """Draws ratios.png of throughput, times.png of durations, growth.png of the curves; returns the pictures."""
    import matplotlib

    matplotlib.use("Agg")
    rates = [each for each in results.series if each.unit == "records/s" and each.values("direct")]
    times = [each for each in results.series if each.unit != "records/s" and each.runs]
    made: list[Path] = []
    if rates:
        made.append(_draw_bars(folder / "ratios.png", rates, relative=True))
    if times:
        made.append(_draw_bars(folder / "times.png", times, relative=False))
    if results.curves:
        made.append(_draw_curves(folder / "growth.png", results.curves))
    return made


def _draw_bars(file: Path, series: list[Series], relative: bool) -> Path:
    from matplotlib import pyplot

    targets = list(dict.fromkeys(target for each in series for target in each.targets))
    targets = [target for target in targets if not (relative and target == "direct")]
    figure, axes = pyplot.subplots(figsize=(max(6.0, 1.4 * len(series)), 4.2))
    width = 0.8 / max(len(targets), 1)
    for index, target in enumerate(targets):
        bars = [_bar(each, target, relative) for each in series]
        places = [number + index * width for number in range(len(series))]
        heights = [middle for middle, _, _ in bars]
        errors = [[middle - low for middle, low, _ in bars], [high - middle for middle, _, high in bars]]
        axes.bar(places, heights, width, yerr=errors, label=target, error_kw={"linewidth": 0.8})
    if relative:
        axes.axhline(1.0, color="black", linewidth=0.8)
    else:
        axes.set_yscale("log")
    axes.set_ylabel("ratio to direct consumption" if relative else "less is better")
    axes.set_xticks([number + 0.4 - width / 2 for number in range(len(series))])
    labels = [each.case if relative else f"{each.case} ({each.unit})" for each in series]
    axes.set_xticklabels(labels, rotation=25, ha="right", fontsize=8)
    axes.legend(fontsize=8)
    return _save(figure, file)


def _bar(series: Series, target: str, relative: bool) -> tuple[float, float, float]:
    """Median, least and most; nothing where the target was not measured."""
    values = sorted(series.ratios(target, "direct") if relative else series.values(target))
    return (values[len(values) // 2], values[0], values[-1]) if values else (0.0, 0.0, 0.0)


def _draw_curves(file: Path, curves: list[Curve]) -> Path:
    from matplotlib import pyplot

    columns = min(4, len(curves))
    rows = -(-len(curves) // columns)
    figure, grid = pyplot.subplots(rows, columns, figsize=(3.4 * columns, 2.8 * rows), squeeze=False)
    for axes in grid.flat[len(curves) :]:
        axes.set_visible(False)
    for axes, curve in zip(grid.flat, curves, strict=False):
        sizes = [point.size for point in curve.points]
        middles = [point.median for point in curve.points]
        low = [point.median - min(point.costs) for point in curve.points]
        high = [max(point.costs) - point.median for point in curve.points]
        axes.errorbar(sizes, middles, yerr=[low, high], marker="o", capsize=2)
        axes.set_xscale("log")
        axes.set_ylim(0, 1.6 * max(middles))
        axes.set_title(f"{curve.case.removeprefix('growth-')}: {curve.work}", fontsize=8)
        axes.set_xlabel(curve.unit, fontsize=8)
        axes.set_ylabel("CPU us", fontsize=8)
    return _save(figure, file)


def _save(figure: Any, file: Path) -> Path:
    from matplotlib import pyplot

    figure.tight_layout()
    figure.savefig(file, dpi=110)
    pyplot.close(figure)
    return file
