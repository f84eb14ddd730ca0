"""The line a second."""

from __future__ import annotations

from mesh.demo.display.table import Row, Table
from mesh.demo.processes.endpoint import Readings


def test_a_row_under_its_heading() -> None:
    table = Table(["fast", "slow"])
    row = Row(12.3, 5_000, {"fast": 3_600, "slow": 1_200}, Readings(in_flight=321, redelivered=4))
    assert table.lines(row) == [
        "  time       fed              fast              slow   to come  in flight  redelivered",
        "  12 s     5,000      3,600  (75%)      1,200  (25%)       200        321            4",
    ]


def test_before_anything_came_and_without_metrics() -> None:
    table = Table(["fast", "slow"])
    assert table.lines(Row(1.0, 0, {"fast": 0, "slow": 0}, None))[1:] == [
        "   1 s         0          0                 0                0          -            -",
    ]


def test_the_heading_comes_again() -> None:
    table = Table(["fast"])
    row = Row(1.0, 0, {"fast": 0}, None)
    assert [len(table.lines(row)) for _ in range(21)] == [2] + 19 * [1] + [2]
