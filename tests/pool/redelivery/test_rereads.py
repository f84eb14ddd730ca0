"""Bytes kept for rereads, and records that are read again from upstream."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mesh.apis.answers import Answer
from mesh.pool.common.effects import Gone, Report, RereadUpstream
from mesh.pool.common.settings import PoolSettings
from mesh.pool.redelivery.rereads import CHUNK
from mesh.pool.redelivery.sent_batches import SWEEP
from mesh.pool.state.fetch import FetchResult
from mesh.records.spans import Span
from tests.pool.harness import EU, GROUP, Consumer, World, batch_of, source, value_of


def begin(replay: int, batches: int = 1, count: int = 5, auto_reread: bool = False) -> tuple[World, Consumer]:
    """A member that holds some batches of partition 0."""
    world = World(PoolSettings(replay_budget=replay), auto_reread=auto_reread)
    consumer = world.consumer()
    for _ in range(batches):
        world.produce(0, count)
        consumer.fetch()
    return world, consumer


def rewind(consumer: Consumer, back: int) -> list[tuple[int, int, bytes]]:
    """Seeks back by some records; returns them."""
    expected, consumer.received = consumer.received[-back:], []
    consumer.positions[0] = expected[0][1]
    return expected


def test_bytes_are_kept_within_the_budget_and_the_oldest_go_first() -> None:
    world, consumer = begin(replay=500, batches=10)
    assert 0 < world.pool.serving.sent_batches.size <= 500
    deliveries = list(world.pool.members.by_id[consumer.member_id].windows[source(0)])
    assert deliveries[0].batch is None
    assert len(deliveries[0]) > 5, "runs without bytes are one"
    assert deliveries[-1].batch is not None
    world.check()


def test_what_was_settled_is_let_go_also_behind_an_old_one_that_is_held() -> None:
    world = World()
    slow, quick = world.consumer("slow"), world.consumer("quick")
    slow.fetch(partitions=[0])
    world.produce(0, 1)
    for _ in range(3 * SWEEP):
        quick.fetch(partitions=[1])
        world.produce(1, 1)
        quick.commit()
    sent = world.pool.serving.sent_batches
    assert len(sent._kept) <= 2 * SWEEP
    assert sent.size == sum(size for _, _, size in sent._kept)
    assert world.memory.used == sent.size


def test_beyond_the_budget_a_replay_is_read_again_from_upstream() -> None:
    world, consumer = begin(replay=0)
    expected = rewind(consumer, 5)
    consumer.fetch()
    assert consumer.is_parked
    assert [each.span for each in world.pending_rereads] == [Span(0, 4)]
    world.reread()
    assert consumer.received == expected
    world.check()


@pytest.mark.parametrize("budget", [0, 100, 300])
def test_a_replay_gets_through_however_small_the_budget(budget: int) -> None:
    world, consumer = begin(replay=budget, batches=10, auto_reread=True)
    expected = rewind(consumer, 50)
    for _ in range(20):
        if len(consumer.received) < 50:
            consumer.fetch()
    assert consumer.received == expected
    assert world.pool.serving.sent_batches.size <= budget
    world.check()


@pytest.mark.parametrize("minimum", [1, 100_000])
@pytest.mark.parametrize("maximum", [1, 150, 1 << 20])
def test_nothing_is_left_out_of_a_replay_and_nothing_comes_twice(minimum: int, maximum: int) -> None:
    """Some records have their bytes in memory, some have not, and others' records push bytes out of the budget
    meanwhile."""
    world, consumer = begin(replay=600, batches=6)
    expected = rewind(consumer, 30)
    other = world.consumer("other")
    for number in range(40):
        if not consumer.is_parked:
            if len(consumer.received) >= 30:
                break
            consumer.fetch(partitions=[0], minimum=minimum, maximum=maximum, wait=0.5)
        other.fetch(partitions=[1], wait=0.1)
        world.produce(1, 5)
        while world.pending_rereads:
            world.reread()
        world.advance(0.2)
        assert number < 39
    assert consumer.received == expected
    world.check()


def test_a_replay_in_one_partition_survives_what_is_sent_from_another_in_the_same_answer() -> None:
    """The new batch pushes bytes out of the budget that the answer is about to replay."""
    world, consumer = begin(replay=400, batches=2)
    expected = rewind(consumer, 10)
    world.produce(1, 5)
    consumer.positions = {1: consumer.positions[1], 0: consumer.positions[0]}
    consumer.fetch(partitions=[1, 0])
    consumer.fetch(partitions=[0])
    while world.pending_rereads:
        world.reread()
    assert [each for each in consumer.received if each[0] == 0] == expected
    world.check()


def test_chunks_are_read_again_one_after_the_other() -> None:
    world, consumer = begin(replay=0, count=CHUNK + 10)
    expected = rewind(consumer, CHUNK + 10)
    consumer.fetch()
    assert [each.span for each in world.pending_rereads] == [Span(0, CHUNK - 1)]
    world.reread()
    assert len(consumer.received) == CHUNK
    consumer.fetch()
    assert [each.span for each in world.pending_rereads] == [Span(CHUNK, CHUNK + 9)]
    world.reread()
    assert consumer.received == expected


def test_chunks_of_a_replay_that_waits_for_min_bytes_come_once_each() -> None:
    world, consumer = begin(replay=1 << 20, count=CHUNK + 10)
    expected = rewind(consumer, CHUNK + 10)
    (delivery,) = world.pool.members.by_id[consumer.member_id].windows[source(0)]
    delivery.batch = None
    for _ in range(4):
        if len(consumer.received) < CHUNK + 10:
            consumer.fetch(minimum=1 << 30, maximum=1 << 30, partition_maximum=1 << 30, wait=5.0)
        while world.pending_rereads:
            world.reread()
        world.advance(5.0)
    assert consumer.received == expected


def test_nothing_else_is_sent_while_a_replay_is_read_again() -> None:
    world, consumer = begin(replay=0)
    expected = rewind(consumer, 5)
    consumer.fetch(partitions=[0])
    world.produce(0, 3)
    assert consumer.is_parked
    world.reread()
    assert consumer.received == expected
    consumer.fetch(partitions=[0])
    assert len(consumer.received) == 8


def test_a_commit_while_a_replay_is_read_again_settles_it() -> None:
    world, consumer = begin(replay=0)
    end = consumer.positions[0]
    rewind(consumer, 5)
    consumer.fetch(partitions=[0])
    consumer.commit({0: end - 2})
    world.check()
    world.reread()
    assert [offset for _, offset, _ in consumer.received][-2:] == [end - 2, end - 1]
    assert world.pool.members.by_id[consumer.member_id].in_flight == 2
    world.check()


def test_a_commit_of_all_of_it_lets_the_fetch_take_new_records() -> None:
    world, consumer = begin(replay=0)
    end = consumer.positions[0]
    rewind(consumer, 5)
    consumer.fetch(partitions=[0])
    consumer.commit({0: end})
    world.check()
    world.produce(0, 3)
    assert [offset for _, offset, _ in consumer.received] == [end, end + 1, end + 2]
    world.reread()
    world.check()


def test_a_reread_that_fails_is_tried_again_while_the_client_waits() -> None:
    world, consumer = begin(replay=0)
    expected = rewind(consumer, 5)
    consumer.fetch(wait=30.0)
    world.reread("broker away")
    assert not world.pending_rereads
    world.advance(1.0)
    world.reread()
    assert consumer.received == expected
    assert any(isinstance(e, Report) and e.event == "records not read again" for e in world.effects)


def test_a_reread_that_ends_during_a_rebalance_counts() -> None:
    world, consumer = begin(replay=0)
    consumer.leave()
    world.produce(1, 1)
    other = world.consumer("other")
    world.upstream(lambda pool: pool.intake.revoked([source(0), source(1)]))
    world.reread()
    world.assign(EU, resumed=True)
    other.fetch(partitions=[0])
    assert len(other.received) == 5
    world.check()


def test_an_answer_to_a_reread_that_is_void_is_not_taken_for_the_next_ones() -> None:
    world, consumer = begin(replay=0)
    rewind(consumer, 5)
    consumer.fetch(partitions=[0], wait=30.0)
    world.upstream(lambda pool: pool.intake.lost([source(0)]))
    world.assign(EU)
    world.produce(0)
    before = consumer.received[-5:]
    rewind(consumer, 5)
    consumer.fetch(partitions=[0], wait=30.0)
    first, second = world.pending_rereads
    assert first.span == second.span
    world.upstream(lambda pool: pool.intake.reread(source(0), first.token, (), True, "", 0, world.now))
    assert not consumer.received, "all of it would have been taken for gone"
    world.pending_rereads.pop(0)
    world.reread()
    assert consumer.received == before
    world.check()


def test_what_a_member_gives_up_without_bytes_is_read_again_for_others() -> None:
    world, consumer = begin(replay=0, batches=3)
    other = world.consumer("other")
    other.fetch(partitions=[0], wait=30.0)
    consumer.leave()
    assert [each.span for each in world.pending_rereads] == [Span(0, 14)]
    world.reread()
    assert [value for _, _, value in other.received] == [value for _, _, value in consumer.received]
    world.check()


def test_it_is_read_again_only_while_its_partition_has_room() -> None:
    world = World(PoolSettings(replay_budget=0, partition_budget=300), auto_reread=False)
    consumer, other = world.consumer("a"), world.consumer("b")
    world.produce(0, 5)
    consumer.fetch()
    world.produce(0, 10)
    consumer.leave()
    assert not world.pending_rereads
    other.fetch()
    assert [each.span for each in world.pending_rereads] == [Span(0, 4)]


@pytest.mark.parametrize("gone", [[0], [2, 3], [1, 3], [4], [0, 1, 2, 3, 4], []])
@pytest.mark.parametrize("leaves", [True, False])
def test_spans_that_are_gone_upstream_are_reported_counted_and_skipped(gone: list[int], leaves: bool) -> None:
    world, consumer = begin(replay=0)
    reader = consumer
    if leaves:
        consumer.leave()
        reader = world.consumer("other")
        reader.fetch(partitions=[0], wait=30.0)
    else:
        rewind(consumer, 5)
        consumer.fetch(partitions=[0], wait=30.0)
    world.reread(gone=gone)
    while not reader.is_parked:
        reader.fetch(partitions=[0], wait=30.0)
    left = [value_of(source(0), offset) for offset in range(5) if offset not in gone]
    assert [value for _, _, value in reader.received] == left
    told = [e for e in world.effects if isinstance(e, Gone)]
    assert told == ([Gone(world.pool.group, source(0), Span(0, 4), len(gone), was_read=True)] if gone else [])
    world.check()
    world.produce(0, 2)
    reader.commit({0: reader.positions[0]})
    assert world.stored == {source(0): 7}


def test_the_parts_of_an_answer_are_put_together() -> None:
    world, consumer = begin(replay=0)
    expected = rewind(consumer, 5)
    consumer.fetch()
    (wanted,) = world.pending_rereads
    world.pending_rereads.clear()
    for first, last in ((0, 1), (2, 4)):
        batch = batch_of(source(0), first, last)
        world.upstream(lambda pool: pool.intake.reread(source(0), wanted.token, (batch,), last == 4, "", 0, world.now))  # noqa: B023
    assert consumer.received == expected


def test_what_an_error_left_out_is_asked_for_again() -> None:
    world, consumer = begin(replay=0)
    consumer.leave()
    (wanted,) = world.pending_rereads
    world.pending_rereads.clear()
    other = world.consumer("other")
    other.fetch(partitions=[0], wait=30.0)
    batch = batch_of(source(0), 0, 1)
    world.upstream(
        lambda pool: pool.intake.reread(source(0), wanted.token, (batch,), True, "broker away", 0, world.now)
    )
    assert len(other.received) == 2
    other.fetch(partitions=[0], wait=30.0)
    world.advance(1.0)
    assert [each.span for each in world.pending_rereads] == [Span(2, 4)]
    world.reread()
    assert len(other.received) == 5
    world.check()


def test_a_client_that_comes_and_goes_has_one_reread_under_way() -> None:
    world, consumer = begin(replay=0)
    rewind(consumer, 5)
    for _ in range(5):
        world.reconnect(consumer)
        consumer.fetch(partitions=[0])
    assert len([effect for effect in world.effects if isinstance(effect, RereadUpstream)]) == 1


def test_a_replay_does_not_wait_for_min_bytes() -> None:
    _, consumer = begin(replay=1 << 20)
    expected = rewind(consumer, 5)
    consumer.fetch(minimum=100_000, wait=30.0)
    assert consumer.received == expected


def test_what_was_settled_while_a_reread_rests_is_not_read_again() -> None:
    world, consumer = begin(replay=0)
    end = consumer.positions[0]
    rewind(consumer, 5)
    consumer.fetch(partitions=[0], wait=30.0)
    world.reread("broker away")
    consumer.commit({0: end})
    world.advance(2.0)
    assert not world.pending_rereads
    world.check()


def test_a_replay_that_is_asked_for_during_a_rebalance_is_read_again_after_it() -> None:
    world, consumer = begin(replay=0)
    expected = rewind(consumer, 5)
    world.upstream(lambda pool: pool.intake.revoked([source(0), source(1)]))
    consumer.fetch(partitions=[0], wait=30.0)
    assert not world.pending_rereads
    world.assign(EU, resumed=True)
    world.reread()
    assert consumer.received == expected


def test_spans_that_are_read_again_for_others_do_not_stop_new_ones_for_the_member_that_released_them() -> None:
    world, consumer = begin(replay=0)
    other = world.consumer("other")
    other.fetch(partitions=[3], wait=30.0)
    consumer.positions[0] += 1_000
    consumer.received.clear()
    consumer.fetch(partitions=[0], wait=30.0)
    world.reread()
    assert consumer.is_parked, "they are for the other one first"
    world.check()
    world.produce(0, 2)
    assert [value for _, _, value in consumer.received] == [value_of(source(0), offset) for offset in (5, 6)]


def test_more_is_to_come_while_a_replay_is_read_again() -> None:
    """librdkafka takes a high watermark at its position for the end."""
    world, consumer = begin(replay=0)
    rewind(consumer, 5)
    ticket = consumer.fetch(partitions=[0], wait=0.0)
    (result,) = [e.result for e in world.effects if isinstance(e, Answer) and e.ticket == ticket]
    assert isinstance(result, FetchResult)
    assert result.partitions[0].high_watermark == consumer.positions[0] + 1


def drain_and_serve_again(world: World) -> None:
    world.do(world.cluster.drain_pool(GROUP, 6.0, world.now))
    world.advance(7.0)
    world.do(world.cluster.serve_again(GROUP, world.now))


def leave_and_come_back(world: World) -> None:
    world.do(world.cluster.leave_cluster(EU, 6.0, world.now))
    world.advance(7.0)
    world.do(world.cluster.rejoin_cluster(EU, world.now))


def renew_the_engine(world: World) -> None:
    world.upstream(lambda pool: pool.intake.engine_failed(EU))


@pytest.mark.parametrize("end", [drain_and_serve_again, leave_and_come_back, renew_the_engine])
def test_a_reread_whose_engine_is_gone_holds_up_no_later_one(end: Callable[[World], None]) -> None:
    """Its reread gets no answer; a request to the next engine is a new one."""
    world, first = begin(replay=0, batches=1, count=10)
    second = world.consumer("second")
    second.fetch(partitions=[0])
    first.disconnect()
    world.advance(5.0)
    assert len(world.pending_rereads) == 1
    end(world)
    second.fetch(partitions=[0])
    world.pending_rereads.clear()
    world.ends.clear()
    world.assign(EU)
    world.produce(0)
    assert [value for _, _, value in second.received] == [value_of(source(0), offset) for offset in range(10)]
    third = world.consumer("third")
    third.fetch(partitions=[0], wait=30.0)
    world.auto_reread = True
    second.disconnect()
    world.advance(5.0)
    assert [value for _, _, value in third.received] == [value_of(source(0), offset) for offset in range(10)]
    world.check()
