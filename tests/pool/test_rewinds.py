"""Positions of a client: below its window, inside it, at its end, above it; and how the mesh recognizes the client."""

from __future__ import annotations

import pytest

from mesh.apis.answers import Answer
from mesh.pool.common.results import CommitResult
from mesh.pool.common.settings import PoolSettings
from mesh.pool.state.member import Member
from mesh.wire.errors import ErrorCode
from tests.pool.harness import GROUP, Consumer, World, source


def offsets(consumer: Consumer, partition: int = 0) -> list[int]:
    return [offset for where, offset, _ in consumer.received if where == partition]


def values(consumer: Consumer) -> list[bytes]:
    return [value for _, _, value in consumer.received]


def member_of(world: World, consumer: Consumer) -> Member:
    return world.pool.members.by_id[consumer.member_id]


def test_a_fetch_at_the_end_of_its_window_gets_what_is_new() -> None:
    world = World()
    consumer = world.consumer()
    world.produce(0, 3)
    consumer.fetch()
    world.produce(0, 3)
    consumer.fetch()
    assert offsets(consumer) == list(range(offsets(consumer)[0], offsets(consumer)[0] + 6))


@pytest.mark.parametrize("back", [1, 3, 4, 6])
def test_a_fetch_inside_its_window_gets_the_same_records_at_the_same_offsets(back: int) -> None:
    world = World()
    consumer = world.consumer()
    for _ in range(2):
        world.produce(0, 3)
        consumer.fetch()
    before = consumer.received[-back:]
    consumer.positions[0] -= back
    consumer.received.clear()
    consumer.fetch()
    assert consumer.received == before
    world.check()


@pytest.mark.parametrize("batches", [(6,), (3, 3), (1, 2, 3), (2, 4)])
@pytest.mark.parametrize("committed", range(6))
@pytest.mark.parametrize("replay_budget", [0, 1 << 20])
def test_a_fetch_below_its_window_is_served_from_the_windows_start(
    batches: tuple[int, ...], committed: int, replay_budget: int
) -> None:
    """Committed records are not given again, even if the rest of their batch is."""
    world = World(PoolSettings(replay_budget=replay_budget))
    consumer = world.consumer()
    for count in batches:
        world.produce(0, count)
    consumer.fetch()
    start = offsets(consumer)[0]
    given = values(consumer)
    consumer.commit({0: start + committed})
    for _ in range(2):
        consumer.received.clear()
        consumer.positions[0] = 0
        consumer.fetch()
        assert offsets(consumer) == list(range(start + committed, start + 6))
        assert values(consumer) == given[committed:]
        world.check()


def test_offset_fetch_answers_the_committed_position_never_what_was_sent() -> None:
    world = World()
    consumer = world.consumer()
    world.produce(0, 6)
    start = consumer.positions[0]
    consumer.fetch()
    consumer.reset()
    assert consumer.positions[0] == start
    consumer.commit({0: start + 4})
    consumer.reset()
    assert consumer.positions[0] == start + 4


def test_a_seek_above_everything_that_was_sent_moves_the_member_to_a_new_higher_slot() -> None:
    world = World()
    consumer = world.consumer()
    world.produce(0, 3)
    consumer.fetch()
    sought = consumer.positions[0] + 1_000
    consumer.positions[0] = sought
    consumer.fetch(partitions=[0])
    assert offsets(consumer)[-1] > sought, "it is served there: clients accept a jump forward"
    assert len(set(values(consumer))) == 3, "what it had goes back, and to itself at once, since it is alone"
    assert len(consumer.received) == 6
    world.check()


def test_a_client_that_starts_at_the_latest_gets_what_comes_next() -> None:
    world = World()
    consumer = world.consumer()
    consumer.positions = dict.fromkeys(range(4), world.cluster.list_offset(-1))
    consumer.fetch()
    world.produce(0, 3)
    assert len(consumer.received) == 3
    assert offsets(consumer)[0] < 1 << 53
    world.check()


def test_partitions_that_move_in_one_fetch_share_a_slot() -> None:
    world = World()
    consumer = world.consumer()
    consumer.positions = dict.fromkeys(range(4), world.cluster.list_offset(-1))
    consumer.fetch()
    assert len(member_of(world, consumer).slots) == 2


def test_a_member_that_seeks_to_the_end_again_and_again_uses_up_no_slots() -> None:
    world = World()
    consumer = world.consumer()
    for _ in range(50):
        consumer.positions = dict.fromkeys(range(4), world.cluster.list_offset(-1))
        consumer.fetch(wait=0.0)
        world.produce(0, 1)
        consumer.fetch()
    assert len(member_of(world, consumer).slots) <= 4
    assert len(world.cluster.slots) <= 4
    world.check()


