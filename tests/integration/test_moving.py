"""Moving a group onto the mesh and back is a change of one address."""

from __future__ import annotations

from tests.integration.bench import Bench, until_left


def test_onto_the_mesh_and_back(bench: Bench) -> None:
    """The direct members stop with half of the records unread; what follows is read through the mesh, then directly."""
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
