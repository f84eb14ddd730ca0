"""Stuck members, memory and the commit position, over a minute. `make soak` does it with five million records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.chaos.soak import BUDGET, MIB, Report, judge, soak
from tests.integration.jars import missing_programs


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(600)
@pytest.mark.skipif(bool(missing_programs()), reason="a real Apache Kafka needs Java 17 and Maven")
def test_a_minute_with_stuck_members(tmp_path: Path) -> None:
    report = soak(150_000, tmp_path, rate=2_500)
    assert judge(report) == [], str(report)
    assert report.named, "nobody was ever stuck"


GOOD = Report(100, 10.0, [100 * MIB] * 10, 5.0, 0, {"stuck-8-id"}, 0, 3)


def test_the_judge_core() -> None:
    """It sees what is planted."""
    assert judge(GOOD) == []
    for wrong in (
        replace(GOOD, lost=1),
        replace(GOOD, resident=[BUDGET + 200 * MIB] * 10),
        replace(GOOD, resident=[100 * MIB] * 5 + [140 * MIB] * 5),
        replace(GOOD, longest_held=40.0),
        replace(GOOD, nameless=1),
        replace(GOOD, named={"healthy-1-id"}),
        replace(GOOD, problems=["only 99 of 100 committed"]),
    ):
        assert len(judge(wrong)) == 1, wrong
