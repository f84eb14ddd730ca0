"""Figures as short texts."""

from __future__ import annotations

from datetime import UTC, datetime


def duration(milliseconds: int | float | None) -> str:
    """Returns a duration in about three digits; a dash for None."""
    if milliseconds is None:
        return "–"
    if milliseconds < 1_000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1_000
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds % 1 else f"{seconds:.0f} s"
    for unit, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.1f} {name}".replace(".0 ", " ")
    raise AssertionError(seconds)


def percent(share: float) -> str:
    """Returns a percentage; a positive one is never shown as zero."""
    if 0 < share < 0.0001:
        return "< 0.01 %"
    if share < 0.1:
        return f"{share * 100:.2f} %".replace("0.00 %", "0 %")
    return f"{share * 100:.1f} %"


def number(count: float) -> str:
    """Returns a number for people: 1,234, or 12.3 M."""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if count >= unit:
            return f"{count / (1e3 if name == 'k' else unit):.1f} {name}"
    return f"{count:,.0f}"


def moment(milliseconds: int, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """Returns a time in UTC. milliseconds: since the epoch."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime(form)
