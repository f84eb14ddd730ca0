"""Stuck members, memory and the committed offset, over a minute. `make soak` does it with five million records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.chaos.soak import BUDGET, MIB, WINDOW, Report, _look, judge, slowest, soak
from tests.integration.jars import missing_programs
from tests.integration.mesh_process import Mesh


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(600)
@pytest.mark.skipif(bool(missing_programs()), reason="a real Apache Kafka needs Java 17 and Maven")
def test_a_minute_with_stuck_members(tmp_path: Path) -> None:
    report = soak(150_000, tmp_path, rate=2_500)
    assert judge(report) == [], str(report)
    assert report.named, "nobody was ever stuck"


GOOD = Report(100, 10.0, [100 * MIB] * 10, 5.0, 0, {"stuck-8-id"}, 0, 3, begin=0.0, end=10.0, slowest=9.0)


def test_the_judge_core() -> None:
    """It finds the planted faults."""
    assert judge(GOOD) == []
    for wrong in (
        replace(GOOD, lost=1),
        replace(GOOD, resident=[BUDGET + 200 * MIB] * 10),
        replace(GOOD, resident=[100 * MIB] * 5 + [140 * MIB] * 5),
        replace(GOOD, longest_held=40.0),
        replace(GOOD, nameless=1),
        replace(GOOD, named={"healthy-1-id"}),
        replace(GOOD, slowest=4.0),
        replace(GOOD, problems=["only 99 of 100 committed"]),
    ):
        assert len(judge(wrong)) == 1, wrong


def test_the_slowest_time_core() -> None:
    """One member processes ten a second; the other five, and nothing for half of a window."""
    steady = [(float(at), 10 * at) for at in range(100)]
    pausing = [(float(at), 5 * (at if at < 50 else max(50, at - 15))) for at in range(100)]
    assert slowest([steady], 0.0, 99.0) == 10.0
    assert slowest([steady, pausing], 0.0, 99.0) == 10.0 + 5 / 2
    assert slowest([steady, pausing], 0.0, 49.0) == 15.0, "before it"
    assert slowest([steady, []], 0.0, 99.0) == 10.0
    assert slowest([steady], 0.0, WINDOW - 1) > 1e9, "too short to tell"


def test_partitions_of_which_nothing_is_known_yet_core() -> None:
    """As while they are being assigned."""

    class Starting:
        def samples(self, _: str) -> list[tuple[dict[str, str], float]]:
            return []

        def status(self) -> dict[str, Any]:
            partitions = [{"committed": each, "oldest_unacknowledged": None} for each in (None, -1, 7)]
            return {"virtual_clusters": [{"pools": [{"partitions": partitions}]}]}

    assert _look(cast(Mesh, Starting()), replace(GOOD)) == 7
