"""Commits: stored, then answered."""

from __future__ import annotations

import pytest

from mesh.pool.common.effects import CommitUpstream, LeaveUpstream, PollUpstream
from mesh.pool.common.ids import MemberId
from mesh.pool.common.results import CommitResult
from mesh.pool.common.settings import PoolSettings
from mesh.records.spans import TopicName
from mesh.wire.errors import ErrorCode
from tests.pool.consumer import Protocol
from tests.pool.harness import EU, GROUP, ORDERS, US, Consumer, World, offsets, source

NONE, LATER, MOVED = ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REBALANCE_IN_PROGRESS
UNKNOWN, FENCED = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH
BROKER_AWAY = 14


def begin(
    store: bool = False, count: int = 6, indexes: tuple[int, ...] = (0,), protocol: Protocol = "classic"
) -> tuple[World, Consumer]:
    """A member that got `count` records of each of these partitions."""
    world = World(auto_store=store)
    consumer = world.consumer(protocol=protocol)
    for index in indexes:
        world.produce(index, count)
    consumer.fetch()
    return world, consumer


def errors(world: World, ticket: object) -> dict[int, ErrorCode]:
    return {index: error for (_, index), error in world.answer(ticket, CommitResult).errors.items()}


def in_flight(world: World, consumer: Consumer) -> int:
    return world.pool.members.by_id[consumer.member_id].in_flight


def test_a_commit_is_answered_when_it_is_stored() -> None:
    world, consumer = begin()
    ticket = consumer.commit({0: consumer.positions[0]})
    assert ticket not in world.answers
    assert [offsets(commit) for commit in world.pending_stores] == [{source(0): 6}]
    world.store()
    assert errors(world, ticket) == {0: NONE}
    assert world.stored == {source(0): 6}


def test_it_settles_what_lies_below_it() -> None:
    world, consumer = begin(store=True)
    consumer.commit({0: consumer.positions[0] - 2})
    assert in_flight(world, consumer) == 2
    assert world.stored == {source(0): 4}


def test_what_is_acknowledged_meanwhile_goes_with_the_next_commit() -> None:
    world, consumer = begin()
    end = consumer.positions[0]
    tickets = [consumer.commit({0: end - left}) for left in (4, 2, 0)]
    assert len(world.pending_stores) == 1
    world.store()
    assert tickets[0] in world.answers
    assert tickets[1] not in world.answers
    assert [offsets(commit) for commit in world.pending_stores] == [{source(0): 6}]
    world.store()
    assert all(errors(world, ticket) == {0: NONE} for ticket in tickets)


def test_clusters_are_stored_independently() -> None:
    world, consumer = begin(indexes=(0, 2))
    ticket = consumer.commit({index: consumer.positions[index] for index in (0, 2)})
    assert {commit.cluster for commit in world.pending_stores} == {EU, US}
    world.store()
    assert ticket not in world.answers
    world.store()
    assert errors(world, ticket) == {0: NONE, 2: NONE}


def test_nothing_is_stored_twice() -> None:
    world, consumer = begin()
    consumer.commit({0: consumer.positions[0] - 3})
    world.produce(0, 1)  # the partition is checked again while the commit is in flight
    world.store()
    assert not world.pending_stores
    assert in_flight(world, consumer) == 3


def test_a_commit_that_is_not_stored_within_three_seconds_is_answered_so() -> None:
    world, consumer = begin()
    ticket = consumer.commit({0: consumer.positions[0], 1: consumer.positions[1]})
    world.advance(2.9)
    assert ticket not in world.answers
    world.advance(0.2)
    assert errors(world, ticket) == {0: LATER, 1: NONE}
    world.store()
    assert world.stored == {source(0): 6}


def test_a_commit_is_tried_again_after_an_upstream_error() -> None:
    world, consumer = begin()
    ticket = consumer.commit({0: consumer.positions[0]})
    world.store(BROKER_AWAY)
    assert not world.pending_stores
    world.advance(0.2)
    world.store()
    assert errors(world, ticket) == {0: NONE}


def test_a_commit_that_a_rebalance_refuses_rests_too_before_it_is_tried_again() -> None:
    world, consumer = begin()
    ticket = consumer.commit({0: consumer.positions[0]})
    world.store(MOVED.value)
    assert not world.pending_stores
    world.advance(0.2)
    world.store()
    assert errors(world, ticket) == {0: NONE}


def test_a_partition_that_failed_is_tried_again_with_what_was_settled_since() -> None:
    world, consumer = begin()
    consumer.commit({0: consumer.positions[0] - 4})
    world.store(BROKER_AWAY)
    consumer.commit({0: consumer.positions[0]})
    assert not world.pending_stores
    world.advance(0.2)
    assert [offsets(commit) for commit in world.pending_stores] == [{source(0): 6}]


