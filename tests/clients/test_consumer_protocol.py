"""Members of the consumer group protocol (KIP-848) beside classic ones, in one pool."""

from __future__ import annotations

import pytest

from tests.clients.bench import Client, ClientBench
from tests.integration.bench import until_members
from tests.integration.moments import Moment
from tests.integration.processes import eventually

WITH_CONSUMER_PROTOCOL = (Client.CONFLUENT, Client.JAVA)


def by_protocol(bench: ClientBench, client: Client) -> None:
    bench.start_mesh()
    bench.feed(1_000)
    new = bench.joined(client, "new", protocol="consumer")
    classic = bench.joined(Client.CONFLUENT, "classic")
    with bench.feeding_throughout(rate=1_500):
        for member in (new, classic):
            member.until_delivered(300)
    bench.account().assert_each_once()
    bench.until_all_committed()
    for member in (new, classic):
        assert member.events["assigned"] == 1, member.events
        assert not member.events["revoked"] + member.events["lost"] + member.events["error"], member.events
    bench.close_members()


def test_consumer_protocol_beside_classic(bench: ClientBench) -> None:
    by_protocol(bench, Client.CONFLUENT)


@pytest.mark.long
@pytest.mark.parametrize("client", [pytest.param(each, id=each.value) for each in WITH_CONSUMER_PROTOCOL])
def test_consumer_protocol(bench: ClientBench, client: Client) -> None:
    """Two members of a kind, new partitions, a member that leaves, and a mesh that restarts under them."""
    mesh = bench.start_mesh()
    members = [bench.joined(client, name, protocol="consumer", commit="sync") for name in ("one", "two")]
    bench.feed(2_000, rate=1_000)
    bench.account().assert_each_once()
    members[0].close()
    bench.feed(1_000)
    bench.account().assert_each_once()
    bench.until_all_committed()
    mesh.kill()
    mesh.restart()
    before = len(members[1].deliveries)
    bench.feed(1_000)
    eventually("it goes on", lambda: len(members[1].deliveries) >= before + 1_000, timeout=60)
    bench.account().assert_each_once()
    bench.close_members()


@pytest.mark.long
@pytest.mark.parametrize("client", [pytest.param(each, id=each.value) for each in WITH_CONSUMER_PROTOCOL])
def test_static_member_of_the_consumer_protocol(bench: ClientBench, client: Client) -> None:
    """It leaves for a while and comes back under its instance id."""
    bench.start_mesh()
    first = bench.joined(client, "first", protocol="consumer", instance_id="pod-1", commit="sync")
    bench.feed(1_000)
    bench.account().assert_each_once()
    bench.until_all_committed()
    first.close()
    bench.feed(1_000)
    bench.joined(client, "second", protocol="consumer", instance_id="pod-1", commit="sync")
    bench.account().assert_each_once()
    bench.close_members()


@pytest.mark.long
@pytest.mark.parametrize("client", [pytest.param(each, id=each.value) for each in WITH_CONSUMER_PROTOCOL])
def test_a_subscription_by_regular_expression(bench: ClientBench, client: Client) -> None:
    """The coordinator finds the topic, and a member that names it shares its records."""
    bench.start_mesh()
    bench.feed(500)
    pattern = bench.joined(client, "pattern", protocol="consumer", pattern=f"^{bench.topic[:-1]}.$")
    named = bench.joined(client, "named", protocol="consumer")
    with bench.feeding_throughout(rate=1_000):
        for member in (pattern, named):
            member.until_delivered(600)
    bench.account().assert_each_once()
    bench.until_all_committed()
    bench.close_members()


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("commit", ["sync", pytest.param("auto", marks=pytest.mark.deep)])
@pytest.mark.parametrize("client", [pytest.param(each, id=each.value) for each in WITH_CONSUMER_PROTOCOL])
def test_a_member_that_loses_records_to_another_process_joins_again(
    bench: ClientBench, client: Client, commit: str
) -> None:
    """Another process of the mesh takes half of the partitions while members hold records of them. As with a broker, a
    member is fenced, loses its assignment, and continues; a late commit is not answered with success."""
    one = bench.start_mesh(name="one", process={})
    slow = {"protocol": "consumer", "commit": commit, "records_per_poll": 2, "seconds_per_record": 0.5}
    bench.feed(240)  # before they join, and few: so their first Fetches get all of them
    members = [bench.joined(client, name, **slow) for name in ("member-1", "member-2")]
    eventually("they hold records of each partition", lambda: sum(one.in_flight(each.name) for each in members) > 215)
    bench.start_mesh(name="two", process={})
    bench.joined(Client.CONFLUENT, "other", commit="sync")
    for cluster in bench.clusters:
        until_members(cluster, bench.group, 2)
    moment = Moment.of(bench.members)
    eventually("one loses its assignment", lambda: any(member.events["lost"] for member in members))
    (loser, *_) = [member for member in members if member.events["lost"]]
    # A commit and a join that wait for each other would last until the session ends, 45 s.
    eventually("it joins again", lambda: loser.events["assigned"] > loser.events["lost"], timeout=30)
    bench.feed(100)
    bench.account(timeout=120).assert_nothing_lost_or_altered()
    assert not moment.broken_by(bench.members)
    for member in bench.members:
        member.assert_running()
    bench.until_all_committed()
    bench.close_members()


@pytest.mark.long
def test_java_beside_classic(bench: ClientBench) -> None:
    by_protocol(bench, Client.JAVA)
