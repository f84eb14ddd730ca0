"""Members, the mesh, and brokers are killed with -9: no record is lost, and no committed record comes again."""

from __future__ import annotations

import pytest

from mesh.upstream.raw.lanes import MANY
from tests.integration.bench import Bench
from tests.integration.kafka import KafkaCluster
from tests.integration.members import Member
from tests.integration.mesh_process import Mesh
from tests.integration.processes import eventually


def test_killed_member(bench: Bench) -> None:
    """It never commits, so the others must get every record."""
    mesh = bench.start_mesh()
    doomed = bench.confluent("doomed", commit="none")
    others = [bench.confluent("other-1", commit="sync"), bench.java("other-2")]
    for member in bench.members:
        member.until_assigned()
    bench.feed(6_000)
    doomed.until_delivered(1)
    eventually(
        "only it holds records",
        lambda: mesh.metric("kafka_mesh_in_flight_records") == mesh.in_flight("doomed") > 0,
    )
    doomed.kill()
    bench.account_when_all_arrived(members=others).assert_each_once()
    bench.account_when_all_arrived().assert_nothing_lost_or_altered()


def until_it_goes_on(bench: Bench, member: Member, shown: int) -> None:
    """Feeds until it has shown more: it may rest before it reconnects, and others get records meanwhile."""

    def goes_on() -> bool:
        member.assert_running()
        if len(member.deliveries) <= shown:
            bench.feed(600)
        return len(member.deliveries) > shown

    eventually(f"{member.name} goes on", goes_on, timeout=90, interval=1)


def kill_with_a_commit_in_flight(mesh: Mesh, cluster: KafkaCluster) -> None:
    """The broker that coordinates its group hangs, so no commit there ends before the mesh does."""
    cluster.freeze()
    try:
        eventually("a commit is in flight", lambda: mesh.metric("kafka_mesh_waiting_commits") >= 1, interval=0.01)
        mesh.kill()
    finally:
        cluster.thaw()


@pytest.mark.timeout(240)
def test_killed_mesh(bench: Bench) -> None:
    mesh = bench.start_mesh()
    for name in ("member-1", "member-2", "member-3"):
        bench.confluent(name, commit="sync").until_assigned()
    bench.java("member-4").until_assigned()
    with bench.feeding(30_000, rate=3_000):
        for member in bench.members:
            member.until_committed(10)
        kill_with_a_commit_in_flight(mesh, bench.clusters[1])
        committed = {
            (cluster.name, *place): offset
            for cluster in bench.clusters
            for place, offset in cluster.committed(bench.group).items()
        }
        at_kill = {member.name: len(member.deliveries) for member in bench.members}
        mesh.restart()
    for member in bench.members:
        until_it_goes_on(bench, member, at_kill[member.name])
    account = bench.account_when_all_arrived()
    account.assert_nothing_lost_or_altered()

    assert len(committed) == 6
    below = {
        key for key, each in bench.stored().items() if each.offset < committed[each.cluster, each.topic, each.partition]
    }
    assert below, "nothing was committed before the kill"
    assert not below & account.twice.keys(), str(account)


@pytest.mark.timeout(240)
def test_killed_broker(bench: Bench) -> None:
    bench.start_mesh()
    eu, us = bench.clusters
    for name in ("member-1", "member-2", "member-3"):
        bench.confluent(name, commit="sync").until_assigned()
    with bench.feeding(6_000, rate=1_000, clusters=[us]):
        eventually("records of us arrive", lambda: len(bench.deliveries()) >= 500)
        us.kill()
        try:
            bench.feed(5_000, clusters=[eu])

            def arrived_from_eu() -> int:
                return len({each.id for each in bench.deliveries() if each.id.startswith("eu-")})

            eventually("eu's records arrive while us is down", lambda: arrived_from_eu() == 5_000)
        finally:
            us.restart()
    bench.account_when_all_arrived(may_repeat=True).assert_nothing_lost_or_altered()
    for member in bench.members:
        member.assert_running()


def test_terminated_mesh(bench: Bench) -> None:
    """It answers the parked Fetches, commits, leaves, and exits with 0."""
    mesh = bench.start_mesh()
    for name in ("member-1", "member-2"):
        bench.confluent(name, commit="sync").until_assigned()
    bench.feed(3_000)
    bench.account_when_all_arrived().assert_each_once()
    eventually("all is committed", lambda: not mesh.metric("kafka_mesh_in_flight_records"))
    eventually("both members' Fetches are parked", lambda: mesh.metric("kafka_mesh_parked_fetches") >= 2)
    mesh.stop()
    bench.until_all_committed(timeout=0.0)
    assert [cluster.group_members(bench.group) for cluster in bench.clusters] == [0, 0]


@pytest.mark.timeout(240)
def test_killed_broker_of_many_partitions(bench: Bench) -> None:
    """Two requests share the partitions of a broker, and each may carry many (decision 0059)."""
    for cluster in bench.clusters:
        cluster.grow_topic(bench.topic, MANY + 4)
    bench.feed(30_000)
    bench.start_mesh()
    for name in ("member-1", "member-2", "member-3"):
        bench.confluent(name, commit="sync").until_assigned()
    _, us = bench.clusters
    eventually("records of both", lambda: len(bench.deliveries()) > 3_000)
    us.kill()
    us.restart()
    account = bench.account_when_all_arrived()
    account.assert_nothing_lost_or_altered()
    bench.until_all_committed()


@pytest.mark.timeout(240)
def test_killed_mesh_with_acknowledgements_out_of_order(bench: Bench) -> None:
    """One member holds the first records while another processes the rest and commits. Its answered commits are above
    the committed offsets, and do not come again."""
    mesh = bench.start_mesh()
    holder = bench.confluent("holder", commit="none")
    holder.until_assigned()
    bench.feed(600)
    holder.until_delivered(600)
    worker = bench.confluent("worker", commit="sync")
    worker.until_assigned()
    with bench.feeding(6_000, rate=2_000):
        worker.until_delivered(1_000)
    eventually("all are delivered", lambda: len({each.id for each in bench.deliveries()}) == 6_600)
    eventually("the worker has committed all it has", lambda: mesh.in_flight("worker") == 0)
    done = {each.id for each in worker.deliveries}
    mesh.kill()
    holder.kill()

    committed = {
        (cluster.name, *place): offset
        for cluster in bench.clusters
        for place, offset in cluster.committed(bench.group).items()
    }
    stored = bench.stored()
    above = {
        key for key in done if stored[key].offset >= committed[stored[key].cluster, bench.topic, stored[key].partition]
    }
    assert len(above) > 500, "nothing was acknowledged out of order"
    mesh.restart()
    account = bench.account_when_all_arrived(members=[worker])
    account.assert_nothing_lost_or_altered()
    assert not done & account.twice.keys(), str(account)