def test_an_outcome_of_a_commit_that_is_not_under_way_is_ignored() -> None:
    world, consumer = begin()
    ticket = consumer.commit({0: consumer.positions[0]})
    commit = world.pending_stores[0]
    world.upstream(
        lambda pool: pool.commits.committed(EU, commit.token + 7, dict.fromkeys(offsets(commit), 0), world.now)
    )
    assert ticket not in world.answers
    assert not [effect for effect in world.effects if isinstance(effect, CommitUpstream)][1:]
    world.store()
    assert errors(world, ticket) == {0: NONE}
    world.upstream(lambda pool: pool.commits.committed(EU, commit.token, dict.fromkeys(offsets(commit), 0), world.now))


# Rebalances


def test_a_commit_of_a_partition_that_moves_away_while_it_waits_is_answered_so() -> None:
    world, consumer = begin(indexes=(0, 1))
    ticket = consumer.commit({index: consumer.positions[index] for index in (0, 1)})
    world.assign(EU, resumed=True, indexes=[1])
    assert ticket not in world.answers
    world.store()
    assert errors(world, ticket) == {0: MOVED, 1: NONE}


@pytest.mark.parametrize(
    ("protocol", "moved", "then"), [("classic", MOVED, MOVED), ("consumer", UNKNOWN, FENCED)], ids=str
)
def test_a_commit_whose_partitions_have_all_moved_away_is_answered_in_that_step(
    protocol: Protocol, moved: ErrorCode, then: ErrorCode
) -> None:
    """In the classic protocol clients join again after this answer, or after that to a heartbeat; in the other one,
    after the answer to their heartbeat."""
    world, consumer = begin(protocol=protocol)
    ticket = consumer.commit({0: consumer.positions[0]})
    world.upstream(lambda pool: pool.intake.lost([source(0)]))
    assert errors(world, ticket) == {0: moved}
    assert world.pool.commits.waiting == 0
    assert consumer.heartbeat() is then


@pytest.mark.parametrize(
    ("protocol", "moved", "join_again"), [("classic", MOVED, MOVED), ("consumer", UNKNOWN, FENCED)], ids=str
)
def test_a_member_is_told_that_what_it_holds_has_moved_away_until_it_joins_again(
    protocol: Protocol, moved: ErrorCode, join_again: ErrorCode
) -> None:
    """Some clients repeat a failed commit before they join again; then records of other members must not look
    acknowledged. If the mesh said it again afterwards, a client that keeps its position would join again for ever."""
    world, consumer = begin(store=True, protocol=protocol)
    world.assign(EU, indexes=[1])
    position = {0: consumer.positions[0]}
    assert consumer.heartbeat() is NONE
    for _ in range(3):
        assert errors(world, consumer.commit(position)) == {0: moved}
        assert consumer.heartbeat() is join_again
    consumer.join()
    assert consumer.heartbeat() is NONE
    assert errors(world, consumer.commit(position)) == {0: NONE}
    assert not world.stored
    consumer.leave()


def test_a_member_that_is_to_join_again_may_leave() -> None:
    world, consumer = begin(store=True, protocol="consumer")
    world.assign(EU, indexes=[1])
    consumer.commit()
    assert consumer.heartbeat() is FENCED
    consumer.leave()
    assert consumer.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_is_told_also_when_the_partition_is_back_already() -> None:
    world, consumer = begin(store=True)
    world.upstream(lambda pool: pool.intake.lost([source(0)]))
    world.assign(EU)
    assert errors(world, consumer.commit({0: consumer.positions[0]})) == {0: MOVED}
    world.produce(0)
    consumer.fetch()
    assert errors(world, consumer.commit({0: consumer.positions[0]})) == {0: MOVED}
    consumer.join()
    consumer.fetch()
    assert errors(world, consumer.commit({0: consumer.positions[0]})) == {0: NONE}
    assert world.stored == {source(0): 6}


def test_a_member_is_told_that_what_it_has_committed_was_not_stored_before_it_moved_away() -> None:
    world, consumer = begin()
    position = {0: consumer.positions[0]}
    ticket = consumer.commit(position)
    world.advance(3.0)
    assert errors(world, ticket) == {0: LATER}
    world.upstream(lambda pool: pool.intake.lost([source(0)]))
    assert errors(world, consumer.commit(position)) == {0: MOVED}


def test_a_member_that_lost_nothing_is_told_nothing() -> None:
    world, consumer = begin(store=True)
    consumer.commit()
    world.assign(EU, indexes=[1])
    assert set(errors(world, consumer.commit()).values()) == {NONE}


def test_a_partition_that_is_suspended_and_comes_back_is_stored_then() -> None:
    world, consumer = begin()
    world.upstream(lambda pool: pool.intake.revoked([source(0), source(1)]))
    ticket = consumer.commit({0: consumer.positions[0]})
    assert not world.pending_stores
    world.assign(EU, resumed=True)
    world.store()
    assert errors(world, ticket) == {0: NONE}


def test_a_commit_under_way_when_its_partition_is_lost_does_not_count_for_the_next_assignment() -> None:
    world, consumer = begin()
    consumer.commit({0: consumer.positions[0]})
    world.upstream(lambda pool: pool.intake.lost([source(0)]))
    world.assign(EU)
    world.store()
    assert world.pool.partitions[source(0)].ledger.stored.offset == 0
    world.produce(0)
    world.check()


