"""Stops that members notice only as silence: a member that commits in time gets no record twice."""

from __future__ import annotations

import pytest

from tests.integration.bench import Bench, until_left
from tests.integration.mesh_process import KAFKA_MESH, Mesh
from tests.integration.processes import completed, eventually

BACK_SOON = {"reconnect.backoff.max.ms": 500}

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(300),
    pytest.mark.parametrize("engine", ["librdkafka", "raw"]),
]


def begin(bench: Bench, engine: str) -> Mesh:
    """A mesh under three members: two commit by themselves every 5 s, as most clients do."""
    mesh = bench.start_mesh(upstream={cluster.name: {"engine": engine} for cluster in bench.clusters})
    bench.confluent("auto-1", properties=BACK_SOON)
    bench.confluent("auto-2", properties=BACK_SOON)
    bench.confluent("sync", commit="sync", records_per_poll=50, properties=BACK_SOON)
    for member in bench.members:
        member.until_assigned()
    return mesh


def until_all_show_more(bench: Bench) -> None:
    shown = len(bench.deliveries())
    eventually("records are shown", lambda: len(bench.deliveries()) > shown + 200, timeout=60)


def test_a_mesh_that_is_stopped_under_load_delivers_nothing_twice(bench: Bench, engine: str) -> None:
    mesh = begin(bench, engine)
    with bench.feeding_throughout(rate=300):
        until_all_show_more(bench)
        mesh.stop(timeout=40)
        mesh.restart()
        until_all_show_more(bench)
    bench.account_when_all_arrived(timeout=90).assert_each_once()


def test_a_pool_that_is_drained_leaves_its_groups_and_comes_back(bench: Bench, engine: str) -> None:
    mesh = begin(bench, engine)

    def command(*options: str) -> str:
        done = completed([KAFKA_MESH, "drain", mesh.file, "--group", bench.group, *options])
        assert done.returncode == 0, done.stderr
        return done.stdout

    with bench.feeding_throughout(rate=300):
        until_all_show_more(bench)
        assert command().splitlines()[-1] == f"tested / {bench.group}: drained, 3 members"
        for cluster in bench.clusters:
            until_left(cluster, bench.group)
        assert mesh.metric("kafka_mesh_members") == 3
        assert mesh.metric("kafka_mesh_in_flight_records") == 0
        shown = len(bench.deliveries())
        assert "serving" in command("--cancel")
        eventually("records are shown again", lambda: len(bench.deliveries()) > shown, timeout=60)
    bench.account_when_all_arrived(timeout=90).assert_each_once()
    for member in bench.members:
        member.assert_running()
