"""Results are kept, and the documentation shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.curves import Curve, Point
from benchmarks.document import BEGIN, END, FOLDER, PAGE, put_into, render
from benchmarks.goals import GOALS, Goal
from benchmarks.report import Results, read, rows_of
from benchmarks.rounds import Measured, Run, Series

MACHINE = {"processor": "2 x something", "memory": "4 GiB", "system": "Linux", "date": "2026-01-01 10:00 UTC"}


def _series(case: str, value: float = 100_000.0) -> Series:
    direct, mesh = Measured(200_000.0), Measured(value, 1.0, 99.0, 2_000_000, 500_000_000)
    return Series(case, "records/s", [Run(1, "direct", direct, 0.1, False), Run(1, "mesh, raw", mesh, 0.1, True)])


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    results = Results()
    results.add(MACHINE, [_series("java-s100"), Curve("growth-pools", "pools", "work", [Point(1, (1.0, 2.0))])])
    results.write(tmp_path / "results.json")
    assert read(tmp_path / "results.json") == results
    assert read(tmp_path / "none.json") == Results()


def test_a_case_that_is_measured_again_replaces_the_earlier_one() -> None:
    results = Results()
    results.add(MACHINE, [_series("java-s100", 1.0), _series("kcat-s100")])
    results.add({**MACHINE, "date": "later"}, [_series("java-s100", 2.0)])
    found = results.find("java-s100")
    assert found is not None
    assert found.values("mesh, raw") == [2.0]
    assert results.machine["java-s100"]["date"] == "later"
    assert results.machine["kcat-s100"] == MACHINE
    assert len(results.series) == 2


def test_a_row_has_what_a_million_records_and_a_gigabyte_cost() -> None:
    columns, (_, mesh) = rows_of(_series("java-s100"))
    row = dict(zip(columns, mesh, strict=True))
    assert row["of direct"].startswith("0.50")
    assert row["CPU s / million"].startswith("0.500")
    assert row["CPU s / GB"].startswith("2.00")
    assert row["peak MiB"] == "99"


@pytest.mark.parametrize(
    ("value", "less_is_better", "reached"),
    [(0.8, False, "no"), (0.9, False, "yes"), (1.0, False, "aim"), (1.1, True, "no"), (0.95, True, "yes")],
)
def test_a_goal_is_reached_or_not(value: float, less_is_better: bool, reached: str) -> None:
    least, aim = (1.0, 0.9) if less_is_better else (0.9, 1.0)
    goal = Goal("case", least, aim, lambda _: value, less_is_better)
    assert goal.row(Results())[4] == reached


def test_beside_a_goal_stands_what_the_relay_has() -> None:
    goal = Goal("case", 0.9, 1.0, lambda _: 0.8, relay=lambda _: 0.7)
    assert goal.row(Results())[-1] == "0.7"
    assert Goal("case", 0.9, 1.0, lambda _: 0.8).row(Results())[-1] == ""


def test_a_goal_that_was_not_measured_says_so() -> None:
    assert all(goal.row(Results())[3] == "not measured" for goal in GOALS)


def test_what_was_measured_goes_between_the_marks_and_nothing_else_changes() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert put_into(page, "new") == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"


def test_the_documentation_says_what_was_measured() -> None:
    """`make bench-document` was run after the last measurement."""
    page = PAGE.read_text()
    assert page == put_into(page, render(read(FOLDER / "results.json")))
