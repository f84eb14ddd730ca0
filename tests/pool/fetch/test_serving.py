"""Fetch: when a parked Fetch is answered, the records that it collected, and where they go."""

from __future__ import annotations

import pytest

from mesh.apis.answers import Answer
from mesh.pool.common.settings import PoolSettings
from mesh.pool.state.fetch import Delivered, FetchedPartition, FetchParameters, FetchResult, RequestedPartition
from mesh.records.spans import TopicName
from mesh.wire.errors import ErrorCode
from tests.pool.harness import EU, MAXIMUM, ORDERS, Consumer, World, source


def ask(
    consumer: Consumer, partitions: list[RequestedPartition], wait: float = 0.5
) -> tuple[FetchedPartition, ...] | None:
    """Sends a Fetch as it is; returns its answer if there is one at once."""
    world, ticket = consumer.world, object()
    request = FetchParameters(partitions, 1, MAXIMUM, wait)
    effects = world.cluster.fetch(consumer.fetching, consumer.name, ticket, request, world.now)
    world.note(effects)
    for effect in effects:
        if isinstance(effect, Answer):
            assert isinstance(effect.result, FetchResult)
            return effect.result.partitions
    return None


def at(consumer: Consumer, index: int, topic: TopicName | None = ORDERS) -> RequestedPartition:
    return RequestedPartition(topic, index, consumer.positions.get(index, 0), MAXIMUM)


def test_it_is_parked_until_records_come() -> None:
    world = World()
    consumer = world.consumer()
    consumer.fetch()
    assert consumer.is_parked
    world.produce(0, 3)
    assert not consumer.is_parked
    assert len(consumer.received) == 3


def test_it_is_answered_with_nothing_at_max_wait() -> None:
    world = World()
    consumer = world.consumer()
    consumer.fetch(wait=0.5)
    world.advance(0.49)
    assert consumer.is_parked
    world.advance(0.02)
    assert not consumer.is_parked


def test_one_that_may_not_wait_is_answered_at_once() -> None:
    consumer = World().consumer()
    consumer.fetch(wait=0.0)
    assert not consumer.is_parked


def test_it_collects_until_it_has_min_bytes() -> None:
    world = World()
    consumer = world.consumer()
    consumer.fetch(minimum=250)
    world.produce(0, 1)
    world.produce(1, 1)
    assert consumer.is_parked
    world.produce(2, 10)
    assert len(consumer.received) == 12


def test_what_it_has_collected_is_sent_at_max_wait_even_below_min_bytes() -> None:
    world = World()
    consumer = world.consumer()
    consumer.fetch(minimum=100_000, wait=0.5)
    world.produce(0, 3)
    world.advance(0.5)
    assert len(consumer.received) == 3


@pytest.mark.parametrize("limit", ["max_bytes", "partition_max_bytes"])
def test_it_is_answered_when_it_can_take_no_more(limit: str) -> None:
    world = World()
    consumer = world.consumer()
    maximum, partition_maximum = (150, MAXIMUM) if limit == "max_bytes" else (MAXIMUM, 150)
    consumer.fetch(minimum=100_000, maximum=maximum, partition_maximum=partition_maximum)
    world.produce(0, 1)
    assert consumer.is_parked
    world.produce(0, 10)
    assert not consumer.is_parked
    assert len(consumer.received) == 1
    world.check()


def test_the_limit_of_one_partition_leaves_room_for_others() -> None:
    world = World()
    consumer = world.consumer()
    world.produce(0, 5)
    world.produce(0, 5)
    world.produce(1, 5)
    consumer.fetch(partition_maximum=200)
    assert [partition for partition, _, _ in consumer.received] == [0] * 5 + [1] * 5


def test_a_first_batch_above_the_limits_is_sent_all_the_same() -> None:
    world = World()
    consumer = world.consumer()
    world.produce(0, 10)
    world.produce(0, 10)
    consumer.fetch(maximum=1, partition_maximum=1)
    assert len(consumer.received) == 10


def test_a_backlog_is_handed_out_at_once() -> None:
    world = World()
    consumer = world.consumer()
    for _ in range(20):
        world.produce(0, 10)
    consumer.fetch()
    assert len(consumer.received) == 200


def test_it_is_answered_early_when_another_request_waits_behind_it() -> None:
    world = World()
    consumer, other = world.consumer(), world.consumer("other")
    consumer.fetch(wait=5.0, minimum=100_000, partitions=[0])
    other.fetch(wait=5.0, partitions=[1])
    world.produce(0, 3)
    world.do(world.cluster.answer_early(consumer.ticket, world.now))
    assert len(consumer.received) == 3
    assert other.is_parked
    world.do(world.cluster.answer_early("nothing of that name waits", world.now))


