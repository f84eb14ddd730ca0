"""Axes: all points lie on them, and their labels are round figures."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mesh.pipelines.report.scales import Linear, Logarithmic, moments


@given(st.lists(st.integers(0, 864_000_000), max_size=20))
def test_durations_lie_on_their_axis(values: list[int]) -> None:
    scale = Logarithmic.of(values, 200, 10)
    assert all(10 <= scale.at(each) <= 200 for each in values)
    assert [scale.at(each) for each in sorted(values)] == sorted((scale.at(each) for each in values), reverse=True)
    assert 1 <= len(scale.ticks) <= 6


@given(st.floats(0, 1e12, allow_subnormal=False))
def test_values_lie_on_their_axis(most: float) -> None:
    scale = Linear.upto(most, 200, 10)
    assert scale.high >= most * 0.999
    assert scale.at(0) == 200
    assert 9.9 <= scale.at(most) <= 200


@given(st.integers(0, 2 * 10**12), st.integers(0, 10**11))
def test_moments_are_few_and_even(begin: int, wide: int) -> None:
    found = moments(begin, begin + wide)
    assert len(found) <= 8
    assert all(begin <= each <= begin + wide for each in found)
    assert len({second - first for first, second in pairwise(found)}) <= 1
