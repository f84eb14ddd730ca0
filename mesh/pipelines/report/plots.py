"""The plots of a report, as SVG without scripts; colours are those of the page's style sheet. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Final

from mesh.pipelines.report.delays import Delays, quantiles
from mesh.pipelines.report.figures import Figures, TallyOfTime
from mesh.pipelines.report.scales import Linear, Logarithmic, moments
from mesh.pipelines.report.wording import duration, moment, number, percent

WIDE, HIGH = 640, 220
LEFT, RIGHT, TOP, BOTTOM = 56, 10, 10, 24
COLOURS: Final = 8
"""The number of members with their own colour; the others share one."""
NINES: Final = (0, 50_000, 90_000, 99_000, 99_900, 99_990)
"""Ranks as parts of 100,000."""
MARKED: Final = (50_000, 99_000, 99_900)
Series = Sequence[tuple[float, float] | None]


def svg(what: str, inside: str, wide: int = WIDE, high: int = HIGH) -> str:
    """Returns a plot as SVG. what: its description for people who cannot see it."""
    return f'<svg viewBox="0 0 {wide} {high}" role="img" aria-label="{escape(what)}">{inside}</svg>'


def line(points: Series, style: str) -> str:
    """Returns a line that is interrupted at each None; a single point is a dot."""
    found = []
    for there, group in groupby(points, key=lambda each: each is not None):
        if not there:
            continue
        run = [each for each in group if each is not None]
        if len(run) == 1:
            found.append(f'<circle class="{style}" cx="{run[0][0]:.1f}" cy="{run[0][1]:.1f}" r="2"/>')
        else:
            found.append(f'<polyline class="{style}" points="{_points(run)}"/>')
    return "".join(found)


def band(upper: Series, lower: Series, style: str) -> str:
    """Returns the area between two lines that are interrupted at the same places."""
    found = []
    pairs = list(zip(upper, lower, strict=True))
    for there, group in groupby(pairs, key=lambda each: each[0] is not None and each[1] is not None):
        run = list(group)
        if there and len(run) > 1:
            around = [each[0] for each in run] + [each[1] for each in reversed(run)]
            found.append(f'<polygon class="{style}" points="{_points([each for each in around if each])}"/>')
    return "".join(found)


def _points(run: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in run)


def _words(x: float, y: float, words: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _across(y: float, words: str, wide: int = WIDE) -> str:
    ruled = f'<line class="grid" x1="{LEFT}" x2="{wide - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
    return ruled + _words(LEFT - 7, y + 4, words, "end")


class Times:
    """The axis of time, and the windows on it."""

    def __init__(self, figures: Figures) -> None:
        self.windows = list(figures.windows)
        self.window = figures.window
        self.begin, self.end = self.windows[0], self.windows[-1] + figures.window
        self._scale = Linear(self.begin, self.end, LEFT, WIDE - RIGHT)

    def middle(self, window: int) -> float:
        return self._scale.at(window + self.window / 2)

    def axis(self, y: float) -> str:
        is_long = self.end - self.begin > 172_800_000
        form = "%d %b" if is_long else "%H:%M:%S" if self.end - self.begin < 600_000 else "%H:%M"
        ticks = [each for each in moments(self.begin, self.end) if LEFT + 8 < self._scale.at(each) < WIDE - 20]
        return "".join(_words(self._scale.at(each), y, moment(each, form)) for each in ticks)

    def hover(self, texts: Mapping[int, str]) -> str:
        """Returns an area over each window, which shows its figures to the pointer."""
        found = []
        for window, words in texts.items():
            x, wide = self._scale.at(window), self._scale.at(window + self.window) - self._scale.at(window)
            when = moment(window, "%d %b %H:%M:%S")
            found.append(
                f'<rect class="hover" x="{x:.1f}" y="{TOP}" width="{wide:.1f}" height="{HIGH - TOP - BOTTOM}">'
                f"<title>{when} UTC\n{escape(words)}</title></rect>"
            )
        return "".join(found)

    def bar(self, window: int, low: float, high: float, style: str) -> str:
        x, wide = self._scale.at(window), self._scale.at(window + self.window) - self._scale.at(window)
        gap = min(wide * 0.15, 2)
        return (
            f'<rect class="{style}" x="{x + gap / 2:.1f}" y="{high:.1f}" width="{wide - gap:.1f}" '
            f'height="{max(low - high, 0):.1f}"/>'
        )


def delays_over_time(figures: Figures, name: str, title: str, scale: Logarithmic) -> str:
    """Plots a delay over time: p50 to p99 as a band, p99.9 above it. name: `waited`, `held` or `whole`."""
    times = Times(figures)
    rows = {window: quantiles(getattr(tally, name), (500, 990, 999)) for window, tally in figures.windows.items()}
    series = [
        [
            None if (value := row[at]) is None else (times.middle(window), scale.at(value))
            for window, row in rows.items()
        ]
        for at in range(3)
    ]
    inside = "".join(_across(scale.at(each), duration(each)) for each in scale.ticks) + times.axis(HIGH - 6)
    inside += band(series[1], series[0], f"band {name}")
    inside += line(series[2], f"far {name}") + line(series[1], f"thin {name}") + line(series[0], f"bold {name}")
    hover = {
        window: f"p50 {duration(row[0])}, p99 {duration(row[1])}, p99.9 {duration(row[2])}"
        for window, row in rows.items()
        if row[0] is not None
    }
    return svg(title, inside + times.hover(hover))


def scale_of_delays(figures: Figures, names: Sequence[str]) -> Logarithmic:
    """Returns one scale for several plots, so that they can be compared."""
    found = [
        value
        for tally in figures.windows.values()
        for name in names
        for value in quantiles(getattr(tally, name), (500, 999))
        if value is not None
    ]
    return Logarithmic.of(found, HIGH - BOTTOM, TOP)


def nines(figures: Figures) -> str:
    """Plots every delay by its rank; each further nine takes as much room as the one before."""
    total = figures.total
    shown = {name: getattr(total, name) for name in ("waited", "held", "whole") if getattr(total, name)}
    x = Linear(0, 4.1, LEFT, WIDE - RIGHT)
    ends = [value for each in shown.values() for value in quantiles(each, (1, 99_990), 100_000) if value is not None]
    y = Logarithmic.of(ends, HIGH - BOTTOM, TOP)
    inside = "".join(_across(y.at(each), duration(each)) for each in y.ticks)
    for share in NINES:
        rank = x.at(_nines(share))
        inside += f'<line class="grid" x1="{rank:.1f}" x2="{rank:.1f}" y1="{TOP}" y2="{HIGH - BOTTOM}"/>'
        inside += (
            _words(rank, HIGH - 6, f"p{share / 1000:g}")
            if share
            else f'<g class="best">{_words(rank, HIGH - 6, "best")}</g>'
        )
    inside += "".join(_curve(name, delays, x, y) for name, delays in shown.items())
    return svg("delays by their rank", inside)


def _curve(name: str, delays: Delays, x: Linear, y: Logarithmic) -> str:
    finest = 100_000 - max(100_000 // delays.total(), 10)  # a finer step is less than one record
    shares = [each for each in _steps() if each <= finest]
    values = quantiles(delays, [max(each, 1) for each in shares], 100_000)
    points = {each: (x.at(_nines(each)), y.at(value or 0)) for each, value in zip(shares, values, strict=True)}
    drawn = line(list(points.values()), f"bold {name}")
    for share, value in zip(shares, values, strict=True):
        if share in MARKED:
            at, words = points[share], f"<title>p{share / 1000:g}: {duration(value)}</title>"
            drawn += f'<circle class="dot {name}" cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="3.5">{words}</circle>'
    return drawn


def _nines(share: int) -> float:
    return -math.log10(1 - share / 100_000)


def _steps() -> list[int]:
    return sorted({round(100_000 * (1 - 10 ** -(each / 25))) for each in range(101)} | set(NINES))


def throughput(figures: Figures) -> str:
    """Plots records per second: delivered and acknowledged."""
    times, seconds = Times(figures), figures.window / 1000
    rows = {
        window: (tally.given / seconds, tally.counts["acknowledged"] / seconds)
        for window, tally in figures.windows.items()
    }
    y = Linear.upto(max(max(row) for row in rows.values()), HIGH - BOTTOM, TOP)
    inside = "".join(_across(y.at(each), number(each)) for each in y.ticks) + times.axis(HIGH - 6)
    done = [(times.middle(window), y.at(row[1])) for window, row in rows.items()]
    inside += band(done, [(x, y.at(0)) for x, _ in done], "band held") + line(done, "bold held")
    inside += line([(times.middle(window), y.at(row[0])) for window, row in rows.items()], "thin waited")
    texts = {
        window: f"{number(row[0])} delivered, {number(row[1])} acknowledged a second" for window, row in rows.items()
    }
    return svg("records a second", inside + times.hover(texts))


def colours(figures: Figures) -> dict[str, str]:
    """Returns the style of each member, by its name."""
    return {each.name: f"m{at}" if at < COLOURS else "others" for at, each in enumerate(figures.members)}


def shares(figures: Figures) -> str:
    """Plots the members' shares of each window's acknowledged records, and below it their fairness."""
    times, styles = Times(figures), colours(figures)
    split = 142
    y, below = Linear(0, 1, split, TOP), Linear(0, 1, HIGH - BOTTOM, split + 18)
    inside = "".join(_across(y.at(each), f"{each:.0%}") for each in (0, 0.5, 1)) + times.axis(HIGH - 6)
    inside += "".join(_across(below.at(each), f"{each:g}") for each in (0, 1))
    texts = {}
    for window in times.windows:
        got = {each.name: 0 for each in figures.members}
        for name in got:
            tally = figures.members_by_window.get((name, window), TallyOfTime())
            got[name] = tally.counts["acknowledged"]
        total = sum(got.values())
        if not total:
            continue
        inside += "".join(_stack(times, window, y, styles, got, total))
        even = figures.fairness_by_window[window]
        texts[window] = "" if even is None else f"Jain's index {even:.3f}"
    even_line = [
        None if (even := figures.fairness_by_window[window]) is None else (times.middle(window), below.at(even))
        for window in times.windows
    ]
    return svg("shares of members, and fairness", inside + line(even_line, "bold held") + times.hover(texts))


def _stack(
    times: Times, window: int, y: Linear, styles: Mapping[str, str], got: Mapping[str, int], total: int
) -> Iterator[str]:
    by_style: dict[str, int] = {}
    for name, count in got.items():
        by_style[styles[name]] = by_style.get(styles[name], 0) + count
    done = 0
    for style, count in by_style.items():
        if count:
            yield times.bar(window, y.at(done / total), y.at((done + count) / total), style)
            done += count


PROBLEMS: Final = {"redelivered": "redelivered", "expired": "taken away", "dead_lettered": "dead letters"}


def problems(figures: Figures) -> str:
    """Plots redelivered, expired and dead-lettered records, as shares of the deliveries."""
    times = Times(figures)
    rows = {
        window: [tally.counts[name] / max(tally.given, tally.counts[name], 1) for name in PROBLEMS]
        for window, tally in figures.windows.items()
    }
    y = Linear.upto(min(max(max(row) for row in rows.values()), 1.0), HIGH - BOTTOM, TOP)
    inside = "".join(_across(y.at(each), percent(each)) for each in y.ticks) + times.axis(HIGH - 6)
    for at, name in enumerate(PROBLEMS):
        points = [(times.middle(window), y.at(row[at])) for window, row in rows.items()]
        if any(row[at] for row in rows.values()):
            inside += band(points, [(x, y.at(0)) for x, _ in points], f"band {name}") + line(points, f"bold {name}")
    texts = {
        window: ", ".join(f"{percent(value)} {words}" for value, words in zip(row, PROBLEMS.values(), strict=True))
        for window, row in rows.items()
    }
    return svg("redeliveries and dead letters", inside + times.hover(texts))


def whisker(values: Sequence[int | None], scale: Logarithmic, wide: int) -> str:
    """Plots p50 as a dot, a bar to p99, and a line to p99.9. values: those three."""
    middle, far, farthest = values
    if middle is None or far is None or farthest is None:
        return ""
    dot, end, tip = scale.at(middle), scale.at(far), scale.at(farthest)
    inside = (
        f'<line class="whisker" x1="{dot:.1f}" x2="{tip:.1f}" y1="9" y2="9"/>'
        f'<line class="bar" x1="{dot:.1f}" x2="{max(end, dot + 0.1):.1f}" y1="9" y2="9"/>'
        f'<circle class="dot held" cx="{dot:.1f}" cy="9" r="4.5"/>'
        f"<title>p50 {duration(middle)}, p99 {duration(far)}, p99.9 {duration(farthest)}</title>"
    )
    return svg(f"p50 {duration(middle)}, p99 {duration(far)}, p99.9 {duration(farthest)}", inside, wide, 18)


def ruler(scale: Logarithmic, wide: int) -> str:
    """Returns the ruler for whiskers."""
    ticks = scale.ticks[:: 1 if len(scale.ticks) <= 4 else 2]
    return svg("scale", "".join(_words(scale.at(each), 12, duration(each)) for each in ticks), wide, 16)


def spark(values: Sequence[int | None]) -> str:
    """Plots a small line without axes."""
    known = [value for value in values if value is not None]
    y = Logarithmic.of(known, 22, 3)
    step = 120 / max(len(values) - 1, 1)
    points = [None if value is None else (at * step, y.at(value)) for at, value in enumerate(values)]
    return svg("over time", line(points, "thin held"), 120, 25)
