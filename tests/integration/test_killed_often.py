"""The mesh is killed with -9 again and again: answered commits stay committed."""

from __future__ import annotations

import random
import time

import pytest

from tests.integration.bench import Bench
from tests.integration.moments import Moment
from tests.integration.processes import eventually

KILLS = 8
BACK_SOON = {"reconnect.backoff.max.ms": 300, "queued.min.messages": 100}


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("engine", "seed"), [pytest.param("librdkafka", 1, marks=pytest.mark.deep), ("raw", 2)])
def test_nothing_comes_again_whose_commit_was_answered(bench: Bench, engine: str, seed: int) -> None:
    """Members finish out of order: one is slow, so that many answered commits lie above the committed offset."""
    points = random.Random(seed)
    mesh = bench.start_mesh(upstream={cluster.name: {"engine": engine} for cluster in bench.clusters})
    bench.confluent("slow", commit="sync", seconds_per_record=0.02, records_per_poll=50, properties=BACK_SOON)
    for name in ("quick-1", "quick-2"):
        bench.confluent(name, commit="sync", records_per_poll=30, properties=BACK_SOON)
    bench.java("java")
    for member in bench.members:
        member.until_assigned()
    moments: list[Moment] = []
    gains: list[int] = []
    with bench.feeding_throughout(rate=300):
        for _ in range(KILLS):
            settled = sum(len(member.settled) for member in bench.members)

            def goes_on(before: int = settled) -> bool:
                return sum(len(member.settled) for member in bench.members) > before

            eventually("commits are answered again", goes_on, timeout=60)
            time.sleep(points.random() ** 2 * 1.5)  # the time of its death is random, so there is no event to wait for
            mesh.kill()
            moments.append(Moment.of(bench.members))
            gains.append(len(moments[-1].settled))
            mesh.restart()
    account = bench.account_when_all_arrived(timeout=120)
    account.assert_nothing_lost_or_altered()
    assert gains == sorted(set(gains)), "something was answered before each kill"
    again = [moment.broken_by(bench.members) for moment in moments]
    assert not any(again), f"seed {seed}: {[(len(each), each[:3]) for each in again]}"
