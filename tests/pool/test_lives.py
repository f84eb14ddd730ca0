"""One life of a log after the other: what was leased of an earlier one is nothing of the present one."""

from __future__ import annotations

from dataclasses import replace

from mesh.pool.leased import LeaseGranted
from tests.pool.harness import GROUP, World, source
from tests.pool.test_leases import acknowledge, ask, grow, lease, request, send, shown, world_of


def begin_anew(world: World, *indexes: int, start: int = 0) -> None:
    """The topic was deleted, and with it what was committed of it, and made anew."""
    for index in indexes:
        world.stored.pop(source(index), None)
        world.upstreams[GROUP].metadata.pop(source(index), None)
        world.ends[source(index)] = start
        world.logs.pop(source(index), None)
        world.upstream(lambda pool, index=index: pool.inflow.position_reset(source(index), start, "anew", world.now))


# How far the log goes


def test_nothing_is_leased_of_a_log_that_began_anew_until_its_end_is_known() -> None:
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
    world.upstream(lambda pool: pool.inflow.truncated(source(0), 60, world.now))
    wanted = request("b", most=400)
    granted = ask(world, lambda pool, ticket: pool.lease(ticket, wanted, world.now), LeaseGranted)
    assert all(each.span.last < 60 for each in granted.ranges if each.partition == source(0))
