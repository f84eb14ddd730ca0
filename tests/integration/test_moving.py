"""Moving a group onto the mesh and back is a change of one address; the mesh follows a position that was set
meanwhile."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

import pytest

from tests.integration.bench import CONSUMER_GROUPS, Bench, until_left
from tests.integration.kafka import KafkaCluster
from tests.integration.records import account


def test_onto_the_mesh_and_back(bench: Bench) -> None:
    """The direct members stop with half of the records unread; later ones are read through the mesh, then directly."""
    bench.feed(6_000)
    for cluster in bench.clusters:
        direct = bench.confluent(
            f"before-{cluster.name}", cluster, commit="sync", records_per_poll=50, seconds_per_record=0.001
        )
        direct.until_delivered(1_500)
        direct.close()
        assert len(direct.deliveries) < 3_000

    bench.start_mesh()
    for name in ("through-1", "through-2"):
        bench.confluent(name, commit="sync")
    bench.feed(3_000)
    bench.account_when_all_arrived().assert_each_once()
    assert bench.deliveries(bench.members[2:])
    bench.close_members()
    for cluster in bench.clusters:
        until_left(cluster, bench.group)

    for cluster in bench.clusters:
        bench.confluent(f"after-{cluster.name}", cluster, commit="sync").until_assigned()
    bench.feed(3_000)
    bench.account_when_all_arrived().assert_each_once()


@pytest.mark.timeout(360)
@pytest.mark.parametrize(
    ("backwards", "forwards", "stops"),
    [
        (("--to-earliest",), ("--to-offset", "700"), "the mesh"),
        pytest.param(("--to-offset", "200"), ("--to-latest",), "its consumers", marks=pytest.mark.long),
        pytest.param(
            ("--to-datetime", "2023-11-14T22:13:24.000"),  # the records have timestamps of these seconds
            ("--to-datetime", "2023-11-14T22:13:33.000"),
            "the mesh",
            marks=pytest.mark.long,
        ),
    ],
    ids=["earliest-offset", "offset-latest", "datetime"],
)
def test_position_set_by_hand(
    bench: Bench, backwards: tuple[str, ...], forwards: tuple[str, ...], stops: Literal["the mesh", "its consumers"]
) -> None:
    """With Kafka's own tool, while the mesh or at least the group's consumers are stopped: the records behind the
    position come, again or for the first time, and no others."""
    eu, us = bench.clusters
    bench.feed_as(has_gaps=backwards[0] != "--to-datetime")  # markers have the time of their writing
    mesh = bench.start_mesh()

    def set_position(*position: str) -> None:
        if stops == "the mesh":
            mesh.stop()
        until_left(eu, bench.group)
        whose = ("--bootstrap-server", eu.bootstrap_servers, "--group", bench.group, "--topic", bench.topic)
        eu.run_tool(CONSUMER_GROUPS, *whose, "--reset-offsets", *position, "--execute")

    def restart() -> None:
        if stops == "the mesh":
            mesh.restart()

    bench.feed(3_000)
    assert_these_come("before", bench, bench.stored().keys())

    set_position(*backwards)
    again = behind_the_position(eu, bench)
    assert again
    restart()
    assert_these_come("again", bench, again)

    bench.feed(3_000)
    set_position(*forwards)
    rest = behind_the_position(eu, bench) | behind_the_position(us, bench)
    assert len(rest) < 3_000
    restart()
    assert_these_come("rest", bench, rest)


def assert_these_come(name: str, bench: Bench, expected: Collection[str]) -> None:
    """Asserts that a member of that name gets them, each once, and no others, until none is left."""
    stored = {identity: each for identity, each in bench.stored().items() if identity in expected}
    member = bench.confluent(name, commit="sync")
    member.until_assigned()
    bench.until_all_committed()
    account(stored, member.deliveries).assert_each_once()
    member.close()


def behind_the_position(cluster: KafkaCluster, bench: Bench) -> set[str]:
    """The records that its group has still to read there."""
    committed = cluster.committed(bench.group)
    return {
        identity
        for identity, each in bench.stored().items()
        if each.cluster == cluster.name and each.offset >= committed[each.topic, each.partition]
    }
