"""Quantiles and fairness against lists of every single record."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mesh.pipelines.report.delays import jain, quantile, quantiles, rounded

SPANS = st.lists(st.tuples(st.integers(0, 100_000), st.integers(1, 50)), min_size=1, max_size=30)


@settings(max_examples=200, deadline=None)
@given(spans=SPANS, share=st.integers(1, 1_000))
def test_a_quantile_of_spans_is_that_of_their_records(spans: list[tuple[int, int]], share: int) -> None:
    delays: Counter[int] = Counter()
    for delay, records in spans:
        delays[delay] += records
    naive = sorted(delay for delay, records in spans for _ in range(records))
    found = quantile(delays, share)
    assert found == naive[math.ceil(len(naive) * share / 1_000) - 1]
    assert sum(each <= found for each in naive) * 1_000 >= share * len(naive)
    assert sum(each < found for each in naive) * 1_000 < share * len(naive)


@settings(max_examples=100, deadline=None)
@given(one=SPANS, other=SPANS)
def test_parts_are_added_up_without_a_loss(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    def of(spans: list[tuple[int, int]]) -> Counter[int]:
        found: Counter[int] = Counter()
        for delay, records in spans:
            found[delay] += records
        return found

    shares = [1, 500, 990, 999, 1_000]
    assert quantiles(of(one) + of(other), shares) == quantiles(of([*one, *other]), shares)
    assert quantiles(of(one), shares) == sorted(quantile(of(one), share) or 0 for share in shares)


def test_of_nothing_there_is_none() -> None:
    assert quantiles(Counter(), [500, 999]) == [None, None]
    assert jain([]) is None
    assert jain([0, 0]) is None


@given(milliseconds=st.integers(-1_000, 10**12))
def test_rounding_keeps_a_thousandth(milliseconds: int) -> None:
    found = rounded(milliseconds)
    if milliseconds <= 0:
        assert found == 0
    elif milliseconds < 10_000:
        assert found == milliseconds
    else:
        assert 0 <= milliseconds - found <= milliseconds / 1_000
        assert rounded(found) == found


@given(shares=st.lists(st.integers(0, 10**9), min_size=1, max_size=20).filter(any), times=st.integers(1, 9))
def test_fairness(shares: list[int], times: int) -> None:
    found = jain(shares)
    assert found is not None
    assert 1 / len(shares) - 1e-9 <= found <= 1 + 1e-9
    assert jain([each * times for each in shares]) == pytest.approx(found)
    assert jain([7] * len(shares)) == pytest.approx(1)
    assert jain([7] + [0] * 4) == pytest.approx(1 / 5)
