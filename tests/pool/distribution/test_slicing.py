"""Batches that are damaged on their way do not stop a pool."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mesh.pool.common.effects import Report
from mesh.pool.common.history import History, Redelivery
from mesh.pool.common.settings import PoolSettings
from mesh.records.batch import RecordBatch, seal
from mesh.records.runs import join_runs
from mesh.records.spans import Span
from tests.pool.harness import MAXIMUM, Consumer, World, batch_of, source

WHOLE = "damaged batch delivered whole"


def wrong_checksum(batch: RecordBatch) -> None:
    batch.data[-1] ^= 1


def compressed_rubbish(batch: RecordBatch) -> None:
    data = bytearray(batch.data)
    data[22] |= 4  # attributes: zstd
    data[61:] = bytes(len(data) - 61)
    seal(data)  # damaged before its checksum was made
    batch.data = data


DAMAGES = pytest.mark.parametrize("damage", [wrong_checksum, compressed_rubbish])
Damage = Callable[[RecordBatch], None]


def receive(world: World, first: int, last: int, damage: Damage) -> None:
    world.assign_all()
    partition = source(0)
    world.logs.setdefault(partition, []).append((first, last))
    world.ends[partition] = last + 1
    batch = batch_of(partition, first, last)
    damage(batch)
    world.upstream(lambda pool: pool.intake.received(partition, [batch], world.now))


def begin(settings: PoolSettings | None = None, maximum: int = MAXIMUM) -> tuple[World, Consumer]:
    world = World(settings)
    consumer = world.consumer()
    consumer.fetch(partitions=[0], maximum=maximum)
    return world, consumer


def reports(world: World) -> list[Report]:
    return [each for each in world.effects if isinstance(each, Report) and each.level in ("warning", "error")]


@DAMAGES
def test_one_of_which_a_part_was_settled_before_is_delivered_whole(damage: Damage) -> None:
    world, consumer = begin()
    world.assign_all()
    world.pool.partitions[source(0)].ledger.settle(3, 5)
    receive(world, 0, 9, damage)
    world.produce(0, 5)
    assert world.reports(WHOLE)
    assert [each.event for each in reports(world)] == [WHOLE]
    consumer.fetch(partitions=[0], wait=0.0)
    assert consumer.damaged == 2, "it was sent, and is sent again to who still stands there"
    consumer.commit({0: consumer.positions[0] + 10})  # it seeks past it, as applications must
    world.check()
    assert world.stored[source(0)] == 10


@DAMAGES
def test_one_that_would_be_cut_in_half_goes_on_whole_until_it_is_given_up(damage: Damage) -> None:
    redelivery = Redelivery(limit=4)
    world = World(PoolSettings(redelivery=redelivery, linger=1_000.0))
    world.consumer("spare")
    receive(world, 0, 9, damage)
    for _ in range(4):
        consumer = world.consumer()
        consumer.fetch(partitions=[0], wait=0.0)
        consumer.disconnect()
        world.advance(4.0)
        world.check()
    (letter,) = world.dead_letters
    assert (letter.batch.first, letter.batch.last) == (0, 9)
    world.write_dead_letter()
    assert world.pool.partitions[source(0)].ledger.committable == 10
    assert {each.level for each in reports(world)} == {"warning"}
    world.check()


def read_again(world: World, damage: Damage | None, beyond: int = 0) -> None:
    """The oldest reread ends, with a batch that ends `beyond` the requested span."""
    wanted = world.pending_rereads.pop(0)
    batch = batch_of(wanted.partition, wanted.span.first, wanted.span.last + beyond)
    if damage is not None:
        damage(batch)
    world.upstream(lambda pool: pool.intake.reread(wanted.partition, wanted.token, (batch,), True, "", 0, world.now))


@DAMAGES
def test_one_that_is_read_again_for_anybody_is_delivered_whole(damage: Damage) -> None:
    world = World(PoolSettings(replay_budget=0, linger=1_000.0), auto_reread=False)
    first, second = world.consumer(), world.consumer("second")
    world.produce(0, 10)
    first.fetch(partitions=[0], wait=0.0)
    first.commit({0: first.positions[0] - 5})
    first.leave()
    read_again(world, damage)
    second.fetch(partitions=[0], wait=0.0)
    assert second.damaged == 1
    assert not reports(world), "what is not cut is not looked into"
    world.check()


@DAMAGES
def test_one_of_which_a_part_is_another_members_is_read_until_it_can_be_cut(damage: Damage) -> None:
    world = World(PoolSettings(replay_budget=0, linger=1_000.0), auto_reread=False)
    first, second = world.consumer(), world.consumer("second")
    world.produce(0, 10)
    first.fetch(partitions=[0], wait=0.0)
    first.leave()
    read_again(world, damage, beyond=10)
    assert not world.pool.partitions[source(0)].backlog
    assert "is damaged" in str(reports(world)[0].fields["reason"])
    world.advance(1.0)
    read_again(world, None, beyond=10)
    second.fetch(partitions=[0], wait=0.0)
    assert len(second.received) == 10
    world.check()


@DAMAGES
def test_of_a_run_only_the_damaged_batch_is_kept_whole(damage: Damage) -> None:
    world, consumer = begin(maximum=1)
    world.assign_all()
    partition = source(0)
    world.pool.partitions[partition].ledger.settle(3, 5)
    world.pool.partitions[partition].ledger.settle(12, 13)
    batches = [batch_of(partition, first, first + 9) for first in (0, 10)]
    damage(batches[0])
    (run,) = join_runs(batches)
    world.upstream(lambda pool: pool.intake.received(partition, [run], world.now))
    kept = [entry.batch for entry in world.pool.partitions[partition].backlog.values()]
    assert consumer.damaged == 1
    assert [(batch.first, batch.last) for batch in kept] == [(10, 11), (14, 19)]
    assert len(world.reports(WHOLE)) == 1


@DAMAGES
def test_what_was_given_up_before_it_came_counts_against_the_batch_that_cannot_be_cut(damage: Damage) -> None:
    world, consumer = begin()
    world.assign_all()
    partition = source(0)
    world.pool.partitions[partition].released_unread.note(Span(3, 5), History(1))
    batches = [batch_of(partition, first, first + 9) for first in (0, 10)]
    damage(batches[0])
    world.upstream(lambda pool: pool.intake.received(partition, join_runs(batches), world.now))
    (member,) = world.pool.members
    sent = [(each.first, each.last, each.history.count) for each in member.windows[partition]]
    rest = [
        (each.batch.first, each.batch.last, each.history.count)
        for each in world.pool.partitions[partition].backlog.values()
    ]
    assert sent + rest == [(0, 9, 1), (10, 19, 0)]
    assert consumer.damaged == 1
    world.check()
