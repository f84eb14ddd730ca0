"""Evaluation of the progress of several consumers."""

from __future__ import annotations

import os
import time

import pytest

from benchmarks.catching_up import OVER, STEP, CpuCurve, until
from benchmarks.clients import Samples

READS: Samples = [(0.0, 0), (10.0, 10_000)]
"""A thousand a second."""


def test_one_that_has_its_part_at_once_has_it_after_the_shortest_time_that_is_looked_at() -> None:
    assert until(0.5, READS, 0.0, [READS, READS], 8.0) == OVER


def test_one_that_begins_late_has_its_part_when_it_has_had_it_for_a_while() -> None:
    late: Samples = [(2.0, 0), (10.0, 8_000)]
    assert until(0.9, late, 0.0, [READS, late], 8.0) == pytest.approx(2.0 + OVER, abs=3 * STEP)


@pytest.mark.parametrize("joiner", [[], [(1.0, 1), (8.0, 10)]])
def test_one_that_never_has_its_part_is_said_to_have_it_at_the_end(joiner: Samples) -> None:
    assert until(0.5, joiner, 0.0, [READS, joiner], 8.0) == 8.0


def test_a_curve_of_cpu_tells_what_was_used_between_two_moments() -> None:
    begin = time.monotonic()
    curve = CpuCurve([os.getpid()])
    while sum(os.times()[:2]) < 0.1 or time.monotonic() < begin + 0.2:
        pass
    curve.stop()
    end = time.monotonic()
    assert curve.between(begin, end) > 0
    assert curve.between(end + 1, end + 2) == 0
