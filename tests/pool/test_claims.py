"""Claims and acknowledgements range by range: whether there is room for them, and their cost."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from mesh.pool.common.results import CommitResult
from mesh.pool.common.settings import PoolSettings
from mesh.pool.state.leases import Acknowledgement, Claim, LeaseId, LeaseSettled, NoRoom, NotStored, Range
from mesh.records.spans import Span
from mesh.wire.errors import ErrorCode
from tests.pool.harness import GROUP, World, batch_of, source
from tests.pool.leases.test_service import (
    SPARK,
    acknowledge,
    ask,
    claim,
    grow,
    lease,
    send,
    shown,
    world_of,
)

MANY = 900
"""More runs than leases may have in the metadata of one partition."""


def every_other(count: int, index: int = 0, begin: int = 0) -> list[tuple[int, int, int]]:
    return [(index, offset, offset) for offset in range(begin, begin + 2 * count, 2)]


def ranges_of(ranges: list[tuple[int, int, int]]) -> tuple[Range, ...]:
    return tuple(Range(source(index), Span(first, last)) for index, first, last in ranges)


def claiming(world: World, id: str, ranges: list[tuple[int, int, int]]) -> object:
    again = Claim(id=LeaseId(id), holder=SPARK, ranges=ranges_of(ranges), ttl=60.0)
    return send(world, lambda pool, ticket: pool.claim(ticket, again, world.now))


# Room


def test_a_claim_for_which_there_is_no_room_is_refused_and_holds_nothing() -> None:
    world = world_of(ends=10_000)
    refused = world.answer(claiming(world, "x", [(1, 0, 9), *every_other(MANY)]), NoRoom)
    assert refused == NoRoom(source(0), MANY)
    assert not world.pool.leases.view()
    consumer = world.consumer()
    consumer.fetch(partitions=[0])
    world.produce(0, 20)
    ticket = consumer.commit({0: consumer.positions[0] - 10})
    assert set(world.answer(ticket, CommitResult).errors.values()) == {ErrorCode.NONE}
    assert world.stored[source(0)] == 10


def test_a_claim_of_what_is_held_already_needs_no_more_room() -> None:
    world = world_of(ends=10_000)
    ranges = every_other(600)
    assert shown(claim(world, "x", ranges).done) == ranges
    assert isinstance(world.answer(claiming(world, "y", every_other(200, begin=1)), NoRoom), NoRoom)
    assert shown(claim(world, "x", ranges).done) == ranges


def test_an_acknowledgement_that_would_leave_too_many_runs_held_is_refused_and_acknowledges_nothing() -> None:
    world = world_of(ends=10_000)
    lease(world, "a", most=40_000)
    wanted = Acknowledgement(id=LeaseId("a"), holder=SPARK, ranges=ranges_of(every_other(MANY, begin=1)))
    refused = ask(world, lambda pool, ticket: pool.acknowledge_lease(ticket, wanted, world.now), NoRoom)
    assert refused == NoRoom(source(0), MANY + 1)
    ((_, held),) = world.pool.leases.view()
    assert shown(held) == [(index, 0, 9_999) for index in range(4)]
    assert shown(acknowledge(world, "a", [(0, 0, 9_999)]).done) == [(0, 0, 9_999)]


def test_an_acknowledgement_is_not_answered_as_stored_while_there_is_no_room_for_it() -> None:
    """A member holds the lowest record, and acknowledgements of others above it fill the metadata."""
    world = world_of(ends=10_000)
    member = world.consumer()
    member.fetch(partitions=[0])
    world.produce(0, 1)
    before = every_other(2_500, begin=1)
    filling = Acknowledgement(id=LeaseId("of-earlier"), holder=SPARK, ranges=ranges_of(before))
    first = send(world, lambda pool, ticket: pool.acknowledge_lease(ticket, filling, world.now))
    world.advance(PoolSettings().commit_timeout)
    world.answer(first, NotStored)
    member.commit()
    assert shown(acknowledge(world, "of-earlier", [(0, 1, 1)]).done) == [(0, 1, 1)]


def test_a_lease_takes_nothing_of_a_batch_that_cannot_be_cut() -> None:
    """The batch stays for members, as a whole."""
    world = world_of(ends=10)
    damaged = batch_of(source(0), 0, 9)
    damaged.data[-1] ^= 1
    world.consumer().fetch(partitions=[1], wait=0.0)
    world.upstream(lambda pool: pool.intake.received(source(0), [damaged], world.now))
    assert [each for each in lease(world, "a", most=20) if each[0] == 0] == []
    assert [entry.span for entry in world.pool.partitions[source(0)].backlog.values()] == [Span(0, 9)]
    assert shown(claim(world, "b", [(0, 0, 9)]).done) == [(0, 0, 9)]
    world.check()


# Ranges in any form


def test_ranges_may_come_in_any_order_and_overlap() -> None:
    world = world_of(ends=100)
    settled = claim(world, "a", [(0, 50, 59), (0, 10, 19), (1, 0, 4), (0, 15, 29), (0, 10, 12)])
    assert shown(settled.done) == [(0, 10, 29), (0, 50, 59), (1, 0, 4)]
    assert shown(acknowledge(world, "a", [(0, 20, 29), (0, 10, 24)]).done) == [(0, 10, 29)]


# Costs

FEW, FOURFOLD = 250, 1_000


def unread(world: World, count: int) -> None:
    """The engine has brought none of its records."""


def in_one_batch(world: World, count: int) -> None:
    world.produce(0, 2 * count)


def in_a_run(world: World, count: int) -> None:
    world.batch_size = 2
    world.produce(0, 2 * count)


def in_small_batches(world: World, count: int) -> None:
    for _ in range(count):
        world.produce(0, 2)


def released(world: World, count: int) -> None:
    world.auto_reread = False
    world.produce(0, 2 * count)
    claim(world, "before", every_other(count))
    world.do(
        world.cluster.leasing(
            GROUP, lambda pool: pool.leases.release(world.ticket(), LeaseId("before"), SPARK, world.now), world.now
        )[1]
    )


def given_up_ahead(world: World, count: int) -> None:
    claim(world, "before", every_other(count))
    world.advance(61.0)


@pytest.mark.parametrize("state", [unread, in_one_batch, in_a_run, in_small_batches, released, given_up_ahead])
@pytest.mark.parametrize("verb", ["claim", "acknowledge", "acknowledge what is held"])
def test_a_request_costs_what_its_ranges_are_and_not_their_square(
    state: Callable[[World, int], None], verb: str
) -> None:
    few, many = calls_of(state, verb, FEW), calls_of(state, verb, FOURFOLD)
    assert many <= 5 * few, f"{few} calls for {FEW} ranges, {many} for {FOURFOLD}"


def calls_of(state: Callable[[World, int], None], verb: str, count: int) -> int:
    world = World(PoolSettings(presence=600.0, metadata_limit=200_000, replay_budget=0))
    lease(world, "first")
    world.assign_all()
    grow(world, 10_000)
    state(world, count)
    ranges = every_other(count)
    if verb == "acknowledge what is held":
        claim(world, "x", ranges)
    asked = ranges_of(ranges)
    again = Claim(id=LeaseId("x"), holder=SPARK, ranges=asked, ttl=60.0)
    wanted = Acknowledgement(id=LeaseId("x"), holder=SPARK, ranges=asked)
    ticket = world.ticket()
    made = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal made
        made += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        if verb == "claim":
            _, effects = world.cluster.leasing(GROUP, lambda pool: pool.claim(ticket, again, world.now), world.now)
        else:
            _, effects = world.cluster.leasing(
                GROUP, lambda pool: pool.acknowledge_lease(ticket, wanted, world.now), world.now
            )
    finally:
        sys.setprofile(None)
    world.do(effects)
    assert len(world.answer(ticket, LeaseSettled).done) == count
    return made