def test_partitions_it_has_not_fetched_yet_still_begin_where_it_was_told() -> None:
    world = World()
    consumer = world.consumer()
    told = consumer.positions[1]
    for _ in range(5):
        consumer.positions[0] = world.cluster.list_offset(-1)
        consumer.fetch(partitions=[0], wait=0.0)
    consumer.reset([1])
    assert consumer.positions[1] == told
    world.reconnect(consumer)
    world.produce(1, 2)
    consumer.fetch(partitions=[1])
    assert offsets(consumer, 1) == [told, told + 1]


def test_what_a_seek_gives_back_goes_to_others_first() -> None:
    world = World()
    consumer, other = world.consumer(), world.consumer("other")
    other.fetch(wait=0.1)
    world.advance(0.2)
    world.produce(0, 3)
    consumer.fetch()
    consumer.positions[0] += 1_000
    consumer.fetch(wait=10.0)
    assert len(consumer.received) == 3
    other.fetch()
    assert values(other) == values(consumer)
    world.check()


def test_what_a_seek_gives_back_goes_to_itself_when_the_others_had_their_time() -> None:
    world = World()
    consumer, other = world.consumer(), world.consumer("other")
    other.fetch(wait=0.1)
    world.advance(0.2)
    world.produce(0, 3)
    consumer.fetch()
    consumer.positions[0] += 1_000
    consumer.fetch(wait=10.0)
    world.advance(1.9)
    assert len(consumer.received) == 3
    world.advance(0.2)
    assert len(consumer.received) == 6


def test_what_a_seek_gives_back_goes_to_itself_at_once_when_the_last_other_leaves() -> None:
    world = World()
    consumer, other = world.consumer(), world.consumer("other")
    other.fetch(wait=0.1)
    world.advance(0.2)
    world.produce(0, 3)
    consumer.fetch()
    consumer.positions[0] += 1_000
    consumer.fetch(wait=10.0)
    other.leave()
    assert len(consumer.received) == 6
    world.check()


def test_one_that_stands_aside_is_given_what_comes_after_the_spans_that_are_kept_for_others() -> None:
    world = World()
    consumer, other = world.consumer(), world.consumer("other")
    other.fetch(wait=0.1)
    world.advance(0.2)
    world.produce(0, 3)
    consumer.fetch()
    consumer.positions[0] += 1_000
    consumer.fetch(wait=10.0, partitions=[0])
    world.produce(0, 2)
    assert values(consumer)[3:] == [f"{source(0)}@{offset}".encode() for offset in (3, 4)]
    world.check()


def test_one_that_stood_aside_waits_again_when_another_has_taken_what_was_kept() -> None:
    world = World()
    consumer, other = world.consumer(), world.consumer("other")
    other.fetch(wait=0.1)
    world.advance(0.2)
    world.produce(0, 3)
    consumer.fetch()
    consumer.positions[0] += 1_000
    consumer.fetch(wait=10.0, partitions=[0])
    other.fetch()
    assert len(other.received) == 3
    world.check()
    world.produce(0, 2)
    assert len(consumer.received) == 5


def test_an_offset_no_slot_lies_above_is_refused_and_nothing_is_taken_away() -> None:
    world = World()
    consumer = world.consumer()
    world.produce(0, 3)
    consumer.fetch()
    before = consumer.positions[0]
    consumer.positions[0] = (1 << 63) - 1
    ticket = consumer.fetch()
    (result,) = [e.result for e in world.effects if isinstance(e, Answer) and e.ticket == ticket]
    assert result.partitions[0].error is ErrorCode.OFFSET_OUT_OF_RANGE  # type: ignore[attr-defined]
    assert member_of(world, consumer).in_flight == 3
    consumer.positions[0] = before


# The member of a Fetch


def test_a_fetch_on_an_unknown_connection_is_told_by_its_offsets() -> None:
    world = World()
    first, second = world.consumer("a"), world.consumer("b")
    world.reconnect(first)
    world.reconnect(second)
    second.fetch()
    first.fetch()
    world.produce(0, 2)
    world.produce(1, 2)
    assert len(first.received) == len(second.received) == 2
    assert member_of(world, first).in_flight == 2


def test_a_member_that_seeks_on_its_own_connection_is_told_by_the_connection() -> None:
    world = World()
    consumer = world.consumer()
    consumer.fetch(wait=0.0)
    consumer.positions = dict.fromkeys(range(4), 0)
    world.produce(0, 2)
    consumer.fetch()
    assert member_of(world, consumer).in_flight == 2
    assert not world.pool.members.groupless


