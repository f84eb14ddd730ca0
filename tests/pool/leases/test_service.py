"""Leases beside members: who holds which offsets, what is stored about them, and how they end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pytest

from mesh.pool.common.effects import LookAtEnds
from mesh.pool.common.history import Redelivery
from mesh.pool.common.settings import PoolSettings
from mesh.pool.leases.service import GATHER_FOR, HELD_AFTER_RESTART
from mesh.pool.pool import Pool
from mesh.pool.state.leases import (
    LONGEST_TTL,
    Acknowledgement,
    Claim,
    EndUnknown,
    HolderId,
    LeaseBacklog,
    LeaseGranted,
    LeaseId,
    LeaseRequest,
    LeaseSettled,
    NotStored,
    Range,
    UnknownLease,
)
from mesh.records.spans import Span
from mesh.wire.errors import ErrorCode
from tests.pool.harness import EU, GROUP, ORDERS, US, Consumer, World, source, value_of

SPARK = HolderId("spark")
Kind = TypeVar("Kind")


def world_of(ends: int = 100, settings: PoolSettings | None = None, auto_store: bool = True) -> World:
    """A pool with a holder of leases and no members; each of its four partitions has so many records."""
    world = World(settings or PoolSettings(presence=600.0), auto_store=auto_store)
    lease(world, "first")
    world.assign_all()
    grow(world, ends)
    return world


def grow(world: World, end: int) -> None:
    world.upstream(lambda pool: pool.intake.ends_known({source(index): end for index in range(4)}))


def ask(world: World, step: object, kind: type[Kind]) -> Kind:
    return world.answer(send(world, step), kind)


def send(world: World, step: object) -> object:
    ticket = world.ticket()
    error, effects = world.cluster.leasing(GROUP, lambda pool: step(pool, ticket), world.now)  # type: ignore[operator]
    assert error is ErrorCode.NONE
    world.do(effects)
    if GROUP in world.cluster.pools:
        world.check()
    return ticket


def request(id: str, holder: HolderId = SPARK, most: int = 1_000, completed: str | None = None) -> LeaseRequest:
    last = LeaseId(completed) if completed is not None else None
    return LeaseRequest(id=LeaseId(id), holder=holder, topics=(ORDERS,), most=most, ttl=60.0, completed=last)


def lease(
    world: World, id: str, holder: HolderId = SPARK, most: int = 1_000, completed: str | None = None
) -> list[tuple[int, int, int]]:
    wanted = request(id, holder, most, completed)
    return shown(ask(world, lambda pool, ticket: pool.lease(ticket, wanted, world.now), LeaseGranted).ranges)


def shown(ranges: tuple[Range, ...]) -> list[tuple[int, int, int]]:
    """Number of the partition, first and last offset of each."""
    return sorted((number(each), each.span.first, each.span.last) for each in ranges)


def number(each: Range) -> int:
    return next(index for index in range(4) if source(index) == each.partition)


def acknowledge(
    world: World, id: str, ranges: list[tuple[int, int, int]] | None = None, holder: HolderId = SPARK
) -> LeaseSettled:
    asked = None if ranges is None else tuple(Range(source(index), Span(*span)) for index, *span in ranges)
    return ask(world, acknowledging(world, asked, id, holder), LeaseSettled)


def acknowledging(
    world: World, ranges: tuple[Range, ...] | None, id: str = "a", holder: HolderId = SPARK
) -> Callable[[Pool, object], None]:
    wanted = Acknowledgement(id=LeaseId(id), holder=holder, ranges=ranges)
    return lambda pool, ticket: pool.acknowledge_lease(ticket, wanted, world.now)


def claim(world: World, id: str, ranges: list[tuple[int, int, int]], holder: HolderId = SPARK) -> LeaseSettled:
    asked = tuple(Range(source(index), Span(first, last)) for index, first, last in ranges)
    again = Claim(id=LeaseId(id), holder=holder, ranges=asked, ttl=60.0)
    return ask(world, lambda pool, ticket: pool.claim(ticket, again, world.now), LeaseSettled)


def release(world: World, id: str) -> None:
    ask(world, lambda pool, ticket: pool.leases.release(ticket, LeaseId(id), SPARK, world.now), LeaseSettled)


def restarted(before: World) -> World:
    """Another mesh, which knows only the upstream state."""
    world = World(PoolSettings(presence=600.0))
    upstream = before.upstreams[GROUP]
    world.upstreams[GROUP].stored.update(upstream.stored)
    world.upstreams[GROUP].metadata.update(upstream.metadata)
    world.upstreams[GROUP].logs.update(upstream.logs)
    lease(world, "after", HolderId("another"))
    world.assign_all()
    return world


def values(consumer: Consumer, index: int = 0) -> list[bytes]:
    return [value for partition, _, value in consumer.received if partition == index]


def expected(first: int, last: int, index: int = 0) -> list[bytes]:
    return [value_of(source(index), offset) for offset in range(first, last + 1)]


# Leased spans


def test_what_no_engine_has_read_is_leased_up_to_the_last_stable_offset() -> None:
    world = world_of(ends=100)
    assert lease(world, "a") == [(0, 0, 99), (1, 0, 99), (2, 0, 99), (3, 0, 99)]
    assert lease(world, "b", HolderId("other")) == []
    assert EU in world.upstreams[GROUP].idle, "nobody is there for whom records would have to be read"


def test_a_lease_is_as_large_as_was_asked_evenly_over_the_partitions() -> None:
    assert lease(world_of(ends=100), "a", most=10) == [(0, 0, 2), (1, 0, 2), (2, 0, 1), (3, 0, 1)]


def test_what_was_in_the_backlog_leaves_it() -> None:
    world = world_of(ends=10)
    world.produce(0, 10)
    assert world.pool.partitions[source(0)].backlog
    assert (0, 0, 9) in lease(world, "a")
    assert not world.pool.partitions[source(0)].backlog
    world.check()


def test_small_batches_that_follow_each_other_are_leased_as_one_run() -> None:
    world = world_of(ends=500)
    for _ in range(200):
        world.produce(0, 2)
    assert lease(world, "a", most=2_000) == [(0, 0, 499), (1, 0, 499), (2, 0, 499), (3, 0, 499)]
    assert len(world.pool.partitions[source(0)].leased) == 1


def test_a_batch_is_cut_where_a_lease_ends() -> None:
    world = world_of(ends=10)
    world.produce(0, 10)
    assert lease(world, "a", most=12) == [(0, 0, 2), (1, 0, 2), (2, 0, 2), (3, 0, 2)]
    consumer = world.consumer()
    consumer.fetch(partitions=[0], wait=0.0)
    assert values(consumer) == expected(3, 9)


def test_what_is_leased_is_cut_out_of_what_the_engine_brings_later() -> None:
    world = world_of(ends=10)
    assert lease(world, "a", most=20) == [(0, 0, 4), (1, 0, 4), (2, 0, 4), (3, 0, 4)]
    consumer = world.consumer()
    consumer.fetch(partitions=[0])
    world.produce(0, 10)
    assert values(consumer) == expected(5, 9)


def test_while_members_wait_a_lease_takes_at_most_half() -> None:
    world = world_of(ends=0)
    consumer = world.consumer()
    consumer.fetch(wait=5.0)
    grow(world, 9)
    assert lease(world, "a") == [(0, 0, 3), (1, 0, 3), (2, 0, 3), (3, 0, 3)]


def test_the_last_record_is_leased_although_there_is_a_member_that_does_not_ask() -> None:
    world = world_of(ends=1)
    world.consumer().fetch(partitions=[0], wait=0.0)
    assert lease(world, "a") == [(0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0)]


def test_nothing_is_leased_of_a_source_that_is_down() -> None:
    world = world_of(ends=10)
    world.upstream(lambda pool: pool.commits.cluster_down(EU))
    assert lease(world, "a") == [(2, 0, 9), (3, 0, 9)]


def test_a_request_that_waits_is_answered_when_something_comes() -> None:
    world = world_of(ends=0)
    wanted = LeaseRequest(id=LeaseId("a"), holder=SPARK, topics=(ORDERS,), most=100, ttl=60.0, wait=5.0)
    ticket = send(world, lambda pool, ticket: pool.lease(ticket, wanted, world.now))
    world.advance(3.0)
    assert ticket not in world.answers
    grow(world, 1)
    world.advance(1.0)
    assert len(world.answer(ticket, LeaseGranted).ranges) == 4


def waiting_lease(world: World, id: str) -> object:
    wanted = replace(request(id), wait=50.0)
    return send(world, lambda pool, ticket: pool.lease(ticket, wanted, world.now))


def test_a_request_that_waits_has_its_half_of_what_comes_before_members_that_wait() -> None:
    world = world_of(ends=0)
    consumer = world.consumer()
    consumer.fetch(partitions=[0])
    ticket = waiting_lease(world, "a")
    world.produce(0, 10)
    assert values(consumer) == expected(5, 9)
    consumer.fetch(partitions=[0])
    world.produce(0, 20)
    assert values(consumer) == expected(5, 9) + expected(20, 29)
    world.advance(GATHER_FOR)
    assert shown(world.answer(ticket, LeaseGranted).ranges) == [(0, 0, 4), (0, 10, 19)]


def test_a_request_that_gathers_leaves_members_their_half_of_what_was_there() -> None:
    world = world_of(ends=100)
    world.consumer().fetch(partitions=[0], wait=0.0)
    ticket = waiting_lease(world, "a")
    world.advance(GATHER_FOR)
    assert [(first, last) for _, first, last in shown(world.answer(ticket, LeaseGranted).ranges)] == [(0, 49)] * 4


def test_a_request_gathers_no_more_than_it_asked_for() -> None:
    world = world_of(ends=0)
    world.consumer().fetch(partitions=[0])
    wanted = replace(request("a", most=7), wait=50.0)
    ticket = send(world, lambda pool, ticket: pool.lease(ticket, wanted, world.now))
    world.produce(0, 10)
    assert ticket not in world.answers
    world.produce(0, 10)
    assert shown(world.answer(ticket, LeaseGranted).ranges) == [(0, 0, 4), (0, 10, 11)]


def test_a_request_that_gathers_ends_when_its_holder_asks_for_another() -> None:
    world = world_of(ends=0)
    consumer = world.consumer()
    consumer.fetch(partitions=[0])
    ticket = waiting_lease(world, "a")
    world.produce(0, 10)
    consumer.fetch(partitions=[0])
    later = waiting_lease(world, "b")
    world.advance(GATHER_FOR)
    assert world.answer(ticket, LeaseGranted).ranges == ()
    world.produce(0, 10)
    world.advance(GATHER_FOR)
    assert world.answer(later, LeaseGranted).ranges
    assert values(consumer)[:5] == expected(5, 9)


def test_every_other_record_that_comes_alone_goes_to_a_request_that_waits() -> None:
    world = world_of(ends=0)
    consumer = world.consumer()
    ticket = waiting_lease(world, "a")
    for _ in range(6):
        if not consumer.is_parked:
            consumer.commit()
            consumer.fetch(partitions=[0])
        world.produce(0, 1)
    world.advance(GATHER_FOR)
    assert shown(world.answer(ticket, LeaseGranted).ranges) == [(0, 0, 0), (0, 2, 2), (0, 4, 4)]
    assert values(consumer) == [value for each in (1, 3, 5) for value in expected(each, each)]


def test_a_request_waits_until_every_cluster_has_assigned_its_partitions() -> None:
    world = World()
    wanted = LeaseRequest(id=LeaseId("a"), holder=SPARK, topics=(ORDERS,), most=100, ttl=60.0, wait=5.0)
    ticket = send(world, lambda pool, ticket: pool.lease(ticket, wanted, world.now))
    world.assign(EU)
    world.upstream(lambda pool: pool.intake.ends_known({source(0): 10}))
    world.advance(2.0)
    assert ticket not in world.answers
    world.assign(US)
    world.upstream(lambda pool: pool.intake.ends_known({source(2): 10}))
    world.advance(1.0)
    assert shown(world.answer(ticket, LeaseGranted).ranges) == [(0, 0, 9), (2, 0, 9)]


def test_nothing_beyond_the_ends_that_a_request_names_is_leased() -> None:
    world = world_of(ends=100)
    wanted = replace(request("a"), ends={source(0): 7, source(1): 0, source(2): 1_000})
    granted = ask(world, lambda pool, ticket: pool.lease(ticket, wanted, world.now), LeaseGranted)
    assert shown(granted.ranges) == [(0, 0, 6), (2, 0, 99)]
    again = replace(wanted, id=LeaseId("b"), completed=LeaseId("a"))
    assert ask(world, lambda pool, ticket: pool.lease(ticket, again, world.now), LeaseGranted).ranges == ()


def test_a_request_with_ends_waits_for_partitions_that_move() -> None:
    """It comes from a query that lands what is there, and ends when it gets nothing."""
    world = world_of(ends=100)
    wanted = replace(request("a"), ends={source(0): 7}, wait=5.0)
    world.upstream(lambda pool: pool.intake.engine_failed(EU))
    ticket = send(world, lambda pool, ticket: pool.lease(ticket, wanted, world.now))
    world.advance(1.0)
    world.assign(EU)
    world.advance(1.0)
    assert ticket not in world.answers, "the end of the log is not known yet"
    grow(world, 100)
    world.advance(1.0)
    assert shown(world.answer(ticket, LeaseGranted).ranges) == [(0, 0, 6)]
    again = replace(wanted, id=LeaseId("b"), completed=LeaseId("a"))
    assert ask(world, lambda pool, ticket: pool.lease(ticket, again, world.now), LeaseGranted).ranges == ()


def test_a_request_with_ends_is_told_of_partitions_that_do_not_come_back() -> None:
    world = world_of(ends=100)
    wanted = replace(request("a"), ends={source(0): 7}, wait=5.0)
    world.upstream(lambda pool: pool.intake.engine_failed(EU))
    ticket = send(world, lambda pool, ticket: pool.lease(ticket, wanted, world.now))
    world.advance(5.1)
    assert world.answer(ticket, EndUnknown).partition == source(0)


def test_a_request_for_the_backlog_waits_for_the_partitions() -> None:
    world = World()
    ticket = send(world, lambda pool, ticket: pool.await_lease_backlog(ticket, (ORDERS,), 5.0, world.now))
    world.advance(1.0)
    assert ticket not in world.answers
    world.assign_all()
    grow(world, 9)
    world.advance(1.0)
    assert [each.end for each in world.answer(ticket, LeaseBacklog).partitions] == [9] * 4


def test_the_ends_of_a_backlog_are_asked_for_after_the_request() -> None:
    world = world_of(ends=100)
    world.auto_look = False
    ticket = send(world, lambda pool, ticket: pool.await_lease_backlog(ticket, (ORDERS,), 5.0, world.now))
    grow(world, 101)  # asked for before
    world.advance(1.0)
    assert ticket not in world.answers
    (number,) = {effect.number for effect in world.effects if isinstance(effect, LookAtEnds)}
    world.look(EU, number, {source(index): 110 for index in range(2)})
    world.advance(1.0)
    assert ticket not in world.answers, "the other cluster has not answered"
    world.look(US, number + 1, {source(index): 120 for index in range(2, 4)})
    world.advance(1.0)
    assert [each.end for each in world.answer(ticket, LeaseBacklog).partitions] == [110, 110, 120, 120]


def test_an_end_that_a_cluster_does_not_say_in_time_is_named() -> None:
    world = world_of(ends=100)
    world.auto_look = False
    ticket = send(world, lambda pool, ticket: pool.await_lease_backlog(ticket, (ORDERS,), 5.0, world.now))
    (number,) = {effect.number for effect in world.effects if isinstance(effect, LookAtEnds)}
    world.look(US, number)
    world.advance(5.1)
    assert world.answer(ticket, EndUnknown).partition.cluster == EU


def test_a_cluster_that_is_down_is_not_waited_for() -> None:
    world = world_of(ends=100)
    world.auto_look = False
    ticket = send(world, lambda pool, ticket: pool.await_lease_backlog(ticket, (ORDERS,), 5.0, world.now))
    (number,) = {effect.number for effect in world.effects if isinstance(effect, LookAtEnds)}
    world.look(US, number)
    world.upstream(lambda pool: pool.commits.cluster_down(EU))
    world.advance(1.0)
    assert [each.end for each in world.answer(ticket, LeaseBacklog).partitions] == [100] * 4


def one_cluster_has_answered() -> tuple[World, object, int]:
    """Returns a request for the backlog that waits for the ends of the second cluster, and the number of its look."""
    world = world_of(ends=100)
    world.auto_look = False
    ticket = send(world, lambda pool, ticket: pool.await_lease_backlog(ticket, (ORDERS,), 5.0, world.now))
    (number,) = {effect.number for effect in world.effects if isinstance(effect, LookAtEnds)}
    world.look(EU, number, {source(index): 110 for index in range(2)})
    return world, ticket, number


def is_truncated(world: World) -> None:
    world.upstream(lambda pool: pool.intake.truncated(source(0), 60, world.now))


def is_created_again(world: World) -> None:
    world.upstream(lambda pool: pool.intake.position_reset(source(0), 0, "created again", world.now))


def is_assigned_again(world: World) -> None:
    world.upstream(lambda pool: pool.intake.lost([source(0)]))
    world.assign(EU, resumed=True)


@pytest.mark.parametrize("change", [is_truncated, is_created_again, is_assigned_again])
def test_an_end_is_asked_for_again_if_the_log_has_changed_since(change: Callable[[World], None]) -> None:
    world, ticket, number = one_cluster_has_answered()
    change(world)
    world.look(US, number)
    world.advance(1.0)
    assert ticket not in world.answers
    world.look(EU, number, {source(0): 80, source(1): 110})
    world.advance(1.0)
    assert [each.end for each in world.answer(ticket, LeaseBacklog).partitions] == [80, 110, 100, 100]


def loses_its_engine(world: World) -> None:
    world.upstream(lambda pool: pool.intake.engine_failed(EU))


def is_lost(world: World) -> None:
    world.upstream(lambda pool: pool.intake.lost([source(0), source(1)]))


def is_revoked_for_a_rebalance(world: World) -> None:
    world.upstream(lambda pool: pool.intake.revoked([source(0), source(1)]))


LOSSES = pytest.mark.parametrize("lose", [loses_its_engine, is_lost, is_revoked_for_a_rebalance])


@LOSSES
def test_a_request_for_the_backlog_waits_for_partitions_that_may_come_back(lose: Callable[[World], None]) -> None:
    world, ticket, number = one_cluster_has_answered()
    lose(world)
    world.look(US, number)
    world.advance(1.0)
    assert ticket not in world.answers
    world.assign(EU)
    world.look(EU, number, {source(index): 110 for index in range(2)})
    world.advance(1.0)
    assert [each.end for each in world.answer(ticket, LeaseBacklog).partitions] == [110, 110, 100, 100]


@LOSSES
def test_a_request_for_the_backlog_leaves_out_partitions_that_another_process_got(
    lose: Callable[[World], None],
) -> None:
    world, ticket, number = one_cluster_has_answered()
    lose(world)
    world.assign(EU, indexes=[1])
    world.look(US, number)
    world.look(EU, number, {source(1): 110})
    world.advance(1.0)
    assert [each.end for each in world.answer(ticket, LeaseBacklog).partitions] == [110, 100, 100]


@LOSSES
def test_partitions_that_do_not_come_back_in_time_are_named(lose: Callable[[World], None]) -> None:
    world, ticket, number = one_cluster_has_answered()
    lose(world)
    world.look(US, number)
    world.advance(5.1)
    assert world.answer(ticket, EndUnknown).partition.cluster == EU


def test_a_backlog_without_any_assignment_in_time_is_not_empty() -> None:
    world = World()
    ticket = send(world, lambda pool, ticket: pool.await_lease_backlog(ticket, (ORDERS,), 5.0, world.now))
    world.advance(5.1)
    assert world.answer(ticket, EndUnknown).partition in {source(index) for index in range(4)}


def test_a_request_for_ends_alone_does_not_keep_the_pool() -> None:
    world = world_of(ends=100, settings=PoolSettings(presence=60.0))
    world.advance(59.0)
    ticket = send(world, lambda pool, ticket: pool.leases.await_ends(ticket, (ORDERS,), 5.0, world.now))
    world.advance(0.2)
    assert [each.end for each in world.answer(ticket, LeaseBacklog).partitions] == [100] * 4
    assert not world.pool.leases.are_wanted(world.now + 2.0)


# Until they are stored


def test_it_is_answered_when_it_is_stored() -> None:
    world = world_of(ends=10, auto_store=False)
    wanted = request("a")
    ticket = send(world, lambda pool, ticket: pool.lease(ticket, wanted, world.now))
    assert ticket not in world.answers
    world.store()
    assert ticket not in world.answers, "the other cluster has not stored it"
    world.store()
    assert world.answer(ticket, LeaseGranted).id == "a"
    assert world.upstreams[GROUP].metadata[source(0)].startswith("kafka-mesh/2 0 ")


def test_what_could_not_be_stored_was_never_leased() -> None:
    world = world_of(ends=10, auto_store=False)
    wanted = request("a")
    ticket = send(world, lambda pool, ticket: pool.lease(ticket, wanted, world.now))
    world.advance(PoolSettings().commit_timeout)
    world.answer(ticket, NotStored)
    assert not world.pool.leases.view()
    world.check()


def test_an_acknowledgement_is_answered_when_it_is_stored() -> None:
    world = world_of(ends=10, auto_store=False)
    wanted = request("a")
    send(world, lambda pool, ticket: pool.lease(ticket, wanted, world.now))
    world.store()
    world.store()
    ticket = send(world, acknowledging(world, None))
    assert ticket not in world.answers
    again = send(world, acknowledging(world, ()))
    assert world.answer(again, LeaseSettled).done == ()
    world.store()
    world.store()
    assert len(world.answer(ticket, LeaseSettled).done) == 4
    assert world.stored[source(0)] == 10


# Ends of leases


def test_an_acknowledged_lease_is_committed_and_done() -> None:
    world = world_of(ends=10)
    lease(world, "a")
    assert shown(acknowledge(world, "a").done) == [(0, 0, 9), (1, 0, 9), (2, 0, 9), (3, 0, 9)]
    assert world.stored == {source(index): 10 for index in range(4)}
    assert world.upstreams[GROUP].metadata[source(0)] == ""
    assert not world.pool.leases.view()


def test_acknowledging_again_is_the_same() -> None:
    world = world_of(ends=10)
    ranges = lease(world, "a")
    first = acknowledge(world, "a", ranges)
    assert acknowledge(world, "a", ranges) == first
    ticket = send(world, acknowledging(world, None))
    world.answer(ticket, UnknownLease)


def test_a_part_is_acknowledged_and_the_rest_stays_held() -> None:
    world = world_of(ends=10)
    lease(world, "a")
    acknowledge(world, "a", [(0, 3, 5)])
    ((_, ranges),) = world.pool.leases.view()
    assert shown(ranges)[:2] == [(0, 0, 2), (0, 6, 9)]
    assert world.stored[source(0)] == 0
    acknowledge(world, "a", [(0, 0, 2)])
    assert world.stored[source(0)] == 6


def test_a_lease_of_another_holder_is_not_touched() -> None:
    world = world_of(ends=10)
    ranges = lease(world, "a")
    other = HolderId("other")
    ticket = send(world, acknowledging(world, None, holder=other))
    world.answer(ticket, UnknownLease)
    settled = acknowledge(world, "b", ranges, other)
    assert settled.done == ()
    assert shown(settled.lost) == ranges


def test_what_is_released_goes_to_members() -> None:
    world = world_of(ends=10)
    lease(world, "a")
    release(world, "a")
    consumer = world.consumer()
    consumer.fetch(partitions=[0])
    world.produce(0, 10)
    assert values(consumer) == expected(0, 9)
    world.check()


def test_what_was_in_the_backlog_before_it_was_leased_is_read_again() -> None:
    world = world_of(ends=10)
    world.produce(0, 6)
    lease(world, "a")
    release(world, "a")
    consumer = world.consumer()
    consumer.fetch(partitions=[0], wait=0.0)
    consumer.fetch(partitions=[0])
    world.produce(0, 4)
    assert values(consumer) == expected(0, 9)
    world.check()


def test_a_request_ends_the_leases_of_its_holder_but_the_last_completed() -> None:
    world = world_of(ends=10)
    kept = lease(world, "a")
    grow(world, 20)
    lost = lease(world, "b", completed="a")
    assert lease(world, "c", completed="a") == lost
    ((first, held), (second, _)) = world.pool.leases.view()
    assert (first.id, second.id) == ("a", "c")
    assert shown(held) == kept


def test_an_expired_lease_counts_as_a_delivery() -> None:
    world = world_of(ends=10, settings=PoolSettings(presence=600.0, redelivery=Redelivery(limit=9)))
    lease(world, "a")
    world.advance(61.0)
    assert not world.pool.leases.view()
    assert (0, 0, 9) in lease(world, "b", HolderId("other")), "what was given up can be leased again"
    world.advance(61.0)
    world.consumer().fetch(partitions=[1], wait=0.0)
    world.produce(0, 10)
    histories = [entry.history for entry in world.pool.partitions[source(0)].backlog.values()]
    assert [(each.count, each.member) for each in histories] == [(2, "other")]


def test_a_renewed_lease_lasts() -> None:
    world = world_of(ends=10)
    lease(world, "a")
    for _ in range(3):
        world.advance(50.0)
        send(world, lambda pool, ticket: pool.leases.renew(ticket, LeaseId("a"), SPARK, 60.0, world.now))
    assert len(world.pool.leases.view()) == 1
    world.advance(61.0)
    ticket = send(world, lambda pool, ticket: pool.leases.renew(ticket, LeaseId("a"), SPARK, 60.0, world.now))
    world.answer(ticket, UnknownLease)


def test_what_nobody_took_meanwhile_is_claimed_again() -> None:
    world = world_of(ends=10)
    ranges = lease(world, "a")
    world.advance(61.0)
    assert shown(claim(world, "a", ranges).done) == ranges
    acknowledge(world, "a")
    assert world.stored[source(0)] == 10


def test_what_another_one_took_is_lost() -> None:
    world = world_of(ends=10)
    ranges = lease(world, "a")
    release(world, "a")
    consumer = world.consumer()
    consumer.fetch(partitions=[0])
    world.produce(0, 10)
    settled = claim(world, "a", ranges)
    assert shown(settled.lost) == [(0, 0, 9)]
    assert shown(settled.done) == ranges[1:]


def test_what_others_have_acknowledged_since_a_lease_ended_is_lost() -> None:
    world = world_of(ends=10)
    ranges = lease(world, "a")
    release(world, "a")
    lease(world, "b", HolderId("other"), most=4)
    acknowledge(world, "b", holder=HolderId("other"))
    settled = claim(world, "a", ranges)
    assert shown(settled.lost) == [(index, 0, 0) for index in range(4)]
    assert shown(settled.done) == [(index, 1, 9) for index in range(4)]


def test_what_a_lease_has_acknowledged_itself_is_done_when_it_is_claimed() -> None:
    world = world_of(ends=10)
    ranges = lease(world, "a")
    acknowledge(world, "a", ranges[:1])
    assert shown(claim(world, "a", ranges).done) == ranges


def test_a_claim_waits_for_the_partition() -> None:
    world = World()
    asked = (Range(source(0), Span(0, 4)),)
    again = Claim(id=LeaseId("a"), holder=SPARK, ranges=asked, ttl=60.0, wait=5.0)
    ticket = send(world, lambda pool, ticket: pool.claim(ticket, again, world.now))
    world.advance(2.0)
    assert ticket not in world.answers
    world.assign_all()
    grow(world, 10)
    world.advance(1.0)
    assert world.answer(ticket, LeaseSettled).done == asked


def test_an_acknowledgement_that_comes_first_makes_the_pool_join() -> None:
    """A query that comes back after the mesh has left the upstream groups acknowledges before it asks for more."""
    world = World()
    asked = (Range(source(0), Span(0, 4)),)
    step = acknowledging(world, asked)
    assert ask(world, step, LeaseSettled).absent == asked
    assert world.upstreams[GROUP].subscribed == {EU, US}
    world.assign_all()
    grow(world, 10)
    assert ask(world, step, LeaseSettled).done == asked


def test_a_partition_that_goes_elsewhere_takes_its_part_of_a_lease_with_it() -> None:
    world = world_of(ends=10)
    ranges = lease(world, "a")
    world.upstream(lambda pool: pool.intake.lost([source(0)]))
    settled = acknowledge(world, "a", ranges)
    assert shown(settled.absent) == [(0, 0, 9)]
    assert shown(settled.done) == ranges[1:]


# After a restart


def test_a_lease_is_held_after_a_restart_and_can_be_acknowledged_there() -> None:
    before = world_of(ends=10)
    ranges = lease(before, "a")
    world = restarted(before)
    grow(world, 10)
    assert lease(world, "b", HolderId("other")) == []
    consumer = world.consumer()
    consumer.fetch(partitions=[0])
    world.produce(0, 10)
    assert values(consumer) == []
    assert shown(acknowledge(world, "a", ranges).done) == ranges
    assert world.stored[source(0)] == 10


@pytest.mark.parametrize("is_renewed", [False, True])
def test_after_a_restart_it_is_held_two_minutes_at_least(is_renewed: bool) -> None:
    before = world_of(ends=10)
    lease(before, "a")
    world = restarted(before)
    grow(world, 10)
    world.advance(HELD_AFTER_RESTART - 1)
    if is_renewed:
        send(world, lambda pool, ticket: pool.leases.renew(ticket, LeaseId("a"), SPARK, 60.0, world.now))
    world.advance(2.0)
    assert bool(lease(world, "b", HolderId("other"))) is not is_renewed


def test_a_clock_that_was_ahead_holds_a_lease_no_longer_than_one_may_last() -> None:
    before = world_of(ends=10)
    before.now += 30 * LONGEST_TTL
    lease(before, "a")
    world = restarted(before)
    ((restored, _),) = [each for each in world.pool.leases.view() if each[0].id == "a"]
    assert restored.deadline == world.now + LONGEST_TTL


def test_what_members_acknowledged_beside_a_lease_is_stored_with_it() -> None:
    before = world_of(ends=5)
    lease(before, "a", most=12)
    consumer = before.consumer()
    consumer.fetch(partitions=[0])
    before.produce(0, 5)
    consumer.commit({0: consumer.positions[0]})
    world = restarted(before)
    grow(world, 5)
    acknowledge(world, "a", [(0, 0, 2)])
    assert world.stored[source(0)] == 5


def test_a_pool_without_members_stays_while_there_are_leases() -> None:
    world = world_of(ends=10, settings=PoolSettings(presence=5.0))
    lease(world, "a")
    world.advance(30.0)
    assert GROUP in world.cluster.pools
    world.advance(60.0)
    assert GROUP not in world.cluster.pools


def test_a_lease_that_came_back_with_its_partition_expires_though_the_one_before_it_is_given_up() -> None:
    """Both have the same id. The end of the first one made the pool forget the second, which then never ended."""
    world = world_of(ends=10, auto_store=False)
    while world.pending_stores:
        world.store()
    send(world, lambda pool, ticket: pool.lease(ticket, request("a"), world.now))
    world.store()  # of one cluster: not granted yet
    assert world.pending_stores
    send(world, lambda pool, ticket: pool.lease(ticket, request("b"), world.now))
    indexes = [index for index in range(4) if source(index).cluster == EU]
    world.upstream(lambda pool: pool.intake.revoked([source(index) for index in indexes]))
    world.assign(EU, resumed=True, indexes=indexes[:1])
    for _ in range(len(world.pending_stores)):
        world.store(27)
    world.assign_all()
    assert any(each.lease.id == "a" for p in world.pool.partitions.values() for each in p.leased.values())
    world.advance(10.0)
    world.advance(HELD_AFTER_RESTART + 1.0)
    held = {each.lease.id for partition in world.pool.partitions.values() for each in partition.leased.values()}
    assert "a" not in held