# Refusals


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"member_id": MemberId("nobody")}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": MemberId(""), "generation": 1}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": -1}, ErrorCode.ILLEGAL_GENERATION),
        ({"instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_commit_needs_the_right_member_id_and_generation(changes: dict[str, object], error: ErrorCode) -> None:
    world, consumer = begin(store=True)
    assert errors(world, consumer.commit({0: consumer.positions[0]}, **changes)) == {0: error}
    assert in_flight(world, consumer) == 6


def test_a_static_member_that_was_replaced_is_fenced() -> None:
    world = World()
    older = world.consumer("a", instance_id="i")
    world.consumer("b", instance_id="i")
    assert errors(world, older.commit({0: 5})) == {0: ErrorCode.FENCED_INSTANCE_ID}


def test_an_empty_member_id_commits_only_for_slots_without_a_group_member() -> None:
    world, consumer = begin(store=True)
    refused = errors(world, consumer.commit({0: consumer.positions[0]}, member_id=MemberId(""), generation=-1))
    assert refused == {0: ErrorCode.UNKNOWN_MEMBER_ID}
    assert in_flight(world, consumer) == 6


def test_above_what_was_sent_is_refused_and_nothing_is_marked() -> None:
    world, consumer = begin(store=True)
    assert errors(world, consumer.commit({0: consumer.positions[0] + 1})) == {0: ErrorCode.OFFSET_OUT_OF_RANGE}
    assert in_flight(world, consumer) == 6
    assert not world.stored


@pytest.mark.parametrize("own", [0, 1])
def test_an_offset_of_another_member_is_refused_be_it_lower_or_higher(own: int) -> None:
    world = World()
    members = [world.consumer("a"), world.consumer("b")]
    for consumer in members:
        consumer.fetch(partitions=[0])
        world.produce(0, 3)
    foreign = members[1 - own].positions[0]
    assert errors(world, members[own].commit({0: foreign})) == {0: ErrorCode.OFFSET_OUT_OF_RANGE}
    assert [in_flight(world, consumer) for consumer in members] == [3, 3]


def test_below_the_committed_position_it_has_no_effect() -> None:
    world, consumer = begin(store=True)
    end = consumer.positions[0]
    consumer.commit({0: end})
    for offset in (end - 3, 0, end):
        assert errors(world, consumer.commit({0: offset})) == {0: NONE}
    consumer.reset()
    assert consumer.positions[0] == end


def test_positions_that_never_moved_may_be_committed() -> None:
    """kafka-python, aiokafka and Java commit the position at which they start."""
    world = World()
    consumer = world.consumer()
    assert set(errors(world, consumer.commit()).values()) == {NONE}
    consumer.positions = dict.fromkeys(range(4), world.cluster.list_offset(-1))
    assert set(errors(world, consumer.commit()).values()) == {NONE}
    consumer.fetch(wait=0.0)
    assert set(errors(world, consumer.commit()).values()) == {NONE}
    consumer.reset()
    assert set(errors(world, consumer.commit()).values()) == {NONE}


def test_an_unknown_partition_is_told_beside_the_others() -> None:
    world, consumer = begin(store=True)
    ticket = world.ticket()
    positions = [(ORDERS, 0, consumer.positions[0]), (ORDERS, 9, 5), (TopicName("nothing"), 0, 5)]
    world.commits[ticket] = (consumer, {})
    world.do(
        world.cluster.commit(consumer.coordinator, ticket, GROUP, consumer.member_id, None, 1, positions, world.now)
    )
    result = world.answer(ticket, CommitResult).errors
    assert list(result.values()) == [NONE] + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    assert in_flight(world, consumer) == 0


def test_no_group_is_refused() -> None:
    world, consumer = begin(store=True)
    consumer.group = type(GROUP)("")
    assert errors(world, consumer.commit({0: 5})) == {0: ErrorCode.INVALID_GROUP_ID}


# The engines


def test_an_engine_looks_at_its_commands_often_while_something_is_unacknowledged() -> None:
    world, consumer = begin(store=True)
    consumer.commit({0: consumer.positions[0]})
    assert [e for e in world.effects if isinstance(e, PollUpstream)] == [
        PollUpstream(GROUP, EU, True),
        PollUpstream(GROUP, EU, False),
    ]


def test_what_is_not_stored_yet_is_committed_when_the_pool_leaves() -> None:
    world, consumer = begin()
    waiting = consumer.commit({0: consumer.positions[0]})
    consumer.leave()
    consumer.disconnect()
    world.advance(2.0)
    (left,) = [effect for effect in world.effects if isinstance(effect, LeaveUpstream)]
    assert offsets(left) == {source(0): 6}
    assert errors(world, waiting) == {0: LATER}


def test_a_partial_batch_is_stored_and_the_rest_comes_again() -> None:
    world = World(PoolSettings(), auto_store=True)
    first, second = world.consumer("a"), world.consumer("b")
    world.produce(0, 10)
    first.fetch()
    first.commit({0: first.positions[0] - 4})
    first.leave()
    second.fetch()
    assert [value for _, _, value in second.received] == [value for _, _, value in first.received[6:]]
    world.check()
