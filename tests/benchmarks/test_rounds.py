"""Targets take turns, and no result is chosen by its rate."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks import rounds
from benchmarks.machine import Load
from benchmarks.rounds import Measured, Series, interleave, spread


class Foreign:
    """A load meter that returns given values, one after the other."""

    def __init__(self, *cores: float) -> None:
        self._cores = list(cores)

    def __call__(self) -> Foreign:
        return self

    def read(self) -> Load:
        return Load(1.0, self._cores.pop(0) if self._cores else 0.0)


def _counting(values: list[float], log: list[str], name: str) -> Callable[[], Measured]:
    def measure() -> Measured:
        log.append(name)
        return Measured(values.pop(0))

    return measure


@pytest.fixture
def order() -> list[str]:
    return []


def test_targets_take_turns_and_the_first_round_is_not_counted(
    monkeypatch: pytest.MonkeyPatch, order: list[str]
) -> None:
    monkeypatch.setattr(rounds, "LoadMeter", Foreign())
    targets = {"a": _counting([9.0, 1.0, 2.0], order, "a"), "b": _counting([9.0, 3.0, 8.0], order, "b")}
    series = interleave(Series("case", "records/s"), targets, 2, lambda _: None)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert series.values("a") == [1.0, 2.0]
    assert series.ratios("b", "a") == [3.0, 4.0]
    assert series.differences("b", "a") == [2.0, 6.0]


def test_a_disturbed_run_is_made_once_more_and_the_second_counts_also_when_it_is_worse(
    monkeypatch: pytest.MonkeyPatch, order: list[str]
) -> None:
    monkeypatch.setattr(rounds, "LoadMeter", Foreign(0.0, 1.5, 1.9))
    series = interleave(Series("case", "records/s"), {"a": _counting([9.0, 5.0, 1.0], order, "a")}, 1, lambda _: None)
    assert series.values("a") == [1.0]
    assert series.runs[0].repeated
    assert series.runs[0].foreign == 1.9


def test_a_target_that_fails_is_named_and_left_out_from_then_on(
    monkeypatch: pytest.MonkeyPatch, order: list[str]
) -> None:
    monkeypatch.setattr(rounds, "LoadMeter", Foreign())

    def fail() -> Measured:
        order.append("b")
        raise RuntimeError("no records")

    targets = {"a": _counting([9.0, 1.0, 2.0], order, "a"), "b": fail}
    series = interleave(Series("case", "records/s"), targets, 2, lambda _: None)
    assert series.failures == ["b: no records"]
    assert order == ["a", "b", "a", "a"]
    assert series.ratios("b", "a") == []


def test_costs_are_of_what_was_received() -> None:
    series = Series("case", "records/s")
    series.add(1, "mesh", Measured(1.0, cost=2.0, peak=100.0, records=4_000_000, bytes=1_000))
    series.add(2, "mesh", Measured(1.0, peak=120.0))
    assert series.costs("mesh", lambda measured: measured.records / 1e6) == [0.5]
    assert series.peak("mesh") == 120.0


def test_a_spread_shows_median_least_and_most() -> None:
    assert spread([3.0, 1.0, 2.0]) == "2.00 [1.00..3.00]"
    assert spread([]) == "-"