def test_a_client_that_seeks_before_its_first_fetch_is_taken_for_the_one_that_is_about_to_fetch() -> None:
    world = World()
    consumer = world.consumer()
    consumer.positions = dict.fromkeys(range(4), 0)
    consumer.fetch()
    world.produce(0, 2)
    assert len(consumer.received) == 2
    assert member_of(world, consumer).in_flight == 2


def test_two_members_that_both_seek_before_their_first_fetch_are_told_apart_by_their_commits() -> None:
    world = World()
    first, second = world.consumer("same"), world.consumer("same")
    for consumer in (second, first):  # the later one asks first
        consumer.positions = dict.fromkeys(range(4), 0)
        consumer.fetch()
    world.produce(0, 2)
    world.produce(1, 2)
    assert len(first.received) == len(second.received) == 2
    for consumer in (first, second):
        ticket = consumer.commit()
        result = world.answers[ticket]
        assert isinstance(result, CommitResult)
        assert set(result.errors.values()) == {ErrorCode.NONE}
        assert member_of(world, consumer).in_flight == 0
    served = {index: offset for index, offset in first.positions.items() if offset}
    first.reset()
    assert served.items() <= first.positions.items()
    first.leave()
    second.fetch()
    world.produce(0, 2)
    assert len(second.received) == 4
    world.check()


def test_a_member_that_seeks_before_its_first_fetch_on_a_new_connection_stays_itself() -> None:
    """Else it would get the records of consumers without a group."""
    world = World()
    consumer = world.consumer()
    world.produce(0, 3)
    consumer.fetch()
    world.disconnect(consumer.fetching)
    world.reconnect(consumer)
    consumer.positions = dict.fromkeys(range(4), world.cluster.list_offset(-1))
    consumer.fetch(wait=0.0)
    assert len(world.cluster.pools) == 1
    assert not world.pool.members.groupless
    world.check()


def hung(world: World) -> Consumer:
    """A client that fetched, and whose connection then hung without being closed; it has a new connection."""
    consumer = world.consumer()
    world.produce(0, 3)
    consumer.fetch()
    consumer.fetch(wait=0.5)
    world.advance(PoolSettings().hung_after + 0.5)
    world.reconnect(consumer)
    return consumer


def test_a_member_that_seeks_on_a_new_connection_while_the_old_one_hangs_stays_itself() -> None:
    world = World()
    consumer = hung(world)
    consumer.positions = dict.fromkeys(range(4), 0)
    consumer.received.clear()
    consumer.fetch()
    assert len(consumer.received) == 3, "what it had not committed"
    assert len(world.cluster.pools) == 1
    assert not world.pool.members.groupless
    world.check()


def test_one_without_a_group_is_not_taken_for_a_member_that_asks_for_records() -> None:
    world = World()
    consumer = world.consumer()
    consumer.fetch(wait=60.0)
    world.advance(PoolSettings().hung_after + 1.0)
    world.consumer(joined=False, positions={0: 0}).fetch(wait=0.0)
    assert len(world.cluster.pools) == 2
    consumer.fetch(wait=0.0)
    world.consumer(joined=False, positions={0: 0}).fetch(wait=0.0)
    assert len(world.pool.members.by_id) == 1
    assert len(member_of(world, consumer).connections) == 2


def test_a_member_that_only_paused_takes_back_what_was_guessed() -> None:
    world = World()
    consumer = world.consumer()
    world.produce(0, 3)
    consumer.fetch()
    own = dict(consumer.positions)
    world.advance(PoolSettings().hung_after + 1.0)
    taken_for_it = world.consumer(joined=False, positions={0: 0})
    taken_for_it.fetch(wait=0.0)
    assert len(taken_for_it.received) == 3
    consumer.positions = own
    consumer.fetch(wait=0.0)
    taken_for_it.fetch(wait=0.0)
    assert len(world.cluster.pools) == 2
    assert taken_for_it.fetching not in member_of(world, consumer).connections
    world.check()


def test_a_member_below_its_window_on_a_new_connection_is_itself_at_once() -> None:
    """Its partition was revoked and came back while its last answer was in flight, and lost."""
    world = World()
    consumer = world.consumer()
    consumer.positions = {0: consumer.positions[0]}
    before = dict(consumer.positions)
    world.produce(0, 3)
    consumer.fetch()
    world.upstream(lambda pool: pool.intake.lost([source(0)]))
    world.assign(source(0).cluster)
    world.disconnect(consumer.fetching)
    world.reconnect(consumer)
    consumer.positions = before
    world.produce(0)
    consumer.fetch()
    assert [value for _, _, value in consumer.received[3:]] == [value for _, _, value in consumer.received[:3]]
    world.check()


