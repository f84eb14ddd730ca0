"""Incarnations of a log, one after the other: a lease of an earlier one has no offsets of the present one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from mesh.pool.common.effects import CommitUpstream
from mesh.pool.common.settings import PoolSettings
from mesh.pool.leases.service import TOPIC_IDS_WITHIN
from mesh.pool.offsets.metadata import unpack
from mesh.pool.state.incarnations import (
    EVERYTHING,
    MOST_REMEMBERED,
    UNKNOWN_PREFIX,
    CommonPrefix,
    EndedLeases,
    Incarnation,
    common_prefix,
)
from mesh.pool.state.leases import (
    Acknowledgement,
    Claim,
    HolderId,
    LeaseBacklog,
    LeaseGranted,
    LeaseId,
    LeaseSettled,
    Range,
)
from mesh.records.spans import Gap, Span
from tests.pool.harness import EU, GROUP, ORDERS, US, World, source
from tests.pool.leases.test_service import (
    SPARK,
    acknowledge,
    ask,
    claim,
    expected,
    grow,
    lease,
    release,
    request,
    send,
    shown,
    values,
    world_of,
)

Settle = Callable[[World, str, list[tuple[int, int, int]]], LeaseSettled]
BOTH = pytest.mark.parametrize("settle", [acknowledge, claim])
OLD, NEW = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"


def begin_anew(world: World, *indexes: int, start: int = 0) -> None:
    """Deletes the topic, with its commits, and creates it again."""
    for index in indexes:
        world.stored.pop(source(index), None)
        world.upstreams[GROUP].metadata.pop(source(index), None)
        world.ends[source(index)] = start
        world.logs.pop(source(index), None)
        world.upstream(lambda pool, index=index: pool.intake.position_reset(source(index), start, "anew", world.now))
    if not any(world.topic_ids.values()):
        identify(world, "")


# The ends of logs


def test_nothing_is_leased_of_a_log_that_started_again_until_its_end_is_known() -> None:
    world = world_of(ends=1_000)
    lease(world, "a", most=4_000)
    acknowledge(world, "a")
    wanted = replace(request("b", most=4_000), wait=5.0)
    ticket = send(world, lambda pool, ticket: pool.lease(ticket, wanted, world.now))
    begin_anew(world, 0, 1)
    world.advance(1.0)
    assert ticket not in world.answers
    grow(world, 50)
    world.advance(1.0)
    assert shown(world.answer(ticket, LeaseGranted).ranges) == [(0, 0, 49), (1, 0, 49)]


def test_nothing_is_leased_beyond_where_the_log_parts_until_its_end_is_known() -> None:
    world = world_of(ends=100)
    lease(world, "a", most=400)
    world.upstream(lambda pool: pool.intake.truncated(source(0), 60, world.now))
    wanted = request("b", most=400)
    granted = ask(world, lambda pool, ticket: pool.lease(ticket, wanted, world.now), LeaseGranted)
    assert all(each.span.last < 60 for each in granted.ranges if each.partition == source(0))


# Acknowledgements


def members_get(world: World, index: int, count: int) -> list[bytes]:
    """The records that a member gets of the first so many records of a log."""
    consumer = world.consumer()
    consumer.fetch(partitions=[index])
    world.produce(index, count)
    return values(consumer, index)


@BOTH
@pytest.mark.parametrize("ended", [False, True])
def test_what_was_leased_of_a_log_that_started_again_is_lost(settle: Settle, ended: bool) -> None:
    world = world_of(ends=1_000)
    ranges = lease(world, "a", most=4_000)
    if ended:
        release(world, "a")
    begin_anew(world, 0)
    world.upstream(lambda pool: pool.intake.ends_known({source(0): 50}))
    settled = settle(world, "a", ranges)
    assert shown(settled.lost) == ranges[:1]
    assert shown(settled.done) == ranges[1:]
    assert world.stored[source(0)] == 0
    assert members_get(world, 0, 50) == expected(0, 49)
    assert shown(settle(world, "a", ranges).lost) == ranges[:1], "also when it is asked again"


@BOTH
def test_what_members_acknowledge_of_the_new_log_is_not_what_was_leased_of_the_old_one(settle: Settle) -> None:
    world = world_of(ends=10)
    ranges = lease(world, "a")
    begin_anew(world, 0)
    world.upstream(lambda pool: pool.intake.ends_known({source(0): 10}))
    consumer = world.consumer()
    consumer.fetch(partitions=[0])
    world.produce(0, 10)
    consumer.commit()
    assert world.stored[source(0)] == 10
    assert shown(settle(world, "a", ranges).lost) == ranges[:1]


def test_what_a_lease_has_of_the_new_log_it_acknowledges() -> None:
    world = world_of(ends=10)
    lease(world, "a")
    begin_anew(world, 0)
    world.upstream(lambda pool: pool.intake.ends_known({source(0): 5}))
    ranges = lease(world, "b", completed="a")
    assert ranges == [(0, 0, 4)]
    assert shown(acknowledge(world, "b", ranges).done) == ranges
    assert world.stored[source(0)] == 5


@BOTH
@pytest.mark.parametrize("ended", [False, True])
def test_what_was_leased_above_where_the_log_parts_is_lost(settle: Settle, ended: bool) -> None:
    world = world_of(ends=100)
    ranges = lease(world, "a", most=400)
    if ended:
        release(world, "a")
    world.upstream(lambda pool: pool.intake.truncated(source(0), 60, world.now))
    grow(world, 100)
    settled = settle(world, "a", ranges)
    assert shown(settled.lost) == [(0, 60, 99)]
    assert shown(settled.done) == [(0, 0, 59), *ranges[1:]]
    assert lease(world, "b", HolderId("other")) == [(0, 60, 99)]


def test_nothing_is_leased_beyond_a_truncation_though_nothing_was_known_there() -> None:
    world = world_of(ends=100)
    world.upstream(lambda pool: pool.intake.truncated(source(0), 60, world.now))
    assert lease(world, "a")[0] == (0, 0, 59)


def test_what_a_lease_had_before_the_partition_was_away_is_lost_where_the_log_parts_then() -> None:
    world = world_of(ends=100)
    ranges = lease(world, "a", most=400)
    release(world, "a")
    world.upstream(lambda pool: pool.intake.lost([source(0), source(1)]))
    world.upstreams[GROUP].metadata.clear()
    world.assign(EU)
    world.upstream(lambda pool: pool.intake.truncated(source(0), 60, world.now))
    grow(world, 100)
    assert shown(acknowledge(world, "a", ranges).lost) == [(0, 60, 99)]


@pytest.mark.parametrize("is_read", [False, True])
def test_no_leader_epoch_is_stored_with_a_lease_of_what_was_not_read(is_read: bool) -> None:
    """It would be an earlier one than that of the records: after the next election, which cuts off nothing, it would
    claim that the log diverges in front of them."""
    world = world_of(ends=10)
    world.produce(0, 10 if is_read else 5)
    assert lease(world, "a", most=40)[0] == (0, 0, 9)
    commits = [each for each in world.effects if isinstance(each, CommitUpstream) and source(0) in each.positions]
    assert commits[-1].positions[source(0)].is_read is is_read


def test_a_lease_that_is_known_takes_nothing_that_it_does_not_hold() -> None:
    world = world_of(ends=10)
    lease(world, "a", most=8)
    settled = acknowledge(world, "a", [(0, 0, 9)])
    assert shown(settled.done) == [(0, 0, 1)]
    assert shown(settled.lost) == [(0, 2, 9)]
    assert world.stored[source(0)] == 2


def test_what_went_to_another_process_and_came_back_without_the_lease_may_be_claimed_all_the_same() -> None:
    world = world_of(ends=10)
    ranges = lease(world, "a")
    world.upstream(lambda pool: pool.intake.lost([source(0)]))
    world.upstreams[GROUP].metadata[source(0)] = ""  # the lease has expired there
    world.assign(EU)
    grow(world, 10)
    assert shown(acknowledge(world, "a", ranges).done) == ranges


# By the id of the topic


def with_ids(topic_id: str | None, ends: int = 10) -> World:
    """A pool whose partitions on one cluster belong to a topic with this id; None if the id is not known yet."""
    world = World(PoolSettings(presence=600.0))
    world.topic_ids = {} if topic_id is None else {EU: topic_id, US: ""}
    lease(world, "first")
    world.assign_all()
    grow(world, ends)
    return world


def identify(world: World, topic_id: str) -> None:
    world.upstream(lambda pool: pool.intake.topics_identified(EU, {ORDERS: topic_id}))


def settled(world: World, id: str, verb: str, topic_id: str | None) -> LeaseSettled:
    ranges = tuple(Range(source(index), Span(0, 9), topic_id) for index in (0, 1))
    if verb == "claim":
        again = Claim(id=LeaseId(id), holder=SPARK, ranges=ranges, ttl=60.0)
        return ask(world, lambda pool, ticket: pool.claim(ticket, again, world.now), LeaseSettled)
    wanted = Acknowledgement(id=LeaseId(id), holder=SPARK, ranges=ranges)
    return ask(world, lambda pool, ticket: pool.acknowledge_lease(ticket, wanted, world.now), LeaseSettled)


VERBS = pytest.mark.parametrize("verb", ["claim", "acknowledge"])


def test_a_lease_names_the_topics_of_its_ranges() -> None:
    world = with_ids(OLD)
    wanted = request("a")
    granted = ask(world, lambda pool, ticket: pool.lease(ticket, wanted, world.now), LeaseGranted)
    assert [each.topic_id for each in granted.ranges] == [OLD, OLD, None, None]


@VERBS
@pytest.mark.parametrize(
    ("asked", "known", "is_lost"), [(OLD, NEW, True), (OLD, OLD, False), (None, NEW, False), (OLD, "", False)]
)
def test_a_lease_of_an_earlier_process_is_lost_if_its_topic_is_another_one(
    verb: str, asked: str | None, known: str, is_lost: bool
) -> None:
    world = with_ids(known)
    answer = settled(world, "of-earlier", verb, asked)
    assert len(answer.lost if is_lost else answer.done) == 2
    assert not (answer.done if is_lost else answer.lost)
    assert [each.topic_id for each in answer.lost + answer.done] == [asked] * 2


@VERBS
def test_an_old_id_makes_nothing_lost_of_a_lease_that_is_known(verb: str) -> None:
    """Nor with one that has ended here: the process's own view of the log counts more than an id."""
    for ends in (False, True):
        world = with_ids(NEW)
        lease(world, "a", most=40)
        if ends:
            release(world, "a")
        assert not settled(world, "a", verb, OLD).lost


