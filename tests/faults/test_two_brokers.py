"""The leaders of a replicated cluster move, die or hang, and so does the group's coordinator."""

from __future__ import annotations

import pytest

from tests.faults.bed import Bed, Stopwatch
from tests.faults.clusters import ReplicatedCluster
from tests.integration.processes import START, eventually

pytestmark = [pytest.mark.long, pytest.mark.timeout(300), pytest.mark.xdist_group("replicated")]
FLOWS = "until records flow again"


def led_by_second(bed: Bed) -> ReplicatedCluster:
    """Returns when the broker that a test stops leads partitions of the topic."""
    cluster = bed.us
    assert isinstance(cluster, ReplicatedCluster)
    eventually("the second broker leads", lambda: cluster.led_by_second(bed.bench.topic), timeout=START)
    return cluster


def test_leaders_move(bed_with_two_brokers: Bed) -> None:
    bed, watch = bed_with_two_brokers, Stopwatch("leaders move (one broker of two is stopped)")
    cluster = led_by_second(bed)
    bed.bench.start_mesh()
    bed.members()
    bed.flows("us")
    cluster.second.stop()
    try:
        with watch.measure(FLOWS):
            bed.flows("us")
    finally:
        cluster.second.start()
    bed.assert_nothing_lost(may_repeat=True)
    with watch.measure("until they flow when it is back and leads again"):
        led_by_second(bed)
        bed.flows("us")
    bed.assert_nothing_lost(may_repeat=True)


def test_leader_killed(bed_with_two_brokers: Bed) -> None:
    bed, watch = bed_with_two_brokers, Stopwatch("a leader is killed (one broker of two)")
    cluster = led_by_second(bed)
    bed.bench.start_mesh()
    bed.members()
    bed.flows("us")
    cluster.second.kill()
    try:
        with watch.measure(FLOWS):
            bed.flows("us")
        bed.flows("eu")
    finally:
        cluster.second.start()
    bed.assert_nothing_lost(may_repeat=True)


def test_leader_hangs(bed_with_two_brokers: Bed) -> None:
    """While the coordinator may be the broker that hangs, the mesh answers commits of members with an error that they
    retry."""
    bed, watch = bed_with_two_brokers, Stopwatch("a leader hangs (one broker of two)")
    cluster = led_by_second(bed)
    bed.bench.start_mesh()
    bed.members()
    bed.flows("us")
    cluster.second.freeze()
    try:
        with watch.measure(FLOWS):
            bed.flows("us")
        bed.flows("eu")
    finally:
        cluster.second.thaw()
    bed.assert_nothing_lost(may_repeat=True)
