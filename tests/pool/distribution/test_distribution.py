"""The member that gets a batch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.apis.answers import Answer
from mesh.pool.common.settings import Policy, PoolSettings
from mesh.pool.distribution.fetch_queue import FEW
from mesh.pool.pool import Pool
from mesh.records.encode import encode_batch
from tests.pool.harness import EU, Consumer, World, batch_of, source, value_of

EVERY_POLICY = pytest.mark.parametrize("policy", Policy)


def world_of(policy: Policy = Policy.LEAST_LOADED, window: int = 1_000) -> World:
    return World(PoolSettings(policy=policy, initial_window=window))


def crowd(world: World, count: int, wait: float = 30.0) -> list[Consumer]:
    consumers = [world.consumer(f"c{number}") for number in range(count)]
    for consumer in consumers:
        consumer.fetch(wait=wait)
    return consumers


def again(consumers: list[Consumer], commit: bool = True) -> None:
    """Members that were answered commit and fetch again."""
    for consumer in consumers:
        if not consumer.is_parked:
            if commit:
                consumer.commit()
            consumer.fetch(wait=30.0)


@EVERY_POLICY
@given(members=st.integers(1, 12), indexes=st.lists(st.integers(0, 3), min_size=1, max_size=40))
def test_equal_members_get_shares_that_differ_by_at_most_one_batch(
    policy: Policy, members: int, indexes: list[int]
) -> None:
    world = world_of(policy)
    consumers = crowd(world, members)
    for index in indexes:
        world.produce(index, 5)
        again(consumers)
    shares = [len(consumer.received) // 5 for consumer in consumers]
    assert sum(shares) == len(indexes)
    assert max(shares) - min(shares) <= 1


@EVERY_POLICY
def test_a_client_with_a_short_max_wait_is_not_starved_by_ones_with_long_ones(policy: Policy) -> None:
    """Its Fetches park again and again, and would always be the last in the queue."""
    world = world_of(policy)
    patient, hasty = crowd(world, 3, wait=9.0), world.consumer("hasty")
    for _ in range(20):
        for _ in range(3):
            if not hasty.is_parked:
                hasty.fetch(wait=0.2)
            world.advance(0.3)
        if not hasty.is_parked:
            hasty.fetch(wait=0.2)
        world.produce(0, 1)
        for consumer in patient:
            if not consumer.is_parked:
                consumer.commit()
                consumer.fetch(wait=9.0)
    shares = [len(consumer.received) for consumer in [*patient, hasty]]
    assert shares[-1] >= min(shares[:-1]) >= 4


def test_round_robin_goes_round() -> None:
    world = world_of(Policy.ROUND_ROBIN)
    consumers = crowd(world, 3)
    order = list[str]()
    for _ in range(6):
        world.produce(0, 1)
        order += [consumer.name for consumer in consumers if not consumer.is_parked]
        again(consumers, commit=False)
    assert order == ["c0", "c1", "c2"] * 2


def test_oldest_first_goes_to_the_member_that_has_asked_for_the_longest_time() -> None:
    world = world_of(Policy.OLDEST_FIRST)
    first, second = crowd(world, 2)
    world.produce(0, 1)
    assert len(first.received) == 1
    third = world.consumer("third")
    third.fetch(wait=30.0)
    first.fetch(wait=30.0)
    for consumer in (second, third, first):
        assert consumer.is_parked
        world.produce(0, 1)
        assert not consumer.is_parked


def test_oldest_first_and_round_robin_differ_when_one_asks_late() -> None:
    for policy, next_one in ((Policy.OLDEST_FIRST, "c1"), (Policy.ROUND_ROBIN, "c0")):
        world = world_of(policy)
        consumers = crowd(world, 2)
        world.produce(0, 1)  # for c0
        world.produce(0, 1)  # for c1, which asks again at once
        for consumer in reversed(consumers):
            consumer.fetch(wait=30.0)
        world.produce(0, 1)
        assert [consumer.name for consumer in consumers if not consumer.is_parked] == [next_one]


def test_least_loaded_passes_over_a_member_that_holds_more_than_is_usual_for_it() -> None:
    world = world_of(window=100)
    behind, quick = crowd(world, 2)
    world.produce(0, 95)
    world.advance(6.0)
    behind.commit({0: behind.positions[0] - 47})
    behind.fetch(wait=30.0, partitions=[0])
    world.do(world.cluster.answer_early(quick.ticket, world.now))
    world.produce(0, 35)
    for consumer in (behind, quick):
        consumer.fetch(wait=30.0)
    assert not world.pool.serving.distribution.window_limits.is_full(world.pool.members.by_id[behind.member_id])
    for _ in range(3):
        world.produce(1, 2)
        again([quick])
    assert (len(behind.received), len(quick.received)) == (130, 6)


def test_a_slow_member_never_holds_back_others() -> None:
    world = world_of(window=20)
    slow, quick = crowd(world, 2)
    for _ in range(50):
        world.produce(0, 10)
        again([quick])
    assert len(slow.received) <= 20 + 10
    assert len(slow.received) + len(quick.received) == 500
    world.check()


def test_a_member_over_its_cap_is_passed_over_while_one_under_it_waits() -> None:
    world = world_of(window=10)
    full, other = crowd(world, 2)
    world.produce(0, 10)
    world.produce(0, 10)
    assert (len(full.received), len(other.received)) == (10, 10)
    other.commit()
    full.fetch(wait=30.0)
    other.fetch(wait=30.0)
    world.produce(0, 5)
    assert full.is_parked
    assert not other.is_parked


def test_the_cap_doubles_when_it_asked_with_a_full_window_for_a_second_and_nobody_under_the_cap_waits() -> None:
    world = world_of(window=10)
    first, _ = crowd(world, 2)
    for _ in range(3):
        world.produce(0, 10)
    first.fetch(wait=30.0)
    assert len(first.received) == 10
    world.advance(1.0)
    assert len(first.received) == 20
    world.check()


def test_the_cap_doubles_too_for_a_fetch_that_fills_the_window_and_waits_for_min_bytes() -> None:
    world = world_of(window=10)
    first, second = world.consumer("first"), world.consumer("second")
    second.fetch(wait=30.0, partitions=[3])
    first.fetch(wait=30.0, partitions=[0], minimum=1_000)
    for _ in range(6):
        world.produce(0, 10)
    assert world.pool.members.by_id[first.member_id].in_flight == 10
    world.advance(5.0)
    assert world.pool.members.by_id[first.member_id].in_flight > 10
    world.check()


def test_the_cap_doubles_after_five_seconds_in_any_case() -> None:
    """A client that commits every 1,000 records must not starve at 500."""
    world = world_of(window=10)
    first, other = crowd(world, 2)
    world.produce(0, 10)
    world.advance(5.0)
    first.commit()
    member = world.pool.members.by_id[first.member_id]
    while member.in_flight < member.flow.cap:
        first.fetch(wait=30.0, partitions=[0])
        world.produce(0, 10)
    first.fetch(wait=30.0, partitions=[0])
    other.commit()
    other.fetch(wait=30.0, partitions=[3])
    cap = member.flow.cap
    world.advance(4.9)
    assert member.flow.cap == cap
    world.advance(0.2)
    assert member.flow.cap == 2 * cap


def test_what_comes_together_is_shared_out_as_a_whole() -> None:
    """Each member gets whole runs of some partitions in one answer, not a part of each in many."""
    world = world_of()
    consumers = crowd(world, 2)
    world.produce_together(dict.fromkeys(range(4), 100), 10)
    assert [len(consumer.received) for consumer in consumers] == [200, 200]
    assert [len({partition for partition, _, _ in consumer.received}) for consumer in consumers] == [2, 2]


def test_a_run_that_is_more_than_an_equal_part_is_cut() -> None:
    world = world_of()
    consumers = crowd(world, 4)
    world.produce_together({0: 400}, 10)
    assert [len(consumer.received) for consumer in consumers] == [100] * 4


def test_a_waiting_member_has_an_equal_part_and_those_at_work_have_theirs_when_they_ask() -> None:
    world = world_of()
    consumers = [world.consumer(f"c{number}") for number in range(4)]
    for consumer in consumers:
        consumer.fetch(wait=0.0)
    consumers[0].fetch()
    world.produce_together(dict.fromkeys(range(4), 100), 10)
    assert len(consumers[0].received) == 100
    assert sum(partition.backlog_offsets for partition in world.pool.partitions.values()) == 300


def test_equal_parts_are_parts_of_the_records_and_not_of_their_bytes() -> None:
    """Batches of different producers: the same number of bytes has a few records, or many if they are compressed."""
    world = world_of()
    consumers = crowd(world, 2)
    world.assign_all()
    small = [(offset, 0, None, b"", None) for offset in range(100)]
    large = [(offset, 0, None, bytes(1_000), None) for offset in range(100)]

    def tell(pool: Pool) -> None:
        for index, records in enumerate((large, small, small, large)):
            pool.intake.received(source(index), [encode_batch(0, records)], world.now)

    world.upstream(tell)
    assert [
        sum(member.in_flight for member in world.pool.members if member.id == each.member_id) for each in consumers
    ] == [200] * 2


def test_a_complete_fetch_is_answered_when_the_step_ends_and_not_before() -> None:
    world = world_of()
    consumer, other = crowd(world, 2)
    answers = sum(isinstance(effect, Answer) for effect in world.effects)
    world.produce_together({0: 10, 1: 100}, 10)
    assert sum(isinstance(effect, Answer) for effect in world.effects) == answers + 2
    assert sorted(len(each.received) for each in (consumer, other)) == [50, 60]


def test_one_that_waits_for_more_bytes_goes_on_waiting() -> None:
    world = world_of()
    consumer = world.consumer()
    consumer.fetch(minimum=10_000)
    world.produce_together({0: 10, 1: 10}, 10)
    assert consumer.is_parked
    world.produce_together({0: 400}, 10)
    assert len(consumer.received) == 420


def test_a_sole_consumer_runs_at_full_rate_before_any_commit() -> None:
    world = world_of(window=10)
    (sole,) = crowd(world, 1)
    for _ in range(100):
        world.produce(0, 10)
        again([sole], commit=False)
    assert len(sole.received) == 1_000


def test_a_member_that_was_alone_is_held_to_its_cap_as_soon_as_another_asks() -> None:
    world = world_of(window=10)
    (sole,) = crowd(world, 1)
    for _ in range(5):
        world.produce(0, 10)
        again([sole], commit=False)
    other = world.consumer("other")
    other.fetch(wait=30.0)
    world.check()
    world.produce(0, 5)
    assert (len(sole.received), len(other.received)) == (50, 5)


def test_a_member_that_is_alone_again_takes_what_is_there() -> None:
    world = world_of(window=10)
    first, second = crowd(world, 2)
    for _ in range(4):
        world.produce(0, 10)
    first.fetch(wait=30.0)
    assert len(first.received) == 10
    second.leave()
    assert len(first.received) == 30
    world.check()


def test_a_commit_offers_the_backlog_again_in_the_same_step() -> None:
    world = world_of(window=10)
    first, second = crowd(world, 2)
    for _ in range(4):
        world.produce(0, 10)
    first.fetch(wait=30.0)
    assert first.is_parked
    first.commit()
    assert not first.is_parked
    assert second.received
    world.check()


def test_batches_are_cut_only_when_a_whole_one_does_not_fit_the_cap() -> None:
    world = world_of(window=10)
    first, second = crowd(world, 2)
    world.produce(0, 10)
    world.produce(0, 25)
    assert (len(first.received), len(second.received)) == (10, 10)
    world.advance(1.0)
    first.commit()
    first.fetch()
    assert len(first.received) == 10 + 15
    world.check()


def test_a_cut_that_leaves_no_record_on_one_side_settles_it() -> None:
    """A batch of which compaction has left only the first record and the last."""
    world = world_of(window=10)
    first, second = crowd(world, 2)
    world.assign_all()
    records = [(offset, 0, None, value_of(source(0), offset), None) for offset in (0, 39)]
    world.upstream(lambda pool: pool.intake.received(source(0), [encode_batch(0, records)], world.now))
    world.check()
    assert [value for consumer in (first, second) for _, _, value in consumer.received] == [
        value_of(source(0), 0),
        value_of(source(0), 39),
    ]
    ledger = world.pool.partitions[source(0)].ledger
    assert sum(map(len, ledger.unsettled(ledger.committable, ledger.received - 1))) <= 20


@pytest.mark.parametrize("count", [FEW, FEW + 1, 40])
@EVERY_POLICY
def test_many_waiters_are_served_as_few_are(policy: Policy, count: int) -> None:
    world = world_of(policy)
    consumers = crowd(world, count)
    for number in range(2 * count):
        world.produce(number % 4, 1)
        again(consumers)
    assert {len(consumer.received) for consumer in consumers} == {2}
    world.check()


def test_a_batch_for_a_thousand_waiters_looks_at_one_or_two_of_them() -> None:
    world = world_of()
    consumers = crowd(world, 1_000)
    world.produce(0, 1)
    again(consumers)
    room = world.pool.serving.distribution._queue._ranks
    looked = list[object]()

    class Watched:
        def __init__(self, waiting: object) -> None:
            self.waiting = waiting

        def __len__(self) -> int:
            return len(self.waiting)  # type: ignore[arg-type]

        def __contains__(self, fetch: object) -> bool:
            looked.append(fetch)
            return fetch in self.waiting  # type: ignore[operator]

    partition = next(iter(world.pool.partitions.values()))
    partition.waiting = Watched(partition.waiting)  # type: ignore[assignment]
    best = world.pool.serving.distribution._queue.best(partition)
    assert len(looked) == 1
    assert best is room.at(0)


def test_a_fetch_that_waits_for_another_partition_is_not_chosen_however_long_it_waits() -> None:
    world = world_of()
    others = [world.consumer(f"o{number}") for number in range(2 * FEW)]
    for consumer in others:
        consumer.fetch(wait=30.0, partitions=[1])
    wanted = [world.consumer(f"w{number}") for number in range(2 * FEW)]
    for consumer in wanted:
        consumer.fetch(wait=30.0, partitions=[0])
    world.produce(0, 1)
    assert not any(consumer.received for consumer in others)
    assert sum(len(consumer.received) for consumer in wanted) == 1


def test_a_partition_that_comes_back_is_shared_by_all_waiting_members() -> None:
    world = world_of()
    first, second = crowd(world, 2)
    world.produce(0, 1)
    again([first, second])
    world.upstream(lambda pool: pool.intake.revoked([source(0), source(1)]))
    world.produce(0, 2)
    world.produce(0, 2)
    assert len(first.received) + len(second.received) == 1
    world.assign(EU, resumed=True)
    assert sorted([len(first.received), len(second.received)]) == [2, 3]
    world.check()


def test_a_fetch_of_a_member_that_another_of_its_fetches_has_filled_does_not_wait() -> None:
    world = world_of(window=10)
    member, other = world.consumer("member"), world.consumer("other")
    other.fetch(partitions=[1], wait=30.0)
    member.fetch(partitions=[0], minimum=100_000, wait=30.0)
    world.reconnect(member)
    member.fetch(partitions=[1], wait=30.0)
    world.produce(0, 10)
    for _ in range(3):
        world.produce(1, 1)
        if not other.is_parked:
            other.fetch(partitions=[1], wait=30.0)
    assert len(other.received) == 3
    assert not member.received
    world.check()


def test_the_end_of_a_batch_that_holds_no_record_is_settled_when_it_is_cut_off() -> None:
    world = world_of(window=10)
    first, _ = crowd(world, 2)
    batch = batch_of(source(0), 0, 4)
    batch.last = 39
    world.assign_all()
    world.upstream(lambda pool: pool.intake.received(source(0), [batch], world.now))
    world.check()
    first.commit({0: first.positions[0]})
    assert world.stored == {source(0): 40}
