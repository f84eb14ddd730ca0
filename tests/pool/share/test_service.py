"""Share members of a pool: what they acquire, acknowledge and give back."""

from __future__ import annotations

import pytest

from mesh.pool.common.history import Redelivery
from mesh.pool.common.settings import PoolSettings, ShareSettings
from mesh.pool.common.sharing import LimitRule, Sharing
from mesh.pool.share.requests import ENDING, ShareAcknowledgeResult
from mesh.records import runs
from mesh.records.decode import decode_records
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import AcknowledgementBatch
from tests.pool.harness import World, source
from tests.pool.share_member import ACCEPT, GAP, REJECT, RELEASE, RENEW, ShareMember, batches_of, mixed


@pytest.fixture
def world() -> World:
    return World()


def open_session(world: World, name: str = "s") -> ShareMember:
    member = ShareMember.joined(world, name)
    member.fetch(wait=0.0)
    world.assign_all()
    return member


def test_acquires_at_upstream_offsets_and_settles_what_it_accepts(world: World) -> None:
    member = open_session(world)
    world.produce(0, 10)
    result = member.fetch()
    (partition,) = result.partitions
    assert partition.partition.number == 0
    assert partition.acquired == ((0, 9, 1),)
    assert result.lock == 30.0
    assert member.say(ACCEPT, 0) is ErrorCode.NONE
    world.check()
    assert world.stored[source(0)] == 10
    assert not member.fetch().partitions, "nothing to say"


def test_acknowledges_one_by_one_and_out_of_order(world: World) -> None:
    member = open_session(world)
    world.produce(0, 10)
    member.fetch()
    assert member.say(ACCEPT, 0, [3]) is ErrorCode.NONE
    assert member.say(ACCEPT, 0, [7, 8]) is ErrorCode.NONE
    world.check()
    assert world.stored[source(0)] == 0, "what is lower is not acknowledged"
    assert member.say(ACCEPT, 0) is ErrorCode.NONE
    assert world.stored[source(0)] == 10


def test_a_released_record_comes_again_and_counts(world: World) -> None:
    member = open_session(world)
    world.produce(0, 10)
    member.fetch()
    assert member.say(RELEASE, 0, [4]) is ErrorCode.NONE
    world.check()
    (partition,) = member.fetch().partitions
    assert partition.acquired == ((4, 4, 2),)
    assert len(partition.records) == 1, "the whole batch, of which it has one record"


