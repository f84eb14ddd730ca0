"""Pools that leave one upstream cluster and go on with the others: a removed cluster, or one with other connections."""

from __future__ import annotations

import pytest

from mesh.pool.common.effects import ConsumeUpstream, Effect, LeaveUpstream, SubscribeUpstream
from mesh.pool.common.group_rules import GroupRules
from mesh.pool.common.settings import PoolSettings
from mesh.pool.common.topics import ExplicitTopic, Source, VirtualTopics
from mesh.records.spans import ClusterName
from mesh.wire.errors import ErrorCode
from tests.pool.consumer import Protocol
from tests.pool.harness import EU, GROUP, ORDERS, US, Consumer, World, source
from tests.pool.share_member import ShareMember

GRACE = 6.0


def begin(auto_store: bool = True) -> tuple[World, Consumer]:
    """A member that holds ten records of each cluster, with more in the backlogs."""
    world = World(PoolSettings(linger=1_000.0), auto_store=auto_store)
    consumer = world.consumer()
    for index in (0, 2):
        world.produce(index, 10)
    consumer.fetch(wait=0.0)
    for index in (0, 2):
        world.produce(index, 10)
    assert len(consumer.received) == 20
    return world, consumer


def leave(world: World, cluster: ClusterName = EU) -> None:
    world.do(world.cluster.leave_cluster(cluster, GRACE, world.now))


def left(effects: list[Effect]) -> list[ClusterName | None]:
    return [effect.cluster for effect in effects if isinstance(effect, LeaveUpstream)]


def subscribed(effects: list[Effect]) -> list[SubscribeUpstream]:
    return [effect for effect in effects if isinstance(effect, SubscribeUpstream)]


def test_nothing_of_it_is_given_any_more_and_the_others_go_on() -> None:
    world, consumer = begin()
    leave(world)
    consumer.fetch(wait=0.5)
    world.advance(1.0)
    given = [partition for partition, _, _ in consumer.received[20:]]
    assert given == [2] * 10
    assert ConsumeUpstream(GROUP, EU, False) in world.effects
    assert ConsumeUpstream(GROUP, US, False) not in world.effects
    assert not world.cluster.has_left(EU)
    assert not left(world.effects)
    world.check()


def test_it_is_left_when_what_is_held_of_it_is_committed() -> None:
    world, consumer = begin(auto_store=False)
    leave(world)
    ticket = consumer.commit({0: consumer.positions[0]})
    assert not left(world.effects), "it is not stored yet"
    world.store()
    assert world.answers[ticket].errors == {(ORDERS, 0): ErrorCode.NONE}  # type: ignore[attr-defined]
    assert left(world.effects) == [EU]
    assert world.cluster.has_left(EU)
    assert world.stored == {source(0): 10}
    world.check()


def test_acknowledged_runs_stay_in_its_commit_and_the_rest_is_released_when_the_time_is_over() -> None:
    world, consumer = begin()
    other = world.consumer("other")
    other.fetch(partitions=[0], wait=0.0)
    assert len(other.received) == 10
    other.commit({0: other.positions[0]})
    leave(world)
    world.advance(GRACE)
    assert left(world.effects) == [EU]
    (report,) = world.reports("upstream cluster left")
    assert (report.level, report.fields["in_flight"]) == ("warning", 10)
    late = consumer.commit({0: consumer.positions[0], 2: consumer.positions[2]})
    errors = world.answers[late].errors  # type: ignore[attr-defined]
    assert errors == {(ORDERS, 0): ErrorCode.REBALANCE_IN_PROGRESS, (ORDERS, 2): ErrorCode.NONE}
    world.check()
    # The next reader gets what was not acknowledged, and only that.
    world.do(world.cluster.rejoin_cluster(EU, world.now))
    world.assign(EU)
    world.ends[source(0)] = 0
    world.produce(0)
    world.produce(0)
    world.advance(1.0)
    consumer.join()
    consumer.fetch(partitions=[0], wait=0.0)
    again = [value for partition, _, value in consumer.received[20:] if partition == 0]
    assert again == [f"{source(0)}@{offset}".encode() for offset in range(10)]