def test_a_stranger_is_rather_taken_for_one_that_has_never_fetched() -> None:
    world = World()
    reconnecting, new = world.consumer("same"), world.consumer("same")
    reconnecting.fetch(wait=0.0)
    world.disconnect(reconnecting.fetching)
    new.positions = dict.fromkeys(range(4), 0)
    new.fetch(wait=0.0)
    assert new.fetching in member_of(world, new).connections
    assert new.fetching not in member_of(world, reconnecting).connections


def test_a_stranger_is_not_taken_for_a_member_that_is_dead() -> None:
    world = World()
    dead = world.consumer("same")
    dead.fetch(wait=0.0)
    dead.disconnect()
    stranger = world.consumer("same", joined=False, positions={0: 0})
    stranger.fetch(wait=0.0)
    assert len(world.cluster.pools) == 2


def test_a_guess_is_taken_back_as_soon_as_the_member_itself_shows_up() -> None:
    world = World()
    member, stranger = world.consumer("same"), world.consumer("same", joined=False)
    stranger.positions = dict.fromkeys(range(4), 0)
    stranger.fetch(wait=30.0)
    world.produce(0, 2)
    assert len(stranger.received) == 2
    member.fetch()
    assert values(member) == values(stranger), "what the stranger was sent belongs to the member"
    stranger.fetch(wait=0.0)
    assert len(world.cluster.pools) == 2, "from now on the stranger is one without a group"
    world.check()


def test_a_member_that_was_taken_for_another_by_mistake_is_not_taken_for_a_third() -> None:
    world = World()
    member, idle = world.consumer("same"), world.consumer("same")
    stranger = world.consumer("same", joined=False)
    stranger.positions = dict.fromkeys(range(4), 0)
    stranger.fetch(wait=0.0)
    member.fetch(wait=0.0)
    stranger.fetch(wait=0.0)
    assert not member_of(world, idle).has_fetched
    assert len(world.cluster.pools) == 2


def test_a_client_of_an_earlier_run_waits_for_its_group_to_join_again() -> None:
    world = World()
    stale = {index: (3 << 32) + 12_345 for index in range(4)}
    stranger = world.consumer(joined=False, positions=stale)
    stranger.fetch(wait=0.5)
    assert stranger.is_parked
    assert not world.cluster.pools
    world.advance(0.5)
    assert not stranger.is_parked
    assert stranger.positions == stale
    assert stranger.join().error is ErrorCode.NONE
    world.produce(0, 2)
    stranger.fetch()
    assert len(stranger.received) == 2


def test_a_client_of_an_earlier_run_that_no_group_comes_for_is_served_at_a_higher_offset() -> None:
    world = World()
    stranger = world.consumer(joined=False, positions={0: (3 << 32) + 12_345})
    for _ in range(30):
        stranger.fetch(wait=0.5)
        world.advance(0.5)
    assert len(world.cluster.pools) == 1
    with world.of(world.cluster.rules.group_less or GROUP):
        world.produce(0, 2)
        stranger.fetch()
    assert offsets(stranger)[0] > (3 << 32) + 12_345


def test_a_stranger_whose_connection_dies_leaves_nothing() -> None:
    world = World()
    stranger = world.consumer(joined=False, positions={0: (3 << 32) + 12_345})
    stranger.fetch(wait=5.0)
    stranger.disconnect()
    assert not world.cluster._unidentified
    world.check_empty()


def test_a_stranger_is_hurried_too() -> None:
    world = World()
    stranger = world.consumer(joined=False, positions={0: (3 << 32) + 12_345})
    stranger.fetch(wait=5.0)
    world.do(world.cluster.answer_early(stranger.ticket, world.now))
    assert not stranger.is_parked


def test_the_answer_that_a_dying_connection_lost_is_sent_again_on_the_next() -> None:
    world = World()
    consumer = world.consumer()
    world.produce(0, 3)
    before = dict(consumer.positions)
    consumer.fetch()
    received = list(consumer.received)
    world.disconnect(consumer.fetching)
    world.reconnect(consumer)
    consumer.positions, consumer.received = before, []
    consumer.fetch()
    assert consumer.received == received


def test_an_unknown_connection_cannot_ask_in_the_name_of_a_member_by_guessing_high() -> None:
    world = World(PoolSettings(unidentified_grace=0.0))
    consumer = world.consumer()
    thief = world.consumer("thief", joined=False, positions={0: consumer.positions[0] + 1})
    world.produce(0, 2)
    thief.fetch(wait=0.0)
    assert member_of(world, consumer).in_flight == 0
    assert thief.fetching not in member_of(world, consumer).connections
    assert not world.pool.members.groupless