def test_nothing_is_cut_for_share_members(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("bytes were cut")

    member, other = open_session(world, "one"), open_session(world, "two")
    world.batch_size = 5
    monkeypatch.setattr(runs, "cut_batch", refuse)
    world.produce(0, 30)
    member.fetch(most=7, exact=True)
    assert member.held(0) == list(range(7))
    member.say(RELEASE, 0, [1, 2, 5])
    other.fetch(most=100)
    assert other.held(0) == [1, 2, 5, *range(7, 30)]
    world.check()


def test_all_or_nothing_of_each_partition(world: World) -> None:
    member = open_session(world)
    world.produce(0, 10)
    world.produce(1, 10)
    member.fetch()
    wanted = {0: batches_of(ACCEPT, range(11)), 1: batches_of(ACCEPT, range(10))}
    result = world.answer(member.acknowledge(wanted), ShareAcknowledgeResult)
    assert list(result.errors.values()) == [ErrorCode.INVALID_RECORD_STATE, ErrorCode.NONE]
    world.check()
    assert world.stored.get(source(0), 0) == 0
    assert world.stored[source(1)] == 10


@pytest.mark.parametrize(
    "batches",
    [
        [AcknowledgementBatch(5, 4, b"\1")],
        [AcknowledgementBatch(0, 4, b"\1"), AcknowledgementBatch(4, 6, b"\1")],
        [AcknowledgementBatch(5, 6, b"\1"), AcknowledgementBatch(0, 2, b"\1")],
        [AcknowledgementBatch(0, 4, b"")],
        [AcknowledgementBatch(0, 4, b"\1\1")],
        [AcknowledgementBatch(0, 4, b"\4")],
        [AcknowledgementBatch(0, 0, b"\5")],
        [AcknowledgementBatch(0, 0, b"\xff")],
    ],
)
def test_what_is_no_acknowledgement_is_refused(world: World, batches: list[AcknowledgementBatch]) -> None:
    member = open_session(world)
    world.produce(0, 10)
    member.fetch()
    result = world.answer(member.acknowledge({0: batches}), ShareAcknowledgeResult)
    assert list(result.errors.values()) == [ErrorCode.INVALID_REQUEST]
    assert member.say(ACCEPT, 0) is ErrorCode.NONE, "it has everything still"


def test_below_the_committed_offset_there_is_nothing_to_say(world: World) -> None:
    member = open_session(world)
    world.produce(0, 10)
    member.fetch()
    member.say(ACCEPT, 0)
    for kind in (GAP, ACCEPT, RELEASE, REJECT):
        assert member.say(kind, 0, range(10)) is ErrorCode.NONE
    world.check()
    assert not member.fetch().partitions


def test_what_another_member_has_is_none_of_its_own(world: World) -> None:
    one, two = open_session(world, "one"), open_session(world, "two")
    world.produce(0, 10)
    one.fetch()
    assert two.say(ACCEPT, 0, one.held(0)) is ErrorCode.INVALID_RECORD_STATE
    assert one.say(ACCEPT, 0) is ErrorCode.NONE


def test_each_offset_has_its_own_type(world: World) -> None:
    member = open_session(world)
    world.produce(0, 6)
    member.fetch()
    said = mixed({0: ACCEPT, 1: RELEASE, 2: GAP, 3: REJECT, 4: ACCEPT, 5: RELEASE})
    result = world.answer(member.acknowledge({0: said}), ShareAcknowledgeResult)
    assert list(result.errors.values()) == [ErrorCode.NONE]
    member.acquired.clear()
    world.check()
    (partition,) = member.fetch().partitions
    assert partition.acquired == ((1, 1, 2), (5, 5, 2))


def test_locks_end_by_themselves_each_at_its_own_time(world: World) -> None:
    member = open_session(world)
    world.produce(0, 5)
    member.fetch()
    world.advance(20.0)
    world.produce(0, 5)
    member.fetch()
    member.heartbeat()
    world.advance(10.5)
    assert world.pool.partitions[source(0)].acquired_offsets == 5, "only the older five"
    assert member.say(ACCEPT, 0, [0]) is ErrorCode.INVALID_RECORD_STATE
    assert member.say(ACCEPT, 0, range(5, 10)) is ErrorCode.NONE
    member.forget(0, range(5))
    (partition,) = member.fetch().partitions
    assert partition.acquired == ((0, 4, 2),)
    world.check()


def test_a_renewed_lock_lasts_longer(world: World) -> None:
    member = open_session(world)
    world.produce(0, 5)
    member.fetch()
    for _ in range(4):
        member.heartbeat()
        world.advance(25.0)
        assert member.say(RENEW, 0) is ErrorCode.NONE
    assert member.say(ACCEPT, 0) is ErrorCode.NONE


def test_renewing_needs_a_request_that_says_so(world: World) -> None:
    member = open_session(world)
    world.produce(0, 5)
    member.fetch()
    result = world.answer(member.acknowledge({0: batches_of(RENEW, range(5))}), ShareAcknowledgeResult)
    assert list(result.errors.values()) == [ErrorCode.INVALID_REQUEST]


def test_renewing_may_be_switched_off() -> None:
    world = World(PoolSettings(share=ShareSettings(may_renew=False)))
    member = open_session(world)
    world.produce(0, 5)
    member.fetch()
    assert member.say(RENEW, 0) is ErrorCode.INVALID_RECORD_STATE
    assert member.say(ACCEPT, 0) is ErrorCode.NONE


def test_an_answer_waits_until_it_is_stored() -> None:
    world = World(auto_store=False)
    member = open_session(world)
    world.produce(0, 5)
    member.fetch()
    ticket = member.acknowledge({0: batches_of(ACCEPT, range(5))})
    assert ticket not in world.answers
    world.store()
    assert list(world.answer(ticket, ShareAcknowledgeResult).errors.values()) == [ErrorCode.NONE]


def test_one_that_is_not_stored_in_time_may_be_said_again() -> None:
    world = World(auto_store=False)
    member = open_session(world)
    world.produce(0, 5)
    member.fetch()
    ticket = member.acknowledge({0: batches_of(ACCEPT, range(5))})
    world.advance(3.1)
    assert list(world.answer(ticket, ShareAcknowledgeResult).errors.values()) == [ErrorCode.KAFKA_STORAGE_ERROR]
    again = member.acknowledge({0: batches_of(ACCEPT, range(5))})
    assert again not in world.answers
    world.store()
    assert list(world.answer(again, ShareAcknowledgeResult).errors.values()) == [ErrorCode.NONE]
    world.check()


def test_what_was_stored_meanwhile_may_be_said_again_too() -> None:
    world = World(auto_store=False)
    member = open_session(world)
    world.produce(0, 5)
    member.fetch()
    ticket = member.acknowledge({0: batches_of(ACCEPT, [2, 3])})
    world.advance(3.1)
    assert list(world.answer(ticket, ShareAcknowledgeResult).errors.values()) == [ErrorCode.KAFKA_STORAGE_ERROR]
    world.store()
    again = member.acknowledge({0: batches_of(ACCEPT, [2, 3])})
    assert list(world.answer(again, ShareAcknowledgeResult).errors.values()) == [ErrorCode.NONE]
    third = member.acknowledge({0: batches_of(ACCEPT, [2, 3])})
    assert list(world.answer(third, ShareAcknowledgeResult).errors.values()) == [ErrorCode.INVALID_RECORD_STATE]


def not_stored(member: ShareMember, said: list[AcknowledgementBatch], renews: bool = False) -> None:
    """Acknowledges records of partition 0. The cluster does not store it in time."""
    assert outcome(member, said, renews, waits=3.1) is ErrorCode.KAFKA_STORAGE_ERROR


def outcome(
    member: ShareMember, said: list[AcknowledgementBatch], renews: bool = False, waits: float = 0.0
) -> ErrorCode:
    """The answer to acknowledgements of partition 0, after these seconds."""
    world = member.world
    ticket = member.acknowledge({0: said}, renews=renews)
    if waits:
        assert ticket not in world.answers
        world.advance(waits)
    (error,) = world.answer(ticket, ShareAcknowledgeResult).errors.values()
    return error


def store_all(world: World) -> None:
    """The cluster stores everything, also what waits for the commit under way."""
    while world.pending_stores:
        world.store()


def take_all(member: ShareMember) -> dict[int, int]:
    """Fetches until there is nothing more. Returns the deliveries of each offset of partition 0 that it has."""
    while member.fetch().partitions:
        pass
    return {offset: deliveries for (_, offset), deliveries in member.acquired.items()}


EVEN_ACCEPTED = mixed({offset: RELEASE if offset % 2 else ACCEPT for offset in range(10)})


@pytest.mark.parametrize("is_stored", [False, True])
def test_releases_beside_what_is_not_stored_in_time_may_be_said_again(is_stored: bool) -> None:
    """Otherwise the whole repetition is refused: accepted records would count as failed, and never come again."""
    world = World(auto_store=False)
    member = open_session(world)
    world.produce(0, 10)
    member.fetch()
    not_stored(member, EVEN_ACCEPTED)
    member.forget(0, range(10))
    not_stored(member, EVEN_ACCEPTED) if not is_stored else store_all(world)
    again = member.acknowledge({0: EVEN_ACCEPTED})
    if not is_stored:
        assert again not in world.answers
        store_all(world)
    assert list(world.answer(again, ShareAcknowledgeResult).errors.values()) == [ErrorCode.NONE]
    assert outcome(member, EVEN_ACCEPTED) is ErrorCode.INVALID_RECORD_STATE, "it was told"
    other = open_session(world, "other")
    assert take_all(other) == dict.fromkeys((1, 3, 5, 7, 9), 2)
    world.check()


def test_what_other_members_have_since_stays_theirs() -> None:
    world = World(auto_store=False)
    member, other = open_session(world), open_session(world, "other")
    world.produce(0, 10)
    member.fetch()
    not_stored(member, EVEN_ACCEPTED)
    assert set(take_all(other)) == {1, 3, 5, 7, 9}
    store_all(world)
    assert outcome(member, EVEN_ACCEPTED) is ErrorCode.NONE
    world.auto_store = True
    assert other.say(ACCEPT, 0) is ErrorCode.NONE
    assert world.stored[source(0)] == 10
    world.check()


def test_what_the_member_itself_has_since_is_released_again() -> None:
    world = World(auto_store=False)
    member = open_session(world)
    world.produce(0, 4)
    member.fetch()
    said = mixed({0: ACCEPT, 1: RELEASE, 2: RELEASE, 3: RELEASE})
    not_stored(member, said)
    member.forget(0, range(4))
    member.fetch(most=2, exact=True)
    assert member.acquired == {(0, 1): 2, (0, 2): 2}
    not_stored(member, said)
    member.forget(0, range(4))
    store_all(world)
    assert outcome(member, said) is ErrorCode.NONE
    other = open_session(world, "other")
    assert take_all(other) == {1: 3, 2: 3, 3: 2}
    world.check()


def test_two_requests_that_were_not_stored_may_both_be_said_again() -> None:
    """Also if both released the same record."""
    world = World(auto_store=False)
    member = open_session(world)
    world.produce(0, 4)
    member.fetch()
    first, second = mixed({0: ACCEPT, 1: RELEASE}), mixed({1: RELEASE, 2: ACCEPT})
    not_stored(member, first)
    member.forget(0, [0, 1])
    member.fetch()
    assert member.acquired[0, 1] == 2
    not_stored(member, second)
    store_all(world)
    assert [outcome(member, each) for each in (first, second)] == [ErrorCode.NONE, ErrorCode.NONE]
    assert outcome(member, second) is ErrorCode.INVALID_RECORD_STATE


def test_a_release_that_gave_records_up_may_be_said_again() -> None:
    world = World(PoolSettings(share=ShareSettings(delivery_limit=1)), auto_store=False)
    member = open_session(world)
    world.produce(0, 10)
    member.fetch()
    not_stored(member, EVEN_ACCEPTED)
    member.forget(0, range(10))
    store_all(world)
    assert outcome(member, EVEN_ACCEPTED) is ErrorCode.NONE
    assert world.stored[source(0)] == 10
    world.check()


def test_a_renewed_lock_that_has_ended_since_may_be_said_again() -> None:
    world = World(PoolSettings(share=ShareSettings(lock=2.0)), auto_store=False)
    member = open_session(world)
    world.produce(0, 2)
    member.fetch()
    said = mixed({0: ACCEPT, 1: RENEW})
    not_stored(member, said, renews=True)
    member.forget(0, range(2))
    store_all(world)
    assert outcome(member, said, renews=True) is ErrorCode.NONE
    assert outcome(member, batches_of(ACCEPT, [1])) is ErrorCode.INVALID_RECORD_STATE, "it does not have it"


def test_only_what_was_said_may_be_said_again() -> None:
    world = World(auto_store=False)
    member = open_session(world)
    world.produce(0, 10)
    member.fetch()
    not_stored(member, EVEN_ACCEPTED)
    for kind, offsets in ((ACCEPT, [1]), (REJECT, [3]), (RELEASE, [2]), (RENEW, [1]), (RENEW, [2])):
        said = batches_of(kind, offsets)
        assert outcome(member, said, renews=kind is RENEW) is ErrorCode.INVALID_RECORD_STATE
    more = mixed({**{offset: RELEASE if offset % 2 else ACCEPT for offset in range(10)}, 10: RELEASE})
    assert outcome(member, more) is ErrorCode.INVALID_RECORD_STATE, "it never had that"


def test_what_was_carried_out_is_forgotten_with_the_session() -> None:
    world = World(auto_store=False)
    member = open_session(world)
    world.produce(0, 10)
    member.fetch()
    not_stored(member, EVEN_ACCEPTED)
    member.lose_session()
    member.reconnect()
    member.fetch(wait=0.0)
    assert sorted(member.held(0)) == [1, 3, 5, 7, 9]
    assert outcome(member, EVEN_ACCEPTED) is ErrorCode.INVALID_RECORD_STATE


def test_releases_in_a_fetch_may_be_said_again() -> None:
    world = World(auto_store=False)
    member = open_session(world)
    world.produce(0, 10)
    member.fetch()
    member.ask(acknowledge={0: EVEN_ACCEPTED}, acquires=False)
    world.advance(3.1)
    (partition,) = member.take().partitions
    assert partition.acknowledge_error is ErrorCode.KAFKA_STORAGE_ERROR
    member.forget(0, range(10))
    store_all(world)
    assert outcome(member, EVEN_ACCEPTED) is ErrorCode.NONE


def test_acknowledgements_of_a_fetch_are_answered_with_it_when_they_are_stored() -> None:
    world = World(auto_store=False)
    member = open_session(world)
    world.produce(0, 5)
    member.fetch()
    world.produce(1, 5)
    member.ask(acknowledge={0: batches_of(ACCEPT, range(5))})
    assert member.is_parked
    member.forget(0, range(5))
    world.store()
    result = member.take()
    assert [(each.partition.number, each.acknowledge_error) for each in result.partitions] == [
        (0, ErrorCode.NONE),
        (1, ErrorCode.NONE),
    ]
    assert member.held(1) == list(range(5))


def test_a_partition_that_moves_away_takes_its_acknowledgements_along() -> None:
    world = World(auto_store=False)
    member = open_session(world)
    world.produce(0, 5)
    member.fetch()
    ticket = member.acknowledge({0: batches_of(ACCEPT, range(5))})
    world.upstream(lambda pool: pool.intake.lost([source(0)]))
    assert list(world.answer(ticket, ShareAcknowledgeResult).errors.values()) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert member.say(ACCEPT, 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    world.check()


def test_a_session_that_ends_gives_everything_back_at_once(world: World) -> None:
    one, two = open_session(world, "one"), open_session(world, "two")
    world.produce(0, 10)
    one.fetch()
    assert one.end({0: batches_of(ACCEPT, range(3))}).error is ErrorCode.NONE
    two.fetch()
    assert two.held(0) == list(range(3, 10))
    assert set(two.acquired.values()) == {2}
    world.check()


def test_a_connection_that_is_lost_gives_everything_back_at_once(world: World) -> None:
    one, two = open_session(world, "one"), open_session(world, "two")
    world.produce(0, 10)
    one.fetch()
    two.ask(wait=5.0)
    one.lose_session()
    two.take()
    assert two.held(0) == list(range(10))
    world.check()


@pytest.mark.parametrize("is_said", [False, True])
def test_a_session_may_end_before_its_partitions_are_assigned(world: World, is_said: bool) -> None:
    member = ShareMember.joined(world, "s")
    member.fetch(acquires=False)
    if is_said:
        member.end()
    else:
        member.lose_session()
    world.check()


def test_what_a_dead_connection_collected_was_never_delivered(world: World) -> None:
    one, two = open_session(world, "one"), open_session(world, "two")
    one.ask(minimum=100_000, wait=5.0)
    world.produce(0, 10)
    one.lose_session()
    two.fetch()
    assert set(two.acquired.values()) == {1}
    world.check()


def test_a_member_without_a_group_lives_as_long_as_its_session(world: World) -> None:
    member = ShareMember(world, "s", world.connect(), world.connect())
    member.fetch(wait=0.0)
    world.produce(0, 5)
    member.fetch()
    assert member.say(ACCEPT, 0, [0, 1]) is ErrorCode.NONE
    member.end()
    assert not world.pool.members.by_id
    world.disconnect(member.connection)
    world.disconnect(member.coordinator)
    world.check_empty()


def test_leaving_the_group_releases_nothing_before_the_session_ends(world: World) -> None:
    member = open_session(world)
    world.produce(0, 5)
    member.fetch()
    member.leave()
    world.check()
    assert member.say(ACCEPT, 0) is ErrorCode.NONE
    member.disconnect()
    world.check_empty()


def test_epochs_of_a_session(world: World) -> None:
    member = open_session(world)
    assert member.fetch(epoch=5).error is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert member.fetch(epoch=1, wait=0.0).error is ErrorCode.NONE
    assert member.fetch(epoch=1, wait=0.0).error is ErrorCode.INVALID_SHARE_SESSION_EPOCH, "sent twice"
    zero = member.acknowledge({}, epoch=0)
    assert world.answer(zero, ShareAcknowledgeResult).error is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert member.fetch(epoch=ENDING).error is ErrorCode.NONE
    assert member.fetch(epoch=2).error is ErrorCode.SHARE_SESSION_NOT_FOUND


def test_a_session_is_not_opened_with_acknowledgements(world: World) -> None:
    member = open_session(world)
    refused = member.fetch(epoch=0, acknowledge={0: batches_of(ACCEPT, [0])})
    assert refused.error is ErrorCode.INVALID_REQUEST


def test_the_first_answer_has_all_partitions_and_later_ones_what_is_new(world: World) -> None:
    member = ShareMember.joined(world)
    first = member.fetch(range(6), wait=0.0)
    errors = [each.error for each in first.partitions]
    assert errors == [ErrorCode.NONE] * 4 + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    second = member.fetch(wait=0.0)
    assert [each.partition.number for each in second.partitions] == [4, 5], "errors are told again"
    member.ask(forgotten=[4, 5], wait=0.0)
    assert not member.take().partitions


def test_too_many_sessions_are_refused_after_a_while() -> None:
    world = World(PoolSettings(share=ShareSettings(most_sessions=1)))
    open_session(world, "one")
    two = ShareMember.joined(world, "two")
    two.ask(wait=2.0)
    assert two.is_parked
    world.advance(2.1)
    assert two.take().error is ErrorCode.SHARE_SESSION_LIMIT_REACHED


def test_requests_that_wait_are_answered_in_their_kinds_when_the_pool_ends() -> None:
    world = World(PoolSettings(share=ShareSettings(most_sessions=1)), auto_store=False)
    member, refused = open_session(world), ShareMember.joined(world, "refused")
    world.produce(0, 10)
    member.fetch(wait=0.0)
    acknowledge = member.acknowledge({0: batches_of(ACCEPT, [0, 1])})
    member.ask(wait=5.0, acknowledge={0: batches_of(ACCEPT, [2])})
    refused.ask(wait=5.0)
    assert acknowledge not in world.answers
    assert member.is_parked
    assert refused.is_parked
    world.do(world.cluster.drain(world.now))
    assert world.answer(acknowledge, ShareAcknowledgeResult).error is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert member.take().error is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert refused.take().error is ErrorCode.SHARE_SESSION_NOT_FOUND
    for each in (member, refused):
        each.disconnect()
    world.check_empty()


def test_no_more_is_acquired_of_a_partition_than_may_be() -> None:
    world = World(PoolSettings(share=ShareSettings(most_locks=10)))
    one, two = open_session(world, "one"), open_session(world, "two")
    world.batch_size = 5
    world.produce(0, 30)
    one.fetch(most=10)
    two.ask(wait=5.0)
    assert two.is_parked
    world.check()
    one.say(ACCEPT, 0, [0])
    two.take()
    assert two.held(0)
    world.check()


def test_exactly_as_many_as_it_asks_for(world: World) -> None:
    member = open_session(world)
    world.batch_size = 4
    world.produce(0, 10)
    world.produce(1, 10)
    member.fetch(most=6, exact=True)
    assert len(member.acquired) == 6
    member.fetch(most=6)
    assert len(member.acquired) == 6 + 8, "whole batches, until there are as many"
    world.check()


def test_while_one_partition_has_more_than_enough_the_others_have_their_turn(world: World) -> None:
    member = open_session(world)
    world.batch_size = 10
    for index in range(4):
        world.produce(index, 100)
    for _ in range(4):
        member.fetch(most=10)
    assert [len(member.held(index)) for index in range(4)] == [10] * 4
    world.check()


def test_ranges_are_no_longer_than_they_may_be(world: World) -> None:
    member = open_session(world)
    world.batch_size = 4
    world.produce(0, 12)
    (partition,) = member.fetch(longest=10).partitions
    assert [(first, last) for first, last, _ in partition.acquired] == [(0, 7), (8, 11)]


def test_with_no_room_it_acknowledges_and_is_given_nothing(world: World) -> None:
    member = open_session(world)
    world.produce(0, 5)
    member.fetch()
    world.produce(0, 5)
    result = member.fetch(acknowledge={0: batches_of(ACCEPT, range(5))}, acquires=False)
    assert [each.acknowledge_error for each in result.partitions] == [ErrorCode.NONE]
    assert not result.partitions[0].acquired
    assert world.stored[source(0)] == 5


def test_a_rejected_record_is_given_up(world: World) -> None:
    member = open_session(world)
    world.produce(0, 5)
    member.fetch()
    assert member.say(REJECT, 0, [2]) is ErrorCode.NONE
    assert member.say(ACCEPT, 0) is ErrorCode.NONE
    assert world.stored[source(0)] == 5
    world.check()


def test_what_is_released_too_often_is_given_up(world: World) -> None:
    member = open_session(world)
    world.produce(0, 3)
    for deliveries in range(1, 6):
        member.fetch()
        assert member.acquired[0, 1] == deliveries
        assert member.say(RELEASE, 0, [1]) is ErrorCode.NONE
    assert not member.fetch().partitions
    member.say(ACCEPT, 0)
    assert world.stored[source(0)] == 3
    world.check()


def test_nobody_is_left_in_memory(world: World) -> None:
    one, two = open_session(world, "one"), open_session(world, "two")
    world.produce(0, 10)
    one.fetch()
    two.disconnect()
    one.disconnect()
    world.check_empty()


def test_a_fetch_at_the_first_offset_of_a_share_members_slot_is_a_strangers(world: World) -> None:
    """A share member has no virtual offsets, and names its member id in each request."""
    member = open_session(world)
    share_member = world.pool.members.by_id[member.member_id]
    start = world.cluster.slots.start(share_member.slot)
    stranger = world.consumer("stranger", joined=False, positions={0: start})
    world.produce(0, 3)
    stranger.fetch(wait=0.0)
    world.check()
    assert not stranger.received
    member.fetch()
    assert member.held(0) == [0, 1, 2]


def test_records_that_share_members_had_in_vain_are_not_given_up_together_by_the_limit_of_the_pool() -> None:
    """Their own limit is higher. A dead letter holds one record: the pool used to settle a batch of three for its first
    one."""
    settings = PoolSettings(
        replay_budget=0, redelivery=Redelivery(limit=2), share=ShareSettings(delivery_limit=5), initial_window=20
    )
    world = World(settings)
    member = open_session(world)
    world.produce(0, 3)
    for _ in range(2):
        member.fetch()
        member.say(RELEASE, 0)
        while world.pending_rereads:
            world.reread()
    for letter in world.dead_letters:
        assert len(decode_records(letter.batch)) == 1
    member.fetch()
    assert set(member.acquired) == {(0, 0), (0, 1), (0, 2)}, "by its own limit it may have them thrice more"


@pytest.mark.parametrize("exact", [False, True])
def test_limits_hold_for_share_members(exact: bool) -> None:
    world = World(PoolSettings(sharing=Sharing(limits=(LimitRule(in_flight=20),))))
    world.batch_size = 10
    one, two = open_session(world, "one"), open_session(world, "two")
    one.ask(wait=60.0, exact=exact)
    two.ask(wait=60.0, exact=exact)
    for index in range(4):
        world.produce(index, 40)
    held = sum(member.in_flight for member in world.pool.members)
    assert held == 20 if exact else 20 <= held < 30
    world.check()
    for member in (one, two):
        if not member.is_parked:
            member.take()
            for index in range(4):
                if member.held(index):
                    assert member.say(ACCEPT, index) is ErrorCode.NONE
    world.check()
    one.ask(wait=0.0, exact=exact)
    assert 0 < sum(member.in_flight for member in world.pool.members) < 30, "there is room again"