def test_it_is_consumed_again_when_the_pool_comes_back() -> None:
    world, consumer = begin()
    leave(world)
    consumer.commit({0: consumer.positions[0]})
    assert left(world.effects) == [EU]
    before = len(world.effects)
    consumer.fetch(partitions=[0], wait=100.0)
    world.do(world.cluster.rejoin_cluster(EU, world.now))
    assert [effect.cluster for effect in subscribed(world.effects[before:])] == [EU]
    world.assign(EU)
    world.produce(0)
    assert [value for partition, _, value in consumer.received if partition == 0] == [
        f"{source(0)}@{offset}".encode() for offset in range(20)
    ]
    assert EU not in world.upstreams[GROUP].idle
    world.check()


def test_a_cluster_that_comes_back_before_it_was_left_goes_on_at_once() -> None:
    world, consumer = begin()
    leave(world)
    consumer.fetch(partitions=[0], wait=100.0)
    world.do(world.cluster.rejoin_cluster(EU, world.now))
    assert len([1 for partition, _, _ in consumer.received if partition == 0]) == 20
    world.advance(2 * GRACE)
    assert not left(world.effects)
    world.check()


def test_a_pool_that_begins_meanwhile_does_not_join_there() -> None:
    world = World(PoolSettings(linger=1_000.0))
    leave(world)
    assert world.cluster.has_left(EU), "there is no pool"
    consumer = world.consumer()
    consumer.fetch(wait=1_000.0)
    assert {effect.cluster for effect in subscribed(world.effects)} == {US}
    world.advance(100.0)
    stalls = world.reports("upstream partition stalled")
    assert {stall.fields["partition"] for stall in stalls} == {str(source(2)), str(source(3))}
    world.do(world.cluster.rejoin_cluster(EU, world.now))
    assert {effect.cluster for effect in subscribed(world.effects)} == {US, EU}


def test_a_source_that_is_configured_no_longer_stays_listed_and_is_not_consumed() -> None:
    world, consumer = begin()
    fewer = VirtualTopics("vc", [ExplicitTopic(ORDERS, (Source(US, ORDERS),))], [])
    difference = world.cluster.topics.compare(fewer)
    assert (difference.moves, set(difference.left)) == (False, {EU})
    leave(world)
    consumer.commit({0: consumer.positions[0]})
    world.do(world.cluster.change_topics(fewer, world.now))
    before = len(world.effects)
    world.do(world.cluster.rejoin_cluster(EU, world.now))
    consumer.fetch(wait=0.5)
    world.advance(100.0)
    assert not subscribed(world.effects[before:])
    assert len(world.cluster.topics.partitions(ORDERS)) == 4
    assert [partition for partition, _, _ in consumer.received[20:]] == [2] * 10
    assert not world.reports("upstream partition stalled")
    world.check()
    again = VirtualTopics("vc", [ExplicitTopic(ORDERS, (Source(US, ORDERS), Source(EU, ORDERS)))], [])
    world.do(world.cluster.change_topics(again, world.now))
    assert [effect.cluster for effect in subscribed(world.effects[before:])] == [EU]


def test_a_group_that_is_not_admitted_any_more_ends_when_it_is_drained() -> None:
    world, consumer = begin()
    world.do(world.cluster.change_rules(GroupRules(admitted=("other",)), GRACE, world.now))
    assert GROUP in world.cluster.pools, "its member holds something"
    consumer.commit({0: consumer.positions[0], 2: consumer.positions[2]})
    assert GROUP not in world.cluster.pools
    assert consumer.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    consumer.member_id = consumer.member_id.__class__("")
    assert consumer.join().error is ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_waiting_fetches_of_a_group_that_is_not_admitted_any_more_are_answered() -> None:
    world = World()
    classic, epochs = world.consumer(), world.consumer("epochs", protocol="consumer")
    world.assign_all()
    tickets = [each.fetch(wait=500.0) for each in (classic, epochs)]
    world.do(world.cluster.change_rules(GroupRules(admitted=("other",)), GRACE, world.now))
    assert not world.cluster.pools
    assert not classic.is_parked
    assert not epochs.is_parked
    for ticket in tickets:
        world.do(world.cluster.answer_early(ticket, world.now))
    for each in (classic, epochs):
        each.disconnect()
    world.check_empty()


