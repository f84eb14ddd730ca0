"""The benchmark of the journal's cost, in small: every stage is measured, and pairs of turns stay pairs."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks.journal import STAGES, costs, difference, mock_broker


def test_each_stage_is_measured_and_every_event_written() -> None:
    with mock_broker() as servers:
        found = asyncio.run(costs(servers, events=120, page=50, repetitions=3))
    assert list(found) == list(STAGES)
    assert all(len(each) == 3 and min(each) > 0 for each in found.values())


def test_what_disturbs_both_of_a_pair_is_no_difference() -> None:
    before = [10.0, 900.0, 11.0, 40.0] * 5
    middle, least, most = difference(before, [each + 3 for each in before])
    assert (middle, least, most) == pytest.approx((3, 3, 3))
