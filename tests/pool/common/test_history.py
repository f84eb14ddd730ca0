"""Redelivery: which records come again, how often that counts, and which the mesh gives up."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.pool.common.effects import Report
from mesh.pool.common.history import UNSENT, Cause, History, Redelivery
from mesh.pool.common.settings import PoolSettings
from mesh.records.decode import decode_records
from mesh.records.spans import Span
from tests.pool.harness import EU, GROUP, Consumer, World, source, value_of

FIVE = Redelivery(limit=5)
GIVEN_UP = "dead letter written"
DEATHS = (Cause.EXPIRED, Cause.AWAY, Cause.REPLACED, Cause.SILENT, Cause.HELD)


def counts(world: World, index: int = 0) -> list[tuple[int, int, int]]:
    """(first, last, count) of records that wait in the backlog, or must be read again."""
    partition = world.pool.partitions[source(index)]
    backlog = [(e.batch.first, e.batch.last, e.history.count) for e in partition.backlog.values()]
    released = [(e.span.first, e.span.last, e.history.count) for e in partition.released.values()]
    return sorted(backlog + released)


def begin(redelivery: Redelivery = FIVE, count: int = 10, replay: int = 1 << 20) -> tuple[World, Consumer]:
    """A member that got some records of one partition, and is about to give them back."""
    world = World(PoolSettings(redelivery=redelivery, replay_budget=replay, linger=1_000.0))
    consumer = world.consumer()
    world.produce(0, count)
    consumer.fetch(partitions=[0], wait=0.0)
    assert len(consumer.received) == count
    return world, consumer


def die(consumer: Consumer) -> None:
    consumer.disconnect()
    consumer.world.advance(3.0)


# The count


@pytest.mark.parametrize("cause", DEATHS)
def test_a_death_counts_for_all_that_was_held(cause: Cause) -> None:
    assert FIVE.after_release(Span(3, 9), UNSENT, False, "m", cause) == [(Span(3, 9), History(1, True, "m", cause))]


def test_a_clean_leave_counts_for_the_first_record_only() -> None:
    first, rest = FIVE.after_release(Span(3, 9), UNSENT, True, "m", Cause.LEFT)
    assert (first[0], first[1].count, rest[0], rest[1].count) == (Span(3, 3), 1, Span(4, 9), 0)
    assert [history.count for _, history in FIVE.after_release(Span(3, 9), UNSENT, False, "m", Cause.LEFT)] == [0]
    assert [history.count for _, history in FIVE.after_release(Span(3, 3), UNSENT, True, "m", Cause.LEFT)] == [1]


@pytest.mark.parametrize("cause", [Cause.SOUGHT, Cause.NEVER_FETCHED, Cause.NO_ROOM])
def test_a_member_that_gives_up_without_having_failed_is_no_sign_of_poison(cause: Cause) -> None:
    assert [history.count for _, history in FIVE.after_release(Span(3, 9), UNSENT, True, "m", cause)] == [0]


@given(st.integers(1, 12), st.integers(0, 20), st.integers(1, 50), st.sampled_from(Cause), st.booleans())
def test_only_one_record_alone_reaches_the_limit(
    limit: int, count: int, length: int, cause: Cause, is_first: bool
) -> None:
    redelivery = Redelivery(limit=limit)
    history = History(count, True)
    if redelivery.has_reached_limit(history) or (
        redelivery.is_suspected(history) and length > 1 and count * 2 >= limit + 2
    ):
        return  # not reachable
    parts = redelivery.after_release(Span(10, 9 + length), history, is_first, "m", cause)
    assert sum(len(span) for span, _ in parts) == length
    for span, after in parts:
        assert after.count in (count, count + 1)
        assert len(span) == 1 or not redelivery.has_reached_limit(after)


def test_members_that_die_one_after_the_other_raise_the_count() -> None:
    world, consumer = begin()
    die(consumer)
    assert counts(world) == [(0, 9, 1)]
    second = world.consumer("second")
    second.fetch(partitions=[0], wait=0.0)
    die(second)
    assert counts(world) == [(0, 9, 2)]
    world.check()


def test_a_replay_to_the_same_member_does_not_count() -> None:
    world, consumer = begin()
    consumer.reset()
    consumer.fetch(partitions=[0], wait=0.0)
    die(consumer)
    assert counts(world) == [(0, 9, 1)]


def test_a_clean_leave_in_a_pool_without_limit_cuts_nothing() -> None:
    world, consumer = begin(Redelivery())
    consumer.leave()
    assert counts(world) == [(0, 9, 0)]


@pytest.mark.parametrize("replay", [0, 1 << 20])
def test_a_clean_leave_cuts_the_first_record_off(replay: int) -> None:
    world, consumer = begin(replay=replay)
    consumer.leave()
    assert counts(world) == [(0, 0, 1), (1, 9, 0)]
    other = world.consumer("other")
    other.fetch(partitions=[0], wait=0.0)
    other.fetch(partitions=[0], wait=0.0)
    assert [value for _, _, value in other.received] == [value_of(source(0), offset) for offset in range(10)]
    world.check()


# Rest


@given(st.integers(0, 200), st.floats(0, 100), st.floats(1, 10), st.floats(0, 1_000))
def test_rest_grows_up_to_its_maximum(count: int, initial: float, multiplier: float, maximum: float) -> None:
    redelivery = Redelivery(initial=initial, multiplier=multiplier, maximum=maximum)
    now, later = redelivery.rest(History(count)), redelivery.rest(History(count + 1))
    assert 0 <= now <= later <= maximum
    assert count or now == 0


def test_what_a_member_died_with_rests_before_it_comes_again() -> None:
    world, consumer = begin(Redelivery(initial=5.0, multiplier=2.0, maximum=60.0))
    other = world.consumer("other")
    die(consumer)
    other.fetch(partitions=[0], wait=30.0)
    world.advance(4.9)
    assert other.is_parked
    world.check()
    world.produce(0, 3)
    assert [value for _, _, value in other.received] == [value_of(source(0), offset) for offset in range(10, 13)]
    other.fetch(partitions=[0], wait=30.0)
    world.advance(0.2)
    assert len(other.received) == 13
    world.check()


def test_what_rests_is_void_when_its_partition_goes_away() -> None:
    world, consumer = begin(Redelivery(initial=5.0))
    world.consumer("other")
    die(consumer)
    world.upstream(lambda pool: pool.intake.lost([source(0)]))
    world.assign(EU)
    world.advance(10.0)
    assert counts(world) == []
    world.check()


# Poison


class Application:
    """Members that die of one record, one after the other."""

    def __init__(self, world: World, poison: bytes, partitions: Sequence[int] = (0,)) -> None:
        self.world = world
        self.partitions = partitions
        self.poison = poison
        self.processed: list[bytes] = []
        self.deaths = 0

    def run(self, fetches: int) -> None:
        consumer = self.world.consumer("member-0")
        for _ in range(fetches):
            consumer.received.clear()
            consumer.fetch(partitions=self.partitions, wait=0.0)
            values = [value for _, _, value in consumer.received]
            if self.poison in values:
                self.deaths += 1
                die(consumer)
                consumer = self.world.consumer(f"member-{self.deaths}")
            else:
                self.processed += values
                consumer.commit({index: consumer.positions[index] for index in self.partitions})
            self.world.check()
            while self.world.dead_letters:
                self.world.write_dead_letter()


@pytest.mark.parametrize("replay", [0, 1 << 20])
@pytest.mark.parametrize("limit", [1, 2, 5])
@pytest.mark.parametrize("bad", [0, 137, 499])
def test_one_bad_record_is_given_up_and_no_other(bad: int, limit: int, replay: int) -> None:
    world = World(
        PoolSettings(redelivery=Redelivery(limit=limit), replay_budget=replay, initial_window=600, linger=1_000.0)
    )
    world.consumer("spare")
    for _ in range(5):
        world.produce(0, 100)
    application = Application(world, value_of(source(0), bad))
    application.run(120)
    good = {value_of(source(0), offset) for offset in range(500)} - {application.poison}
    assert set(application.processed) == good
    assert len(application.processed) == len(good), "and nothing was processed twice"
    assert world.stored[source(0)] == 500
    assert len(world.reports(GIVEN_UP)) == 1
    assert application.deaths <= limit + 9


def test_records_of_other_partitions_are_not_given_up_with_it() -> None:
    """They are held when members die of the bad record, again and again, and are innocent."""
    world = World(PoolSettings(redelivery=FIVE, initial_window=600, linger=1_000.0))
    world.consumer("spare")
    for index in range(4):
        world.produce(index, 37)
        world.produce(index, 1)
    application = Application(world, value_of(source(2), 11), range(4))
    application.run(200)
    good = {value_of(source(index), offset) for index in range(4) for offset in range(38)} - {application.poison}
    assert set(application.processed) == good
    assert len(world.reports(GIVEN_UP)) == 1
    assert set(world.stored.values()) == {38}


def test_what_is_suspected_is_given_alone() -> None:
    world, consumer = begin(Redelivery(limit=2))
    world.produce(0, 10)
    die(consumer)
    second = world.consumer("second")
    second.fetch(partitions=[0], wait=0.0)
    assert [value for _, _, value in second.received] == [value_of(source(0), offset) for offset in range(5)]
    second.fetch(partitions=[0], wait=30.0)
    assert second.is_parked, "the other half is suspected too"
    world.check()
    second.commit({0: second.positions[0]})
    assert len(second.received) == 8, "half of the other half"
    world.check()


def test_a_member_that_holds_something_waits_until_it_is_through() -> None:
    """If it got the next batches instead, the pool would never deliver the suspected records."""
    world, consumer = begin(Redelivery(limit=2))
    busy = world.consumer("busy")
    world.produce(0, 3)
    busy.fetch(partitions=[0], wait=0.0)
    assert len(busy.received) == 3
    die(consumer)
    world.produce(0, 3)
    busy.fetch(partitions=[0], wait=30.0)
    assert busy.is_parked
    world.check()
    busy.commit({0: busy.positions[0]})
    assert [value for _, _, value in busy.received[3:]] == [value_of(source(0), offset) for offset in range(5)]
    world.check()


def test_a_member_that_does_not_ask_for_the_suspected_partition_goes_on() -> None:
    """A consumer with assign() may ask for some partitions only: it cannot get suspected records of others."""
    world, consumer = begin(Redelivery(limit=2))
    die(consumer)
    assert counts(world) == [(0, 9, 1)]
    elsewhere, on_trial = world.consumer("elsewhere"), world.consumer("taster")
    for _ in range(2):
        elsewhere.fetch(partitions=[1], wait=30.0)
        world.produce(1, 3)
        assert not elsewhere.is_parked
        elsewhere.commit({1: elsewhere.positions[1]})
    on_trial.fetch(partitions=[0], wait=0.0)
    assert [value for _, _, value in on_trial.received] == [value_of(source(0), offset) for offset in range(5)]
    world.check()


def test_one_that_stopped_asking_is_not_waited_for_to_taste() -> None:
    world, consumer = begin(Redelivery(limit=2))
    idle, other = world.consumer("idle"), world.consumer("other")
    world.produce(1, 3)
    idle.fetch(partitions=[1], wait=0.0)
    die(consumer)
    idle.fetch(wait=0.0)
    assert len(idle.received) == 3, "it is to taste, once it is through with these"
    idle.commit({1: idle.positions[1]})
    other.fetch(partitions=[0], wait=0.0)
    assert not other.received
    world.advance(2.0)
    for consumer in (idle, other):
        consumer.heartbeat()
    world.advance(4.0)
    other.fetch(partitions=[0], wait=0.0)
    assert len(other.received) == 5
    world.check()


def test_at_a_limit_of_one_nothing_is_given_up_that_was_not_delivered_alone() -> None:
    """Batches of one record each, and a run of such batches: it is not known which record was at fault."""
    world = World(PoolSettings(redelivery=Redelivery(limit=1), linger=1_000.0))
    world.consumer("spare")
    for _ in range(5):
        world.produce(0, 1)
    world.batch_size = 1
    world.produce(0, 5)
    application = Application(world, value_of(source(0), 3))
    application.run(40)
    good = {value_of(source(0), offset) for offset in range(10)} - {application.poison}
    assert set(application.processed) == good
    assert len(world.reports(GIVEN_UP)) == 1
    assert application.deaths == 2


def test_at_a_limit_of_one_a_clean_leave_gives_nothing_up() -> None:
    world, consumer = begin(Redelivery(limit=1))
    consumer.leave()
    assert not world.dead_letters
    other = world.consumer("other")
    other.fetch(partitions=[0], wait=0.0)
    assert [value for _, _, value in other.received] == [value_of(source(0), 0)], "it is suspected, and comes alone"
    world.check()


# Dead letters


def after_release(limit: int = 1) -> World:
    world, consumer = begin(Redelivery(limit=limit), count=1)
    world.consumer("spare")
    for _ in range(limit - 1):
        die(consumer)
        consumer = world.consumer()
        consumer.fetch(partitions=[0], wait=0.0)
    die(consumer)
    return world


def test_a_dead_letter_says_what_it_was_and_how_it_fared() -> None:
    world = after_release(limit=3)
    (letter,) = world.dead_letters
    assert (letter.group, letter.partition) == (GROUP, source(0))
    assert [record.value for record in decode_records(letter.batch)] == [value_of(source(0), 0)]
    assert (letter.history.count, letter.history.cause) == (3, Cause.AWAY)
    assert letter.history.member.startswith("c-")


def test_it_is_settled_when_it_was_written() -> None:
    world = after_release()
    world.check()
    assert not world.stored.get(source(0))
    world.write_dead_letter()
    assert world.stored == {source(0): 1}
    assert len(world.reports(GIVEN_UP)) == 1
    world.check()


def test_one_that_cannot_be_written_stays_and_is_tried_again() -> None:
    world = after_release()
    world.write_dead_letter("no such topic")
    assert not world.stored.get(source(0))
    world.check()
    assert [e.level for e in world.effects if isinstance(e, Report) and "dead letter" in e.event] == ["warning"]
    world.advance(5.0)
    world.write_dead_letter()
    assert world.stored == {source(0): 1}
    assert len(world.reports("dead letter not written; retrying")) == 1
    assert len(world.reports(GIVEN_UP)) == 1


def test_one_whose_partition_went_away_is_the_next_owners() -> None:
    world = after_release()
    world.upstream(lambda pool: pool.intake.lost([source(0)]))
    world.write_dead_letter()
    world.assign(EU)
    world.advance(6.0)
    assert not world.dead_letters
    assert not world.stored.get(source(0))
    world.check()


def restarted(before: World, settings: PoolSettings) -> tuple[World, Consumer]:
    """Another mesh, which knows only the upstream state, and a member that waits."""
    world = World(settings)
    upstream, new = before.upstreams[before.group], world.upstreams[world.group]
    new.stored.update(upstream.stored)
    new.metadata.update(upstream.metadata)
    new.logs.update(upstream.logs)
    consumer = world.consumer()
    consumer.fetch(partitions=[0], wait=100.0)
    return world, consumer


def test_a_restart_goes_on_counting() -> None:
    """A mesh that restarts every day must not begin its count again for a record that kills a member every day."""
    settings = PoolSettings(redelivery=Redelivery(limit=4), linger=1_000.0)
    bad, restarts = value_of(source(0), 3), 0
    world, consumer = restarted(World(), settings)
    while True:
        world.produce(0)
        while consumer.received and bad not in [value for _, _, value in consumer.received]:
            consumer.commit({0: consumer.positions[0]})
            consumer.received.clear()
            consumer.fetch(partitions=[0], wait=0.0)
        if world.dead_letters:
            break
        assert consumer.received, "there is something left to die of"
        die(consumer)
        if world.dead_letters:
            break
        restarts += 1
        world, consumer = restarted(world, settings)
    (letter,) = world.dead_letters
    assert [record.value for record in decode_records(letter.batch)] == [bad]
    assert letter.history.count == 4
    assert restarts >= 4


def test_counts_are_forgotten_with_their_records() -> None:
    world, consumer = begin(count=4)
    die(consumer)
    assert world.upstreams[world.group].metadata[source(0)].startswith("kafka-mesh/3 0 ")
    other = world.consumer("other")
    other.fetch(partitions=[0], wait=0.0)
    other.commit({0: other.positions[0]})
    assert world.upstreams[world.group].metadata[source(0)] == ""


def test_without_a_limit_nothing_is_counted_upstream() -> None:
    world, consumer = begin(Redelivery())
    die(consumer)
    assert not world.upstreams[world.group].metadata.get(source(0))


def test_what_reached_the_limit_before_a_restart_is_given_up_at_once() -> None:
    world = after_release(limit=3)
    assert not world.stored.get(source(0))
    again, consumer = restarted(world, PoolSettings(redelivery=Redelivery(limit=3), linger=1_000.0))
    again.produce(0)
    assert value_of(source(0), 0) not in [value for _, _, value in consumer.received]
    (letter,) = again.dead_letters
    assert (letter.batch.first, letter.batch.last, letter.history.count) == (0, 0, 3)
