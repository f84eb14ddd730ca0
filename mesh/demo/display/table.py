"""The table that the demo prints while it runs: a line a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mesh.demo.processes.endpoint import Readings

_LINES_PER_HEADING = 20


@dataclass(frozen=True, slots=True)
class Row:
    """The state of the demo `seconds` after the start. received: records by member."""

    seconds: float
    fed: int
    received: Mapping[str, int]
    readings: Readings | None


class Table:
    """Lines of equal columns, with a heading now and then."""

    def __init__(self, members: Sequence[str]) -> None:
        self._members = members
        self._lines = 0

    def lines(self, row: Row) -> list[str]:
        """Returns the row as lines, with a heading before it when one is due."""
        heading = [] if self._lines % _LINES_PER_HEADING else [self._heading()]
        self._lines += 1
        return [*heading, self._line(row)]

    def _heading(self) -> str:
        members = "".join(f"{name:>18}" for name in self._members)
        return f"{'time':>6}{'fed':>10}{members}{'to come':>10}{'in flight':>11}{'redelivered':>13}"

    def _line(self, row: Row) -> str:
        total = sum(row.received.values())
        members = "".join(f"{count:>11,} {_share(count, total):>6}" for count in row.received.values())
        in_flight, redelivered = ("-", "-")
        if row.readings is not None:
            in_flight, redelivered = f"{row.readings.in_flight:,}", f"{row.readings.redelivered:,}"
        to_come = max(0, row.fed - total)
        return f"{row.seconds:>4.0f} s{row.fed:>10,}{members}{to_come:>10,}{in_flight:>11}{redelivered:>13}"


def _share(count: int, total: int) -> str:
    return f"({count / total:.0%})" if total else ""
