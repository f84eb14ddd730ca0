"""How much one member gets at once: of a single batch, of a run, and of suspected records."""

from __future__ import annotations

import pytest

from mesh.pool.common.history import UNSENT, History, Redelivery
from mesh.pool.common.settings import PoolSettings
from mesh.pool.distribution.shares import Shares
from mesh.pool.state.partition import NO_LIMIT
from mesh.pool.state.window import Available
from tests.pool.harness import Consumer, World, batch_of, source

CAP = 10


def begin(members: int, settings: PoolSettings | None = None) -> tuple[Shares, list[Consumer], World]:
    """Members that wait for records."""
    world = World(settings or PoolSettings(initial_window=CAP))
    consumers = [world.consumer() for _ in range(members)]
    for consumer in consumers:
        consumer.fetch()
    distribution = world.pool.serving.distribution
    shares = Shares(distribution.window_limits, distribution.quarantine, distribution.limits, distribution.weights)
    return shares, consumers, world


def available(count: int, size: int | None = None, history: History = UNSENT) -> Available:
    """One batch, or a run of batches of `size` records."""
    return Available(batch_of(source(0), 0, count - 1, size), history)


def test_a_member_that_is_alone_may_have_everything() -> None:
    shares, (alone,), world = begin(1)
    member = world.pool.members.by_id[alone.member_id]
    assert shares.room(member, world.now) == NO_LIMIT
    assert shares.most_offsets(available(1_000), member, world.now) == 1_000
    assert shares.share_in_batches(available(100, 10), member) == 10


def test_beside_others_a_batch_is_cut_at_the_cap_and_a_run_between_its_batches() -> None:
    shares, (one, _), world = begin(2)
    member = world.pool.members.by_id[one.member_id]
    assert shares.room(member, world.now) == CAP
    assert shares.most_offsets(available(1_000), member, world.now) == CAP
    assert shares.most_offsets(available(100, 10), member, world.now) == 100, "of a run whole batches are taken"


def test_what_a_member_holds_leaves_it_less_room() -> None:
    shares, _, world = begin(2)
    world.produce(0, 4)
    rooms = {member.in_flight: shares.room(member, world.now) for member in world.pool.members.by_id.values()}
    assert rooms == {4: CAP - 4, 0: CAP}


def test_the_share_of_a_run_is_rounded_up_and_never_nothing() -> None:
    shares, (one, *_), world = begin(3)
    member = world.pool.members.by_id[one.member_id]
    assert [shares.share_in_batches(available(10 * count, 10), member) for count in (2, 3, 4, 7)] == [1, 1, 2, 3]


def test_so_many_offsets_of_a_run_are_whole_batches() -> None:
    shares, _, _ = begin(3)
    run = available(100, 10)
    assert [shares.batches_for(run, offsets) for offsets in (1, 14, 50, 58, 300)] == [1, 1, 5, 6, 30]
    assert shares.batches_for(available(100), 1) == 1


@pytest.mark.parametrize("members", [1, 3])
def test_an_equal_part_is_rounded_up(members: int) -> None:
    shares, _, _ = begin(members)
    assert [shares.equal_share(size) for size in (0, 1, 300)] == [0, 1, 300 // members]


def test_a_member_that_is_alone_gets_half_of_suspected_records() -> None:
    shares, (alone,), world = begin(1, PoolSettings(redelivery=Redelivery(limit=3)))
    member = world.pool.members.by_id[alone.member_id]
    suspected = History(is_suspect=True)
    assert [shares.most_offsets(available(count, history=suspected), member, world.now) for count in (1, 2, 9)] == [
        1,
        1,
        5,
    ]
    assert shares.most_offsets(available(9), member, world.now) == 9


def test_a_member_that_had_less_lately_is_given_up_to_two_parts() -> None:
    shares, (one, other), world = begin(2)
    often, seldom = (world.pool.members.by_id[each.member_id] for each in (one, other))
    for step in range(1_000):
        now = step / 500
        shares.gave(often, 400, now)
        if step % 2:
            shares.gave(seldom, 400, now)
    assert shares.share_for(seldom, 100, now) == 100, "nothing is known when the first step begins"
    shares.begin_step()
    assert shares.share_for(often, 100, now) == 100
    assert 100 < shares.share_for(seldom, 100, now) <= 200
    assert shares.share_for(seldom, 10, now) == 20


def test_what_a_member_had_before_does_not_count_for_long() -> None:
    shares, (one, other), world = begin(2)
    early, joiner = (world.pool.members.by_id[each.member_id] for each in (one, other))
    shares.gave(early, 1_000_000, 0.0)
    shares.begin_step()
    assert shares.share_for(joiner, 100, 0.1) == 200
    assert shares.share_for(joiner, 100, 10.0) == 100
    assert shares.share_for(joiner, 100, 1e6) == 100


def test_a_step_gives_each_member_the_same() -> None:
    shares, (one, other), world = begin(2)
    first, second = (world.pool.members.by_id[each.member_id] for each in (one, other))
    shares.begin_step()
    shares.gave(first, 100, 0.0)
    assert shares.share_for(second, 100, 0.0) == 100