def test_a_waiting_fetch_is_hurried_in_one_look_however_many_pools_there_are() -> None:
    world = World()
    consumer = world.consumer()
    consumer.fetch()
    looked = []

    class Watched(dict):  # type: ignore[type-arg]
        def values(self):  # type: ignore[no-untyped-def]
            looked.append(1)
            return super().values()

    world.cluster._pools.by_group = Watched(world.cluster.pools)
    world.do(world.cluster.answer_early(consumer.ticket, world.now))
    assert not consumer.is_parked
    assert not looked


def test_what_a_dead_connection_had_collected_goes_back_to_the_front() -> None:
    world = World()
    consumer, other = world.consumer(), world.consumer("other")
    consumer.fetch(minimum=100_000, wait=5.0)
    world.produce(0, 3)
    world.produce(0, 3)
    world.disconnect(consumer.fetching)
    world.check()
    world.produce(0, 3)
    other.fetch()
    values = [value for _, _, value in other.received]
    assert values == [f"{source(0)}@{offset}".encode() for offset in range(9)]


def test_a_newer_connection_takes_a_partition_over() -> None:
    """A (slot, partition) is served on one connection at a time, the newest."""
    world = World()
    consumer = world.consumer()
    consumer.fetch(minimum=100_000, wait=30.0)
    world.produce(0, 3)
    older = consumer.ticket
    world.reconnect(consumer)
    answered = len(world.effects)
    consumer.fetch(wait=5.0)
    (result,) = [e.result for e in world.effects[answered:] if isinstance(e, Answer) and e.ticket == older]
    assert isinstance(result, FetchResult)
    assert not any(partition.records for partition in result.partitions)
    assert len(consumer.received) == 3
    world.check()


def test_the_high_watermark_is_the_last_offset_plus_one_with_data_and_the_offset_asked_for_without() -> None:
    world = World()
    consumer = world.consumer()
    world.produce(0, 3)
    start = dict(consumer.positions)
    answer = ask(consumer, [at(consumer, 0), at(consumer, 1)])
    assert answer is not None
    assert (answer[0].high_watermark, answer[1].high_watermark) == (start[0] + 3, start[1])
    assert answer[1].records == ()


def test_it_is_one_more_while_there_is_a_backlog_that_this_member_may_not_take() -> None:
    world = World(PoolSettings(initial_window=3))
    consumer, other = world.consumer(), world.consumer("other")
    other.fetch(wait=0.1)
    world.advance(0.2)
    consumer.fetch(partitions=[0], wait=0.1)
    world.produce(0, 5)
    world.produce(0, 5)
    answer = ask(consumer, [at(consumer, 0)], wait=0.0)
    assert answer == (FetchedPartition(ErrorCode.NONE, consumer.positions[0] + 1),)


def more_is_to_come(consumer: Consumer, index: int = 0) -> bool:
    """True if an empty answer promises more: librdkafka takes a high watermark at its position for the end."""
    answer = ask(consumer, [at(consumer, index)], wait=0.0)
    assert answer is not None
    assert not answer[0].records
    return answer[0].high_watermark > consumer.positions[index]


def test_it_is_one_more_until_the_group_upstream_has_told_whose_the_partition_is() -> None:
    world = World(assigned=False)
    consumer = world.consumer()
    assert more_is_to_come(consumer)
    world.assign(EU)
    assert not more_is_to_come(consumer)
    assert more_is_to_come(consumer, 2), "the other cluster has told nothing yet"


def test_it_is_the_offset_asked_for_where_another_process_has_the_partition() -> None:
    """Even if no Fetch had asked for it when the group reported it."""
    world = World(assigned=False)
    consumer = world.consumer()
    assert more_is_to_come(consumer)
    world.assign(EU, indexes=[0])
    assert not more_is_to_come(consumer, 1)


def test_it_is_one_more_while_a_rebalance_upstream_has_taken_the_partition() -> None:
    world = World()
    consumer = world.consumer()
    consumer.fetch(wait=0.0)
    world.assign_all()
    world.upstream(lambda pool: pool.intake.revoked([source(0)]))
    assert more_is_to_come(consumer)
    world.assign(EU, resumed=True)
    assert not more_is_to_come(consumer)


def test_it_is_one_more_until_the_upstream_log_was_read_to_its_end() -> None:
    world = World()
    consumer = world.consumer()
    world.produce(0, 3)
    consumer.fetch()
    world.upstream(lambda pool: pool.intake.ends_known({source(0): 5}))
    assert more_is_to_come(consumer)
    world.upstream(lambda pool: pool.intake.reached_end(source(0), 5))
    assert not more_is_to_come(consumer), "what was behind it has no records"


