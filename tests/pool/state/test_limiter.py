"""The behaviour of one limit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.pool.common.sharing import LimitRule
from mesh.pool.state.limiter import MOST_CREDIT, Bucket, Limiter

NOW = 1_000.0


@given(rate=st.floats(0.1, 1e6), steps=st.lists(st.tuples(st.floats(0.0, 3.0), st.integers(1, 2_000)), max_size=50))
def test_over_any_time_no_more_is_given_than_the_rate_and_a_second_and_the_last_piece(
    rate: float, steps: list[tuple[float, int]]
) -> None:
    bucket, now, given_ = Bucket(rate, NOW), NOW, 0
    for seconds, count in steps:
        now += seconds
        bucket.refill(now)
        if bucket.tokens >= 1.0:
            bucket.tokens -= count
            given_ += count
            assert given_ - count <= rate * (now - NOW) + max(rate, 1.0)


@given(rate=st.floats(0.1, 1e6), count=st.integers(1, 10_000))
def test_what_is_said_of_when_it_is_ready_is_enough(rate: float, count: int) -> None:
    """To the last bit: else its timer would be set again and again for the same time."""
    limiter = Limiter(LimitRule(records_per_second=rate), NOW)
    limiter.took(count, 0, NOW, has_others=True)
    assert limiter.room(limiter.ready_at(NOW), has_others=False) >= 1.0


def test_bytes_let_nothing_or_anything() -> None:
    limiter = Limiter(LimitRule(bytes_per_second=100.0), NOW)
    assert limiter.room(NOW, has_others=False) == float("inf")
    limiter.took(3, 150, NOW, has_others=True)
    assert limiter.room(NOW, has_others=False) == 0.0
    assert limiter.ready_at(NOW) == pytest.approx(NOW + 0.6), "the fifty too many, and a tenth of a second's worth"


def test_what_is_held() -> None:
    limiter = Limiter(LimitRule(in_flight=10), NOW)
    limiter.took(8, 0, NOW, has_others=True)
    assert int(limiter.room(NOW, has_others=True)) == 2
    limiter.held -= 8
    assert int(limiter.room(NOW, has_others=True)) == 10


def test_a_share_is_of_what_others_are_given() -> None:
    limiter = Limiter(LimitRule(share=0.05), NOW)
    assert limiter.room(NOW, has_others=True) < 1.0
    assert limiter.room(NOW, has_others=False) == float("inf"), "who is alone has all"
    limiter.others_took(95)
    assert int(limiter.room(NOW, has_others=True)) == 5
    limiter.took(25, 0, NOW, has_others=True)
    limiter.others_took(380)
    assert limiter.room(NOW, has_others=True) == pytest.approx(0.0, abs=1e-6), "25 of 500"
    limiter.others_took(1_000_000)
    assert int(limiter.room(NOW, has_others=True)) == MOST_CREDIT
