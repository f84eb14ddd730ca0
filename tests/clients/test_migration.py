"""A group moves onto the mesh and back while its topics get new records: first members directly on the clusters, then
beside the mesh in the same group, then all through the mesh, then back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from tests.clients.bench import Client, ClientBench
from tests.integration.bench import until_members
from tests.integration.members import Member
from tests.integration.processes import eventually

IN_EACH_RUN = ((Client.CONFLUENT, "cooperative-sticky"), (Client.JAVA, ""))
OLD_MEMBERS = [
    pytest.param(
        client,
        assignor,
        id=f"{client.value}-{assignor or 'its-own-choice'}",
        marks=[] if (client, assignor) in IN_EACH_RUN else [pytest.mark.deep],
    )
    for client, assignors in (
        (Client.CONFLUENT, ("range", "roundrobin", "cooperative-sticky")),
        (Client.JAVA, ("", "roundrobin", "cooperative-sticky")),
        (Client.KAFKA_PYTHON, ("range", "roundrobin", "cooperative-sticky")),
    )
    for assignor in assignors
]
Ids: TypeAlias = set[str]


@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.parametrize(("client", "assignor"), OLD_MEMBERS)
def test_moving_a_group_that_works(bench: ClientBench, client: Client, assignor: str) -> None:
    """No record is lost at any step. Only records that were uncommitted at an upstream rebalance come twice, and at
    most those that its members held."""
    bench.feed_as(has_gaps=False)  # old members without librdkafka read aborted records, too
    old = {"commit": "sync", "assignor": assignor}

    def direct(name: str) -> list[Member]:
        return [bench.joined(client, f"{name}-{cluster.name}", through=cluster, **old) for cluster in bench.clusters]

    before = direct("before")
    settled(bench, receivers=before)

    bench.start_mesh()
    through: list[Member] = []
    may_repeat = unsettled(bench, lambda: through.append(bench.joined(client, "through", commit="sync")))
    settled(bench, receivers=[*before, *through])

    may_repeat |= unsettled(bench, lambda: _close(before))
    settled(bench, receivers=through)

    after: list[Member] = []
    may_repeat |= unsettled(bench, lambda: after.extend(direct("after")))
    settled(bench, receivers=[*through, *after])

    may_repeat |= unsettled(bench, lambda: _leave_the_mesh(bench, through))
    settled(bench, receivers=after)

    account = bench.account()
    account.assert_nothing_lost_or_altered()
    assert account.twice.keys() <= may_repeat, str(account)
    # Four rebalances, each with at most one poll of an old member, or one window of a member on the mesh.
    assert len(account.twice) <= 4 * 500, str(account)
    assert all(len(several) == 2 for several in account.twice.values()), str(account)


def unsettled(bench: ClientBench, change: Callable[[], object]) -> Ids:
    """Something changes while records flow; yields the ids of those that were uncommitted when it began."""
    committed = {
        (cluster.name, partition): offset
        for cluster in bench.clusters
        for (_, partition), offset in cluster.committed(bench.group).items()
    }
    with bench.feeding(1_500, rate=500):
        change()
    bench.account().assert_nothing_lost_or_altered()
    bench.until_all_committed()
    return {
        identity
        for identity, each in bench.stored().items()
        if each.offset >= committed.get((each.cluster, each.partition), 0)
    }


def settled(bench: ClientBench, receivers: list[Member]) -> None:
    """Checks a stable time: each of these members gets a part of the fed records, no others do, and all of it is
    committed."""
    counts = {member.name: len(member.deliveries) for member in bench.members}

    def all_receive() -> bool:
        bench.feed(300, rate=600)
        return all(len(member.deliveries) > counts[member.name] for member in receivers)

    eventually("each of them gets records", all_receive)
    bench.account().assert_nothing_lost_or_altered()
    bench.until_all_committed()
    idle = [member for member in bench.members if member not in receivers]
    assert not [member.name for member in idle if len(member.deliveries) > counts[member.name]]


def _close(members: list[Member]) -> None:
    for member in members:
        member.close()


def _leave_the_mesh(bench: ClientBench, through: list[Member]) -> None:
    _close(through)
    bench.mesh.stop()
    for cluster in bench.clusters:
        until_members(cluster, bench.group, 1)