def test_unknown_topics_and_partitions_are_told_at_once_with_high_watermark_minus_1() -> None:
    world = World()
    consumer = world.consumer()
    answer = ask(
        consumer, [at(consumer, 0), at(consumer, 0, TopicName("nothing")), at(consumer, 9), at(consumer, 1, None)]
    )
    assert answer is not None
    assert [each.error for each in answer] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]
    assert [each.high_watermark for each in answer[1:]] == [-1, -1, -1]


def test_records_are_sent_beside_an_error() -> None:
    world = World()
    consumer = world.consumer()
    world.produce(0, 3)
    answer = ask(consumer, [at(consumer, 9), at(consumer, 0)])
    assert answer is not None
    assert len(answer[1].records) == 1


def test_a_partition_that_is_named_twice_is_served_once() -> None:
    world = World()
    consumer = world.consumer()
    world.produce(0, 3)
    answer = ask(consumer, [at(consumer, 0), at(consumer, 0)])
    assert answer is not None
    assert [each.error for each in answer] == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert len(answer[0].records) == 1
    world.check()


def test_the_bytes_that_are_counted_are_those_of_the_answer() -> None:
    world = World()
    consumer = world.consumer()
    world.produce(0, 3)
    world.produce(1, 2)
    ticket = consumer.fetch()
    (result,) = [e.result for e in world.effects if isinstance(e, Answer) and e.ticket == ticket]
    assert isinstance(result, FetchResult)
    assert result.delivered is not None
    size = sum(len(data) for partition in result.partitions for data in partition.records)
    assert result.delivered.topics == {ORDERS: (5, size)}
    assert result.delivered.redelivered == 0


def test_what_a_client_gives_back_and_takes_again_is_not_new() -> None:
    """It may repeat this as often as it likes, and each time costs the same: quotas must count it."""
    world = World()
    consumer = world.consumer()
    world.produce(0, 3)

    def fetched() -> Delivered:
        ticket = consumer.fetch(partitions=[0])
        (result,) = [e.result for e in world.effects if isinstance(e, Answer) and e.ticket == ticket]
        assert isinstance(result, FetchResult)
        assert result.delivered is not None
        return result.delivered

    assert fetched().is_new
    consumer.positions[0] = world.cluster.list_offset(-1)
    again = fetched()
    assert (again.redelivered, again.is_new) == (3, False)


def test_the_bytes_of_a_redelivery_are_its_own() -> None:
    """The first bytes may still be in the send buffer of another connection, under other offsets."""
    world = World()
    first, second = world.consumer(), world.consumer("second")
    world.produce(0, 3)
    ticket = first.fetch()
    (before,) = [e.result for e in world.effects if isinstance(e, Answer) and e.ticket == ticket]
    assert isinstance(before, FetchResult)
    sent = before.partitions[0].records[0]
    as_sent = bytes(sent)
    first.leave()
    ticket = second.fetch()
    (after,) = [e.result for e in world.effects if isinstance(e, Answer) and e.ticket == ticket]
    assert isinstance(after, FetchResult)
    assert after.partitions[0].records[0] is not sent
    assert bytes(sent) == as_sent
    assert after.delivered is not None
    assert after.delivered.redelivered == 3


def test_before_a_sequence_ends_the_member_moves_to_a_new_slot() -> None:
    world = World()
    consumer = world.consumer()
    member = next(iter(world.pool.members.by_id.values()))
    consumer.fetch(wait=0.0)
    window = member.windows[source(0)]
    window.move((member.slot + 1 << 32) - 6)
    consumer.positions[0] = window.end
    world.produce(0, 3)
    consumer.fetch()
    world.produce(0, 3)
    consumer.fetch()
    offsets = [offset for _, offset, _ in consumer.received]
    assert [offset >> 32 for offset in offsets] == [member.slot] * 3 + [max(member.slots)] * 3
    assert all(offset & 0xFFFFFFFF != 0xFFFFFFFF for offset in offsets)
    commit = consumer.commit()
    assert set(world.answers[commit].errors.values()) == {ErrorCode.NONE}  # type: ignore[attr-defined]
    assert member.in_flight == 0


def test_a_step_that_takes_a_fetch_back_offers_the_backlog_to_the_other_fetches_of_its_member() -> None:
    """The first Fetch fills the window; the second one of the same member waits for room."""
    world = World(PoolSettings(initial_window=3))
    consumer, other = world.consumer(), world.consumer("other")
    other.fetch(partitions=[3], wait=30.0)
    consumer.fetch(partitions=[0], minimum=100_000, wait=30.0)
    world.produce(0, 5)
    first = consumer.fetching
    world.reconnect(consumer)
    consumer.fetch(partitions=[1], wait=30.0)
    world.produce(1, 5)
    assert consumer.is_parked
    world.disconnect(first)
    assert [partition for partition, _, _ in consumer.received] == [1] * 3
    world.check()
