"""A cluster is down at the start, killed, or hangs; topics go, come back and grow. The other cluster continues."""

from __future__ import annotations

import pytest

from mesh.upstream.problems import UpstreamProblem
from tests.faults.bed import Bed, Stopwatch
from tests.integration.feeding import log_ends
from tests.integration.processes import eventually

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
TOLD, FLOWS = "until it is told", "until records flow again"


def test_down_at_the_start(bed: Bed) -> None:
    watch = Stopwatch("down at the start")
    bed.us.stop()
    try:
        bed.bench.start_mesh()
        assert bed.mesh.readiness()["status"] == 200
        bed.until_told(UpstreamProblem.UNREACHABLE)
        assert bed.mesh.metric("kafka_mesh_upstream_up", cluster="us") == 0
        bed.members()
        bed.flows("eu")
    finally:
        bed.us.restart()
    with watch.measure(FLOWS):
        bed.flows("us")
    bed.until_over()
    bed.assert_told_once(UpstreamProblem.UNREACHABLE)
    bed.assert_nothing_lost()


def test_killed(bed: Bed) -> None:
    watch = Stopwatch("killed with -9")
    bed.bench.start_mesh()
    bed.members()
    bed.flows("us")
    bed.us.kill()
    try:
        watch.note(TOLD, bed.until_told(UpstreamProblem.UNREACHABLE))
        bed.flows("eu")
    finally:
        bed.us.restart()
    with watch.measure(FLOWS):
        bed.flows("us")
    bed.until_over()
    bed.assert_told_once(UpstreamProblem.UNREACHABLE)
    bed.assert_nothing_lost(may_repeat=True)


def test_hangs(bed: Bed) -> None:
    watch = Stopwatch("hangs (SIGSTOP)")
    bed.bench.start_mesh()
    bed.members()
    bed.flows("us")
    bed.us.freeze()
    try:
        watch.note(TOLD, bed.until_told(UpstreamProblem.UNREACHABLE))
        bed.flows("eu", 3_000)
    finally:
        bed.us.thaw()
    with watch.measure(FLOWS):
        bed.flows("us")
    bed.until_over()
    bed.assert_told_once(UpstreamProblem.UNREACHABLE)
    bed.assert_nothing_lost()


def test_topic_lost_and_created_again(bed: Bed) -> None:
    """It has another id, and its offsets begin at 0 again; the old records are gone with the old topic."""
    watch = Stopwatch("topic lost, made anew")
    bed.bench.start_mesh()
    bed.members()
    bed.flows("us")
    bed.us.delete_topic(bed.bench.topic)
    watch.note(TOLD, bed.until_told(UpstreamProblem.TOPIC_MISSING, timeout=120))
    assert bed.standing()[UpstreamProblem.TOPIC_MISSING.value]["topic"] == bed.bench.topic
    bed.flows("eu")
    bed.us.create_topic(bed.bench.topic, 3)
    with watch.measure(FLOWS):
        bed.flows("us", 900)  # also partitions whose new logs are longer than the old ones
    bed.until_over()
    bed.assert_told_once(UpstreamProblem.TOPIC_MISSING)
    until_committed(bed)
    for member in bed.bench.members:
        member.assert_running()


def test_partitions_grow(bed: Bed) -> None:
    watch = Stopwatch("partitions grow from 3 to 6")
    bed.bench.start_mesh()
    bed.members()
    bed.flows("us")
    bed.us.grow_topic(bed.bench.topic, 6)
    with watch.measure("until records of all partitions arrive"):
        bed.flows("us", 600)
    until_committed(bed, partitions=6)
    bed.assert_nothing_lost()


def until_committed(bed: Bed, partitions: int = 3) -> None:
    """Returns when the group has committed the ends of this many partitions upstream."""
    ends = log_ends(bed.us, bed.bench.topic)
    assert len(ends) == partitions

    def committed() -> dict[int, int]:
        return {partition: offset for (_, partition), offset in bed.us.committed(bed.bench.group).items()}

    eventually("all is committed", lambda: committed() == ends, timeout=60)
