"""How much one member is given at once: of a single batch, of a run, and of what is suspected."""

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
    """Members that ask for records."""
    world = World(settings or PoolSettings(initial_window=CAP))
    consumers = [world.consumer() for _ in range(members)]
    for consumer in consumers:
        consumer.fetch()
    distribution = world.pool.serving.distribution
    return Shares(distribution.window_limits, distribution.quarantine), consumers, world


def available(count: int, size: int | None = None, history: History = UNSENT) -> Available:
    """One batch, or a run of batches of `size` records."""
    return Available(batch_of(source(0), 0, count - 1, size), history)


def test_who_is_alone_may_have_everything() -> None:
    shares, (alone,), world = begin(1)
    member = world.pool.members.by_id[alone.member_id]
    assert shares.room(member) == NO_LIMIT
    assert shares.most(available(1_000), member) == 1_000
    assert shares.share(available(100, 10)) == 10


def test_beside_others_a_batch_is_cut_at_the_cap_and_a_run_between_its_batches() -> None:
    shares, (one, _), world = begin(2)
    member = world.pool.members.by_id[one.member_id]
    assert shares.room(member) == CAP
    assert shares.most(available(1_000), member) == CAP
    assert shares.most(available(100, 10), member) == 100, "of a run whole batches are taken"


def test_what_a_member_holds_leaves_it_less_room() -> None:
    shares, _, world = begin(2)
    world.produce(0, 4)
    rooms = {member.in_flight: shares.room(member) for member in world.pool.members.by_id.values()}
    assert rooms == {4: CAP - 4, 0: CAP}


def test_the_share_of_a_run_is_rounded_up_and_never_nothing() -> None:
    shares, _, _ = begin(3)
    assert [shares.share(available(10 * count, 10)) for count in (2, 3, 4, 7)] == [1, 1, 2, 3]


def test_so_many_offsets_of_a_run_are_whole_batches() -> None:
    shares, _, _ = begin(3)
    run = available(100, 10)
    assert [shares.batches(run, offsets) for offsets in (1, 14, 50, 58, 300)] == [1, 1, 5, 6, 30]
    assert shares.batches(available(100), 1) == 1


@pytest.mark.parametrize("members", [1, 3])
def test_an_equal_part_is_rounded_up(members: int) -> None:
    shares, _, _ = begin(members)
    assert [shares.part(size) for size in (0, 1, 300)] == [0, 1, 300 // members]


def test_of_what_is_suspected_half_is_given_also_to_who_is_alone() -> None:
    shares, (alone,), world = begin(1, PoolSettings(redelivery=Redelivery(limit=3)))
    member = world.pool.members.by_id[alone.member_id]
    suspected = History(is_suspect=True)
    assert [shares.most(available(count, history=suspected), member) for count in (1, 2, 9)] == [1, 1, 5]
    assert shares.most(available(9), member) == 9
