"""A topic grows while the only mesh, a static member of its upstream group, is away for less than its session."""

from __future__ import annotations

import pytest

from tests.integration.bench import Bench
from tests.integration.processes import eventually


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("engine", ["librdkafka", "raw"])
def test_partitions_that_came_while_the_mesh_was_away_are_somebodys(bench: Bench, engine: str) -> None:
    engines = {cluster.name: {"engine": engine} for cluster in bench.clusters}
    mesh = bench.start_mesh(upstream=engines)
    member = bench.confluent("only", commit="sync")
    member.until_assigned()
    bench.feed(300)
    bench.account_when_all_arrived().assert_each_once()
    cluster = bench.clusters[1]
    before = {number for name, number in cluster.committed(bench.group) if name == bench.topic}
    mesh.kill()
    cluster.grow_topic(bench.topic, 6)
    mesh.restart()

    def are_consumed() -> bool:
        bench.feed(60)  # the producer finds the new partitions after a while
        committed = cluster.committed(bench.group)
        return {number for (name, number), offset in committed.items() if name == bench.topic and offset > 0} >= {
            3,
            4,
            5,
        }

    assert before == {0, 1, 2}
    eventually("the new partitions are consumed", are_consumed, timeout=120)
    bench.account_when_all_arrived(timeout=60).assert_nothing_lost_or_altered()
