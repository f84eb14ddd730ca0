"""The cost of a unit of work does not grow with the state: counted in steps, on the pure core."""

from __future__ import annotations

import statistics

import pytest

from benchmarks.curves import Curve, Point, allowed
from benchmarks.growth import SCENARIOS, Scenario, measure
from tests.benchmarks.steps import count_steps

UNITS = 12
PER_TENFOLD = 1.08
"""The allowed cost of a search in a tree. A walk over growing data costs more between the two sizes of any scenario."""


def _steps(scenario: Scenario, size: int) -> float:
    work = scenario.prepare(size)
    for _ in range(3):
        work()
    if scenario.is_shared:  # a unit is part of something larger: count all of it
        return sum(count_steps(work) for _ in range(2 * size)) / (2 * size)
    return statistics.median(count_steps(work) for _ in range(UNITS))


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=lambda scenario: scenario.case)
def test_a_unit_takes_as_many_steps_when_there_is_more(scenario: Scenario) -> None:
    small, large = (_steps(scenario, size) for size in scenario.small)
    assert large <= small * allowed(*scenario.small, per_tenfold=PER_TENFOLD), f"{small:.0f} -> {large:.0f} steps"


def test_steps_see_a_walk() -> None:
    """Tests the measure itself: a walk over a list takes more steps on a longer one."""
    lists = [range(10), range(100)]
    short, long = (count_steps(lambda each=each: [number for number in each][:0].clear()) for each in lists)  # type: ignore[misc]
    assert long > 4 * short


FIRST, *OTHERS = SCENARIOS.values()


@pytest.mark.parametrize(
    "scenario",
    [FIRST, *(pytest.param(each, marks=pytest.mark.long) for each in OTHERS)],
    ids=lambda scenario: scenario.case,
)
def test_the_benchmark_measures_it(scenario: Scenario) -> None:
    curve = measure(scenario, short=True)
    assert [point.size for point in curve.points] == list(scenario.small)
    assert all(cost > 0 for point in curve.points for cost in point.costs)


def test_a_curve_is_sound_when_a_logarithm_explains_it() -> None:
    flat = Curve("case", "members", "work", [Point(1, (10.0, 10.0)), Point(1_000, (9.0, 20.0, 20.0))])
    steep = Curve("case", "members", "work", [Point(1, (10.0,)), Point(1_000, (30.0,))])
    assert flat.growth == 2.0
    assert flat.is_sound
    assert not steep.is_sound