def test_a_partition_that_was_away_is_compared_by_the_id_that_it_had() -> None:
    world = with_ids(OLD)
    ranges = lease(world, "a", most=40)
    world.upstream(lambda pool: pool.intake.lost([source(0), source(1)]))
    world.stored.clear()
    world.upstreams[GROUP].metadata.clear()
    identify(world, NEW)
    world.topic_ids = {}
    world.assign(EU)
    grow(world, 10)
    answer = acknowledge(world, "a", ranges)
    assert shown(answer.lost) == ranges[:2]
    assert shown(answer.done) == ranges[2:]


@VERBS
def test_what_has_an_id_waits_until_somebody_says_which_one_the_topic_has(verb: str) -> None:
    world = with_ids(None)
    assert len(settled(world, "of-earlier", verb, OLD).absent) == 2
    assert len(settled(world, "of-earlier", verb, None).done) == 2
    identify(world, NEW)
    assert len(settled(world, "another", verb, OLD).lost) == 2


def test_a_claim_waits_for_the_id_as_it_waits_for_the_partition() -> None:
    world = with_ids(None)
    asked = (Range(source(0), Span(0, 9), OLD),)
    again = Claim(id=LeaseId("of-earlier"), holder=SPARK, ranges=asked, ttl=60.0, wait=5.0)
    ticket = send(world, lambda pool, ticket: pool.claim(ticket, again, world.now))
    world.advance(1.0)
    assert ticket not in world.answers
    identify(world, OLD)
    world.advance(1.0)
    assert world.answer(ticket, LeaseSettled).done == asked


