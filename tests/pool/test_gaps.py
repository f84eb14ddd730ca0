"""Offsets that compaction emptied at the end of a batch: a client commits what it has processed, and no further."""

from __future__ import annotations

import pytest

from mesh.pool.common.history import Redelivery
from mesh.pool.common.settings import PoolSettings
from mesh.pool.offsets.commits import PASS_AFTER
from mesh.records.batch import RecordBatch, seal
from mesh.records.decode import decode_records
from mesh.records.encode import encode_batch
from mesh.records.runs import join_runs
from mesh.records.spans import CommitPosition
from tests.pool.harness import Consumer, World, source, value_of


def emptied(first: int, last: int, *offsets: int) -> RecordBatch:
    """A batch after compaction: with these records, and with its original end."""
    batch = encode_batch(first, [(offset, 0, None, value_of(source(0), offset), None) for offset in offsets])
    data = bytearray(batch.data)
    data[23:27] = (last - first).to_bytes(4, "big")
    seal(data)
    return RecordBatch(data, first, first, last, len(offsets))


def receive(world: World, *batches: RecordBatch) -> None:
    """The log holds the existing records: the mesh finds out by itself what the offsets between them are."""
    world.assign_all()
    offsets = [record.offset for batch in batches for record in decode_records(batch)]
    world.logs.setdefault(source(0), []).extend((offset, offset) for offset in offsets)
    world.ends[source(0)] = batches[-1].last + 1
    world.upstream(lambda pool: pool.intake.received(source(0), join_runs(batches), world.now))


def commit_what_was_processed(consumer: Consumer) -> None:
    """Commits as librdkafka does: behind the last record, not behind the last offset of its batch."""
    consumer.commit({0: consumer.received[-1][1] + 1})


def begin(settings: PoolSettings | None = None) -> tuple[World, Consumer]:
    world = World(settings)
    consumer = world.consumer()
    consumer.fetch(partitions=[0], minimum=100_000)
    return world, consumer


def given(world: World, consumer: Consumer) -> None:
    world.do(world.cluster.answer_early(consumer.ticket, world.now))


@pytest.mark.parametrize("replay", [0, 1 << 20])
def test_a_member_that_has_committed_all_records_of_a_batch_holds_nothing_of_it(replay: int) -> None:
    world, consumer = begin(PoolSettings(replay_budget=replay))
    receive(world, emptied(0, 9, 0, 1, 5))
    given(world, consumer)
    consumer.commit({0: consumer.received[1][1] + 1})
    assert world.stored == {source(0): 2}
    commit_what_was_processed(consumer)
    assert world.stored == {source(0): 10}
    assert world.pool.members.by_id[consumer.member_id].in_flight == 0
    world.check()


@pytest.mark.parametrize("replay", [0, 1 << 20])
def test_behind_a_gap_in_a_run_there_are_more_records(replay: int) -> None:
    world, consumer = begin(PoolSettings(replay_budget=replay))
    receive(world, emptied(0, 9, 0, 5), emptied(10, 14, 11), emptied(15, 19, 15))
    given(world, consumer)
    consumer.commit({0: consumer.received[1][1] + 1})
    assert world.stored == {source(0): 6}
    commit_what_was_processed(consumer)
    assert world.stored == {source(0): 20}
    assert world.pool.members.by_id[consumer.member_id].in_flight == 0
    world.check()


@pytest.mark.parametrize("replay", [0, 1 << 20])
def test_what_was_read_again_ends_in_its_gap_as_well(replay: int) -> None:
    world, first = begin(PoolSettings(replay_budget=replay))
    receive(world, emptied(0, 9, 0, 1, 2))
    given(world, first)
    first.commit({0: first.received[0][1] + 1})
    first.leave()
    second = world.consumer("second")
    second.fetch(partitions=[0], wait=0.0)
    assert second.received
    commit_what_was_processed(second)
    assert world.pool.members.by_id[second.member_id].in_flight == 0
    world.check()


@pytest.mark.parametrize("replay", [0, 1 << 20])
def test_a_taster_does_not_wait_for_offsets_that_hold_nothing(replay: int) -> None:
    """Its records of another partition end in a gap, and so does each half of the suspected ones that it gets."""
    world, first = begin(PoolSettings(redelivery=Redelivery(limit=2), replay_budget=replay, linger=1_000.0))
    world.auto_reread = False
    receive(world, emptied(0, 9, 0, 1, 2, 8))
    given(world, first)
    first.disconnect()
    world.advance(3.0)
    on_trial = world.consumer("taster")
    for _ in range(8):
        while world.pending_rereads:
            wanted = world.pending_rereads.pop(0)
            again = emptied(0, 9, 0, 1, 2, 8)
            world.upstream(
                lambda pool, wanted=wanted, again=again: pool.intake.reread(
                    source(0), wanted.token, (again,), True, "", 0, world.now
                )
            )
        on_trial.fetch(partitions=[0], wait=0.0)
        commit_what_was_processed(on_trial)
        world.check()
    assert [value for _, _, value in on_trial.received] == [value_of(source(0), offset) for offset in (0, 1, 2, 8)]
    assert world.stored == {source(0): 10}


@pytest.mark.parametrize("behind", [(), (emptied(10, 14, 11),)], ids=["alone", "in a run"])
def test_a_group_that_goes_on_in_a_gap_holds_nothing_of_it(behind: tuple[RecordBatch, ...]) -> None:
    """The upstream commit is behind the last record of a batch, and a broker returns the whole batch. A member that
    gets the rest as suspected records would wait for ever: its client has nothing to commit."""
    world, consumer = begin(PoolSettings(redelivery=Redelivery(limit=2)))
    world.upstreams[world.group].store({source(0): CommitPosition(6)})
    batch = emptied(0, 9, 0, 1, 5)
    batch.first = 6
    receive(world, batch, *behind)
    given(world, consumer)
    assert [value for _, _, value in consumer.received] == [value_of(source(0), 11)] * len(behind)
    assert world.pool.members.by_id[consumer.member_id].in_flight == 5 * len(behind)
    if behind:
        commit_what_was_processed(consumer)
    world.advance(PASS_AFTER)
    assert world.stored == {source(0): 15 if behind else 10}
    world.check()