def test_waiting_fetches_of_share_members_are_answered_too() -> None:
    world = World()
    member = ShareMember.joined(world)
    member.fetch(wait=0.0)
    world.assign_all()
    member.ask(wait=500.0)
    world.do(world.cluster.change_rules(GroupRules(admitted=("other",)), GRACE, world.now))
    assert member.take().error is ErrorCode.SHARE_SESSION_NOT_FOUND
    member.disconnect()
    world.check_empty()


def test_a_group_that_is_admitted_again_before_it_ended_goes_on() -> None:
    world, consumer = begin()
    world.do(world.cluster.change_rules(GroupRules(admitted=("other",)), GRACE, world.now))
    world.do(world.cluster.change_rules(GroupRules(), GRACE, world.now))
    consumer.fetch(wait=0.5)
    assert len(consumer.received) == 40
    world.advance(2 * GRACE)
    assert GROUP in world.cluster.pools
    world.check()


def renew(world: World) -> None:
    world.do(world.cluster.renew_cluster(GROUP, EU, GRACE, world.now))


def test_a_cluster_that_needs_another_connection_is_joined_again_at_once() -> None:
    """No record comes twice if members commit, and static members keep their place in the group."""
    world, consumer = begin()
    renew(world)
    before = len(world.effects)
    assert not world.cluster.is_renewed(GROUP, EU)
    consumer.commit({0: consumer.positions[0]})
    assert [effect.comes_back for effect in world.effects if isinstance(effect, LeaveUpstream)] == [True]
    assert [effect.cluster for effect in subscribed(world.effects[before:])] == [EU]
    assert world.cluster.is_renewed(GROUP, EU)
    consumer.fetch(partitions=[0], wait=100.0)
    world.assign(EU)
    world.produce(0)
    assert [value for partition, _, value in consumer.received if partition == 0] == [
        f"{source(0)}@{offset}".encode() for offset in range(20)
    ]
    world.check()


def test_what_is_not_committed_in_time_comes_again() -> None:
    world, consumer = begin()
    renew(world)
    world.advance(GRACE)
    assert world.cluster.is_renewed(GROUP, EU)
    world.assign(EU)
    world.ends[source(0)] = 0
    world.produce(0)
    consumer.join()
    consumer.fetch(partitions=[0], wait=0.0)
    again = [value for partition, _, value in consumer.received[20:] if partition == 0]
    assert again == [f"{source(0)}@{offset}".encode() for offset in range(10)]
    world.check()


def test_a_cluster_that_is_removed_meanwhile_is_not_joined_again() -> None:
    world, consumer = begin()
    renew(world)
    leave(world)
    before = len(world.effects)
    consumer.commit({0: consumer.positions[0]})
    assert left(world.effects) == [EU]
    assert not subscribed(world.effects[before:])
    renew(world)
    assert left(world.effects) == [EU], "it is not consumed"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_lost_records_gets_nothing_of_the_cluster_until_it_has_joined_again(protocol: Protocol) -> None:
    """It could not commit what it would get before."""
    world = World(PoolSettings(linger=1_000.0))
    consumer = world.consumer(protocol=protocol)
    for index in (0, 2):
        world.produce(index, 10)
    consumer.fetch(wait=0.0)
    consumer.commit({0: consumer.positions[0] - 5})
    leave(world)
    world.advance(GRACE)
    world.do(world.cluster.rejoin_cluster(EU, world.now))
    world.assign(EU)
    world.produce(0)
    before = len(consumer.received)
    consumer.fetch(wait=1.0)
    world.advance(1.0)
    world.produce(2, 3)
    consumer.fetch(wait=0.0)
    assert [partition for partition, _, _ in consumer.received[before:]] == [2] * 3, "other clusters go on"
    assert consumer.heartbeat() is consumer.asks_to_join_again
    consumer.join()
    consumer.fetch(wait=0.0)
    assert [partition for partition, _, _ in consumer.received[before + 3 :]].count(0) == 5
    world.check()


def test_a_member_that_never_commits_continues_with_what_it_lost() -> None:
    world, consumer = begin()
    leave(world)
    world.advance(GRACE)
    world.do(world.cluster.rejoin_cluster(EU, world.now))
    world.assign(EU)
    world.produce(0)
    world.produce(0)
    before = len(consumer.received)
    consumer.fetch(wait=0.0)
    assert [partition for partition, _, _ in consumer.received[before:]].count(0) == 20
    assert consumer.heartbeat() is ErrorCode.NONE
    world.check()