@pytest.mark.parametrize("is_told_first", [False, True])
def test_a_topic_that_was_created_again_has_the_id_that_is_told_after_that(is_told_first: bool) -> None:
    world = with_ids(OLD)
    lease(world, "a", most=40)
    if is_told_first:
        identify(world, NEW)
    begin_anew(world, 0, 1)
    grow(world, 10)
    wanted = request("b")
    granted = ask(world, lambda pool, ticket: pool.lease(ticket, wanted, world.now), LeaseGranted)
    assert [each.topic_id for each in granted.ranges] == [None] * 4
    identify(world, NEW)
    assert {each.topic_id for _, ranges in world.pool.leases.view() for each in ranges} == {NEW, None}
    release(world, "b")
    assert len(settled(world, "of-earlier", "claim", OLD).lost) == 2
    assert len(settled(world, "of-earlier", "claim", NEW).done) == 2


def test_a_request_that_waits_does_so_until_the_topics_have_ids() -> None:
    world = with_ids(None)
    wanted = replace(request("a"), wait=5.0)
    ticket = send(world, lambda pool, ticket: pool.lease(ticket, wanted, world.now))
    looked = send(world, lambda pool, ticket: pool.await_lease_backlog(ticket, (ORDERS,), 5.0, world.now))
    world.advance(0.5)
    assert not {ticket, looked} & world.answers.keys()
    for cluster in (EU, US):
        world.upstream(lambda pool, cluster=cluster: pool.intake.topics_identified(cluster, {ORDERS: NEW}))
    world.advance(0.2)
    assert {each.topic_id for each in world.answer(ticket, LeaseGranted).ranges} == {NEW}
    assert len(world.answer(looked, LeaseBacklog).partitions) == 4


