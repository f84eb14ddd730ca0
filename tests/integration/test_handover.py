"""Two processes in one pool: partitions move between them under load, and one of them leaves, in every possible way."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.integration.bench import Bench, until_members
from tests.integration.mesh_process import Mesh
from tests.integration.moments import Moment
from tests.integration.processes import eventually

NO_IDENTITY: Mapping[str, object] = {}
"""Without `process_id`, a dead process is noticed after 10 s."""
PATIENT = {"reconnect.backoff.max.ms": 500}

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(400),
    pytest.mark.parametrize("engine", ["librdkafka", "raw"]),
]


def start(bench: Bench, name: str, engine: str) -> Mesh:
    upstream = {cluster.name: {"engine": engine} for cluster in bench.clusters}
    return bench.start_mesh(name=name, process=NO_IDENTITY, upstream=upstream)


def two(bench: Bench, engine: str) -> tuple[Mesh, Mesh]:
    """Two meshes with two members each. One of them is slow, so some records are always unacknowledged."""
    meshes = []
    for name in ("one", "two"):
        meshes.append(start(bench, name, engine))
        bench.confluent(f"{name}-quick", commit="sync", records_per_poll=50, properties=PATIENT)
        bench.confluent(f"{name}-slow", commit="sync", records_per_poll=20, seconds_per_record=0.01, properties=PATIENT)
    for member in bench.members:
        member.until_assigned()
    for cluster in bench.clusters:
        until_members(cluster, bench.group, 2)
    return meshes[0], meshes[1]


def until_all_go_on(bench: Bench, members: tuple[str, ...]) -> None:
    """Each of them shows a record that it has not shown yet."""
    chosen = [member for member in bench.members if member.name in members]
    shown = {member.name: len(member.deliveries) for member in chosen}
    eventually(
        f"{members} go on",
        lambda: all(len(member.deliveries) > shown[member.name] for member in chosen),
        timeout=60,
    )


def test_one_is_stopped_and_comes_back(bench: Bench, engine: str) -> None:
    """A member that commits in time loses no records and gets none twice."""
    one, two_ = two(bench, engine)
    with bench.feeding_throughout(rate=300):
        until_all_go_on(bench, ("one-quick", "one-slow", "two-quick", "two-slow"))
        two_.stop(timeout=40)
        moment = Moment.of(bench.members)
        until_all_go_on(bench, ("one-quick", "one-slow"))
        two_.restart()
        until_all_go_on(bench, ("one-quick", "two-quick", "two-slow"))
    bench.account_when_all_arrived(timeout=120).assert_nothing_lost_or_altered()
    assert not moment.broken_by(bench.members)
    assert one.metric("kafka_mesh_pool_violations_total") == two_.metric("kafka_mesh_pool_violations_total") == 0


def test_one_is_killed(bench: Bench, engine: str) -> None:
    _, two_ = two(bench, engine)
    with bench.feeding_throughout(rate=300):
        until_all_go_on(bench, ("one-quick", "one-slow", "two-quick", "two-slow"))
        two_.kill()
        moment = Moment.of(bench.members)
        held = {each.id for each in bench.deliveries()} - moment.settled
        for cluster in bench.clusters:
            until_members(cluster, bench.group, 1)
        until_all_go_on(bench, ("one-quick", "one-slow"))
        two_.restart()
        until_all_go_on(bench, ("two-quick", "two-slow"))
    account = bench.account_when_all_arrived(timeout=120)
    account.assert_nothing_lost_or_altered()
    assert held, "something was lost to the kill"
    assert not moment.broken_by(bench.members)


def test_a_zombie_changes_nothing(bench: Bench, engine: str) -> None:
    """One process is frozen for so long that its partitions go to the other; it wakes up with members that hold records
    of them, and with commits in flight."""
    _, two_ = two(bench, engine)
    with bench.feeding_throughout(rate=300):
        until_all_go_on(bench, ("one-quick", "one-slow", "two-quick", "two-slow"))
        two_.freeze()
        frozen = Moment.of(bench.members)
        try:
            for cluster in bench.clusters:
                until_members(cluster, bench.group, 1)
            until_all_go_on(bench, ("one-quick", "one-slow"))
            before = committed(bench)
            thawed = Moment.of(bench.members)
        finally:
            two_.thaw()
        for cluster in bench.clusters:
            until_members(cluster, bench.group, 2)
        until_all_go_on(bench, ("one-quick", "two-quick"))
        after = committed(bench)
    bench.account_when_all_arrived(timeout=120).assert_nothing_lost_or_altered()
    assert all(after[place] >= offset for place, offset in before.items()), "no position went back"
    assert not frozen.broken_by(bench.members)
    assert not thawed.broken_by(bench.members)


def committed(bench: Bench) -> dict[tuple[str, str, int], int]:
    return {
        (cluster.name, *place): offset
        for cluster in bench.clusters
        for place, offset in cluster.committed(bench.group).items()
    }