def test_nobody_waits_long_for_an_id_that_is_not_told() -> None:
    world = with_ids(None)
    wanted = replace(request("a"), wait=5.0)
    ticket = send(world, lambda pool, ticket: pool.lease(ticket, wanted, world.now))
    world.advance(TOPIC_IDS_WITHIN + 0.2)
    assert {each.topic_id for each in world.answer(ticket, LeaseGranted).ranges} == {None}


def test_what_an_engine_has_told_ends_with_it() -> None:
    world = with_ids(OLD)
    world.upstream(lambda pool: pool.intake.engine_failed(EU))
    world.topic_ids = {}
    world.assign(EU)
    grow(world, 10)
    assert len(settled(world, "of-earlier", "acknowledge", NEW).absent) == 2


# The lives themselves


def test_what_two_lives_share_is_the_least_of_what_lay_between_them() -> None:
    lives = [Incarnation(), Incarnation(), Incarnation(), Incarnation()]
    lives[0].followed_by(lives[1], CommonPrefix(60, True))
    lives[1].followed_by(lives[2], UNKNOWN_PREFIX)
    lives[2].followed_by(lives[3], CommonPrefix(80, True))
    assert common_prefix(lives[0], lives[0], None) == CommonPrefix(EVERYTHING, True)
    assert common_prefix(lives[0], lives[1], None) == CommonPrefix(60, True)
    assert common_prefix(lives[0], lives[3], None) == CommonPrefix(60, False)
    assert common_prefix(lives[1], lives[3], None) == CommonPrefix(80, False)
    assert common_prefix(lives[2], lives[3], None) == CommonPrefix(80, True)
    assert common_prefix(None, lives[3], None) == UNKNOWN_PREFIX


def test_of_leases_that_have_ended_so_many_are_remembered() -> None:
    ended, life = EndedLeases(), Incarnation()
    for number in range(MOST_REMEMBERED):
        ended.remember(f"lease-{number}", {source(0): life})
        ended.remember(f"lease-{number}", {source(0): life})
    known = [number for number in range(MOST_REMEMBERED) if ended.incarnations(f"lease-{number}")]
    assert known == list(range(MOST_REMEMBERED // 2, MOST_REMEMBERED))


# Stored leases


def test_what_is_stored_can_be_read_when_a_lease_begins_with_offsets_without_a_record() -> None:
    """The committable offset passes these offsets: they need no processing, although a lease has them."""
    world = world_of(ends=20)
    lease(world, "a", most=20)
    world.consumer().fetch(wait=5.0)
    world.upstream(lambda pool: pool.intake.reached_end(source(0), 3, Gap.EMPTY))
    assert world.pool.partitions[source(0)].ledger.committable == 3
    acknowledge(world, "a", [(0, 4, 4)])
    stored = world.upstreams[GROUP].committed(source(0))
    known = unpack(source(0), stored.offset, stored.metadata)
    assert (stored.offset, known.runs) == (3, (Span(4, 4),))
    assert [each.spans for each in known.leases] == [(Span(3, 3),)]
