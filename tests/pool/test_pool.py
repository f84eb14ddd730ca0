"""A pool and its upstream events."""

from __future__ import annotations

import pytest

from mesh.pool.common.delivery_events import DeliveryEventType
from mesh.pool.common.effects import Effect, Gone, LeaveUpstream, Report, SubscribeUpstream
from mesh.pool.common.ids import GroupId
from mesh.pool.common.settings import PoolSettings
from mesh.pool.intake.intake import Assignment
from mesh.pool.offsets.commits import PASS_AFTER
from mesh.pool.offsets.metadata import pack
from mesh.pool.state.partition import Ownership, Violation
from mesh.records.spans import CommitPosition, Gap, Span, TopicName
from mesh.wire.errors import ErrorCode
from tests.pool.harness import EU, GROUP, ORDERS, US, Consumer, World, batch_of, offsets, source, value_of


def member(world: World, name: str = "c") -> Consumer:
    consumer = world.consumer(name)
    world.assign_all()
    return consumer


def values(consumer: Consumer) -> list[bytes]:
    return [value for _, _, value in consumer.received]


def told(world: World, event: str) -> list[Report]:
    return [effect for effect in world.effects if isinstance(effect, Report) and effect.event == event]


class Lenient(World):
    """A world that records errors."""

    def do(self, effects: list[Effect]) -> None:
        errors = [effect for effect in effects if isinstance(effect, Report) and effect.level == "error"]
        self.effects += errors
        super().do([effect for effect in effects if effect not in errors])


# Topics


def test_a_pool_subscribes_to_what_some_member_has_fetched() -> None:
    world = World(assigned=False)
    consumer = world.consumer()
    assert not [effect for effect in world.effects if isinstance(effect, SubscribeUpstream)]
    consumer.fetch()
    assert [effect for effect in world.effects if isinstance(effect, SubscribeUpstream)] == [
        SubscribeUpstream(GROUP, EU, frozenset([ORDERS])),
        SubscribeUpstream(GROUP, US, frozenset([ORDERS])),
    ]
    consumer.fetch()
    assert len([effect for effect in world.effects if isinstance(effect, SubscribeUpstream)]) == 2


def test_a_source_that_comes_while_running_is_subscribed_to() -> None:
    world = World(assigned=False)
    world.cluster.topics.update(US, {})
    world.cluster.topics.update(EU, {})
    world.do(world.cluster.topics_changed(EU, {ORDERS: 2}, world.now))
    world.consumer(joined=False, positions={0: 0}).fetch()
    assert len([effect for effect in world.effects if isinstance(effect, SubscribeUpstream)]) == 1
    world.do(world.cluster.topics_changed(US, {ORDERS: 2}, world.now))
    assert [effect.cluster for effect in world.effects if isinstance(effect, SubscribeUpstream)] == [EU, US]


def test_partitions_that_are_added_while_running_are_appended_and_served() -> None:
    world = World()
    consumer = member(world)
    world.do(world.cluster.topics_changed(EU, {ORDERS: 3}, world.now))
    assert len(world.cluster.topics.partitions(ORDERS)) == 5
    consumer.reset([4])
    consumer.fetch(partitions=[4])
    assert consumer.is_parked


# Assignments


def test_a_fetch_on_a_partition_that_is_not_ours_parks() -> None:
    world = World(assigned=False)
    consumer = world.consumer()
    consumer.fetch(wait=30.0)
    assert consumer.is_parked
    world.check()


def test_records_of_a_partition_that_is_not_ours_are_not_taken() -> None:
    world = World(assigned=False)
    consumer = world.consumer()
    consumer.fetch(wait=30.0)
    world.upstream(lambda pool: pool.intake.received(source(0), [batch_of(source(0), 0, 4)], world.now))
    assert consumer.is_parked
    world.check()


def test_state_is_kept_from_revoke_to_assign_for_partitions_that_come_back() -> None:
    world = World()
    consumer = member(world)
    world.produce(0, 3)
    consumer.fetch()
    world.produce(0, 3)
    world.upstream(lambda pool: pool.intake.revoked([source(0), source(1)]))
    consumer.fetch()
    assert consumer.is_parked, "nothing is delivered until it comes back"
    world.check()
    world.assign(EU, resumed=True)
    assert len(consumer.received) == 6
    consumer.commit()
    assert world.stored[source(0)] == 6
    world.check()


def test_a_partition_that_does_not_come_back_is_forgotten() -> None:
    world = World()
    consumer = member(world)
    world.produce(0, 3)
    world.produce(1, 3)
    consumer.fetch(partitions=[0])
    world.produce(0, 3)
    world.assign(EU, resumed=True, indexes=[1])
    lost = world.pool.partitions[source(0)]
    assert lost.ownership is Ownership.UNASSIGNED
    assert not lost.backlog
    assert world.pool.members.by_id[consumer.member_id].in_flight == 0
    assert world.pool.partitions[source(1)].backlog
    world.check()


def test_a_partition_that_goes_and_comes_back_is_read_from_what_was_stored() -> None:
    world = World()
    consumer = member(world)
    world.produce(0, 6)
    consumer.fetch()
    consumer.commit({0: consumer.positions[0] - 4})
    world.upstream(lambda pool: pool.intake.lost([source(0)]))
    world.check()
    world.assign(EU)
    assert consumer.heartbeat() is consumer.asks_to_join_again
    consumer.join()
    consumer.fetch()
    world.produce(0)
    assert values(consumer)[-4:] == [value_of(source(0), offset) for offset in range(2, 6)]
    world.check()


def test_what_a_parked_fetch_has_collected_of_a_lost_partition_is_taken_out_of_it() -> None:
    world = World()
    consumer = member(world)
    consumer.fetch(minimum=100_000, wait=5.0)
    world.produce(0, 3)
    world.produce(2, 3)
    world.upstream(lambda pool: pool.intake.lost([source(0)]))
    world.check()
    world.advance(5.0)
    assert [partition for partition, _, _ in consumer.received] == [2, 2, 2]
    world.check()


def test_a_loss_makes_room_and_offers_the_backlog_of_other_partitions() -> None:
    world = World(PoolSettings(initial_window=3))
    consumer, other = member(world), world.consumer("other")
    other.fetch(partitions=[3], wait=30.0)
    world.produce(0, 3)
    consumer.fetch(partitions=[0], wait=30.0)
    consumer.fetch(partitions=[2], wait=30.0)
    world.produce(2, 3)
    assert consumer.is_parked
    world.upstream(lambda pool: pool.intake.lost([source(0)]))
    assert not consumer.is_parked
    world.check()


def test_offsets_that_start_again_void_what_was_known_with_one_warning() -> None:
    world = World()
    consumer = member(world)
    world.produce(0, 6)
    consumer.fetch()
    world.upstream(lambda pool: pool.intake.position_reset(source(0), 0, "made anew", world.now))
    assert len(told(world, "upstream partition reset")) == 1
    ledger = world.pool.partitions[source(0)].ledger
    assert (ledger.committable, ledger.received) == (0, 0)
    assert world.stored == {source(0): 0}, "where it begins is stored at once, below what was"
    consumer.fetch()
    world.upstream(lambda pool: pool.intake.received(source(0), [batch_of(source(0), 0, 2)], world.now))
    assert values(consumer)[-3:] == [value_of(source(0), offset) for offset in range(3)]
    assert len({offset for _, offset, _ in consumer.received}) == 9, "at offsets of their own"
    world.check()


def test_offsets_that_start_again_while_they_are_revoked_wait_for_the_rebalance() -> None:
    world = World()
    consumer = member(world)
    world.produce(0, 6)
    consumer.fetch()
    world.upstream(lambda pool: pool.intake.revoked([source(0)]))
    world.upstream(lambda pool: pool.intake.position_reset(source(0), 0, "made anew", world.now))
    assert world.pool.partitions[source(0)].ownership is Ownership.REVOKED
    assert world.stored == {}, "nothing is stored of what is not ours"
    world.upstream(lambda pool: pool.intake.received(source(0), [batch_of(source(0), 0, 2)], world.now))
    consumer.fetch(partitions=[0], wait=30.0)
    assert len(consumer.received) == 6
    world.check()
    world.ends[source(0)] = 3
    world.assign(EU, resumed=True)
    assert values(consumer)[-3:] == [value_of(source(0), offset) for offset in range(3)]
    assert world.stored == {source(0): 0}
    world.check()


def test_control_records_aborted_data_and_gaps_count_as_acknowledged() -> None:
    world = World()
    consumer = member(world)
    world.produce(0, 3)
    world.produce(0, 3, gap=2)
    consumer.fetch()
    consumer.commit()
    assert world.stored == {source(0): 8}
    world.upstream(lambda pool: pool.intake.reached_end(source(0), 10))
    assert world.stored == {source(0): 8}, "nothing was acknowledged that would have to be stored"
    world.advance(PASS_AFTER)
    assert world.stored == {source(0): 10}


@pytest.mark.parametrize("gap", Gap)
def test_what_was_deleted_before_it_was_read_is_told_and_what_had_no_record_is_not(gap: Gap) -> None:
    world = World()
    consumer = member(world)
    world.produce(0, 3)
    world.upstream(lambda pool: pool.intake.reached_end(source(0), 10, gap))
    batch = batch_of(source(0), 14, 16)
    world.upstream(lambda pool: pool.intake.received(source(0), [batch], world.now, gap))
    consumer.fetch()
    consumer.commit()
    assert world.stored == {source(0): 17}
    told = [(e.span, e.offsets, e.was_read) for e in world.effects if isinstance(e, Gone)]
    assert told == ([(Span(3, 9), 7, False), (Span(10, 13), 4, False)] if gap is Gap.DELETED else [])
    assert world.journal.known[GROUP, source(0)].empty == ({*range(3, 14)} if gap is Gap.EMPTY else set())
    assert (DeliveryEventType.DELETED in world.journal.seen) == (gap is Gap.DELETED)


def test_what_was_settled_before_it_was_deleted_is_not_told() -> None:
    world = World()
    world = World()
    world.consumer().fetch()
    committed = CommitPosition(2, pack(source(0), 2, [Span(4, 6)], 4_000).text)
    world.upstream(lambda pool: pool.intake.assigned(EU, [Assignment(source(0), 2, committed, False)], world.now))
    world.upstream(lambda pool: pool.intake.reached_end(source(0), 9, Gap.DELETED))
    told = [(e.span, e.offsets) for e in world.effects if isinstance(e, Gone)]
    assert told == [(Span(2, 8), 4)], "2, 3, 7 and 8"


def test_the_lag_is_what_lies_between_the_stored_offset_and_the_end() -> None:
    world = World()
    consumer = member(world)
    world.produce(0, 6)
    world.upstream(lambda pool: pool.intake.ends_known({source(0): 20}))
    assert world.pool.partitions[source(0)].lag == 20
    consumer.fetch()
    consumer.commit()
    assert world.pool.partitions[source(0)].lag == 14
    world.upstream(lambda pool: pool.intake.lost([source(0)]))
    assert world.pool.partitions[source(0)].lag == 0


# Members that are silent


def test_a_silent_member_loses_what_it_holds_to_others() -> None:
    """It heartbeats, and sends neither Fetch nor OffsetCommit."""
    world = World(PoolSettings(lock_timeout=100.0))
    silent, other = member(world, "a"), world.consumer("b")
    world.produce(0, 3)
    silent.fetch()
    other.fetch(wait=5.0)

    def live(seconds: int) -> None:
        for _ in range(seconds // 5):
            world.advance(5.0)
            silent.heartbeat()
            other.heartbeat()
            if not other.is_parked:
                other.fetch(wait=5.0)

    live(95)
    assert not other.received
    live(20)
    assert values(other) == values(silent)
    assert len(told(world, "silent member lost its records")) == 1
    assert silent.heartbeat() is ErrorCode.NONE
    world.check()


def test_a_longer_rebalance_timeout_makes_silence_longer() -> None:
    world = World(PoolSettings(lock_timeout=10.0))
    silent = world.consumer(joined=False)
    silent.join(rebalance_timeout=100.0)
    world.produce(0, 3)
    silent.fetch()
    for _ in range(9):
        world.advance(10.0)
        silent.heartbeat()
    assert world.pool.members.by_id[silent.member_id].in_flight == 3
    world.advance(12.0)
    assert world.pool.members.by_id[silent.member_id].in_flight == 0


@pytest.mark.parametrize("sign", ["a fetch that waits", "fetches", "commits"])
def test_a_member_that_asks_or_commits_is_not_silent(sign: str) -> None:
    world = World(PoolSettings(lock_timeout=10.0))
    consumer = world.consumer(joined=False)
    consumer.join(rebalance_timeout=5.0)
    world.produce(0, 3)
    consumer.fetch()
    for _ in range(3):
        match sign:
            case "fetches":
                consumer.fetch(wait=0.0)
            case "commits":
                consumer.commit({1: consumer.positions[1]})
            case _ if not consumer.is_parked:
                consumer.fetch(wait=25.0)
            case _:
                pass
        world.advance(8.0)
    assert not told(world, "silent member lost its records")


def test_a_member_at_its_cap_that_has_never_committed_is_named_once() -> None:
    world = World(PoolSettings(initial_window=3))
    mute, other = member(world, "a"), world.consumer("b")
    other.fetch(partitions=[3], wait=30.0)
    for _ in range(40):
        world.produce(0, 3)
        if not mute.is_parked:
            mute.fetch(partitions=[0], wait=30.0)
        world.advance(1.0)
        mute.heartbeat()
        other.heartbeat()
        if not other.is_parked:
            other.fetch(partitions=[3], wait=30.0)
    (warning,) = told(world, "member at its cap has never committed")
    assert warning.fields["member"] == mute.member_id


# End


def test_the_pool_leaves_upstream_when_the_last_member_goes_after_a_while() -> None:
    world = World(PoolSettings(linger=1.0))
    consumer = member(world)
    consumer.leave()
    world.advance(0.9)
    assert not [effect for effect in world.effects if isinstance(effect, LeaveUpstream)]
    world.advance(0.1)
    assert [effect for effect in world.effects if isinstance(effect, LeaveUpstream)] == [LeaveUpstream(GROUP, {})]
    consumer.disconnect()
    world.check_empty()


def test_a_member_that_restarts_finds_the_pool_there() -> None:
    world = World(PoolSettings(linger=1.0))
    consumer = member(world)
    world.produce(0, 3)
    consumer.leave()
    world.advance(0.7)
    again = world.consumer("again")
    world.advance(5.0)
    again.heartbeat()
    again.fetch()
    assert len(again.received) == 3
    assert not [effect for effect in world.effects if isinstance(effect, LeaveUpstream)]


@pytest.mark.parametrize("began", [0.1, 1_000.1, 123_456.789, 3e8 / 7])
def test_a_pool_ends_whatever_the_clock_says(began: float) -> None:
    """The measured time may be a bit less than the time that was waited for."""
    world = World(PoolSettings(linger=0.7))
    world.now = began
    consumer = world.consumer()
    consumer.leave()
    consumer.disconnect()
    world.check_empty()


def test_a_violation_closes_that_pool_only_and_members_come_back_to_a_new_one() -> None:
    world = Lenient()
    consumer = member(world)
    other = world.consumer("other", group=GroupId("other"))
    other.fetch(wait=30.0)
    world.produce(0, 3)
    consumer.fetch()
    consumer.fetch(wait=30.0)
    partition = world.pool.partitions[source(0)]
    partition.backlog[99] = object()
    world.upstream(lambda pool: pool.intake.reached_end(source(0), 3))
    assert GROUP not in world.cluster.pools
    assert len(told(world, "pool closed: invariant violated")) == world.cluster.violations == 1
    assert not consumer.is_parked, "every request is let go"
    assert other.is_parked
    assert other.heartbeat() is ErrorCode.NONE
    assert consumer.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    consumer.member_id = type(consumer.member_id)("")
    assert consumer.join().error is ErrorCode.NONE
    world.produce(0)
    consumer.fetch()
    assert len(values(consumer)) == 6, "nothing was acknowledged, so it comes again"
    for each in (consumer, other):
        each.leave()
        each.disconnect()
    world.check_empty()


def test_fetches_that_are_complete_are_let_go_as_well_when_their_answers_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Lenient()
    consumers = [world.consumer(name) for name in ("one", "two")]
    world.assign_all()
    for consumer in consumers:
        consumer.fetch(wait=30.0)
    monkeypatch.setattr("mesh.pool.fetch.responses.Responses.of", lambda *_: 1 // 0)
    world.produce_together({0: 10, 1: 10}, 5)
    monkeypatch.undo()
    assert GROUP not in world.cluster.pools
    assert not any(consumer.is_parked for consumer in consumers)
    assert not any(consumer.received for consumer in consumers)
    assert not world.cluster._parked


def test_a_violation_in_the_middle_of_a_leave_keeps_no_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Lenient()
    consumer = member(world)
    monkeypatch.setattr(world.pool.serving, "drop", lambda *_: (_ for _ in ()).throw(Violation("on purpose")))
    consumer.leave()
    consumer.disconnect()
    assert len(world.cluster.slots) == 0
    world.check_empty()


def test_timers_of_a_pool_that_was_closed_do_nothing() -> None:
    world = Lenient()
    consumer = member(world)
    consumer.fetch(wait=30.0)
    timers = world.pool.timers
    world.pool.partitions[source(0)].backlog[99] = object()
    world.upstream(lambda pool: pool.intake.reached_end(source(0), 3))
    assert timers.next() is not None
    effects = len(world.effects)
    world.advance(1_000.0)
    assert len(world.effects) == effects


def test_when_the_process_stops_everything_is_answered_and_committed() -> None:
    world = World(auto_store=False)
    consumer, joining = member(world), world.consumer("joining", joined=False)
    world.produce(0, 6)
    consumer.fetch()
    commit = consumer.commit({0: consumer.positions[0] - 2})
    consumer.fetch(wait=30.0)
    world.do(world.cluster.drain(world.now))
    assert not consumer.is_parked
    assert commit in world.answers
    (left,) = [effect for effect in world.effects if isinstance(effect, LeaveUpstream)]
    assert offsets(left) == {source(0): 4}
    for each in (consumer, joining):
        each.disconnect()
    world.check_empty()


def test_a_fetch_that_comes_after_the_stop_finds_nobody_it_belongs_to() -> None:
    world = World()
    consumer = member(world)
    world.do(world.cluster.drain(world.now))
    consumer.fetch(wait=5.0)
    assert consumer.is_parked
    world.advance(5.0)
    assert not consumer.is_parked
    assert consumer.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_after_everybody_left_nothing_is_kept() -> None:
    world = World(PoolSettings(initial_window=5), auto_reread=True)
    consumers = [member(world, f"c{number}") for number in range(5)]
    unidentified = [world.consumer(joined=False, positions={0: 0}) for _ in range(3)]
    for number in range(50):
        world.produce(number % 4, 7)
        for consumer in (*consumers, *unidentified):
            if not consumer.is_parked:
                consumer.fetch(wait=0.5)
        consumers[number % 5].commit()
        if number % 7 == 0 and not consumers[0].is_parked:
            consumers[0].positions[number % 4] = world.cluster.list_offset(-1)
            world.reconnect(consumers[1])
        world.advance(0.1)
        world.check()
    pool = world.pool
    for consumer in consumers:
        consumer.leave()
    for connection in sorted(world.connections):
        world.disconnect(connection)
    world.check_empty()
    assert not pool.members.by_id
    assert not pool.serving.fetches
    assert not pool.serving.distribution.members
    assert pool.serving.distribution._queue.size == 0
    assert not pool.serving.distribution.window_limits._growing
    assert not any(partition.parked or partition.waiting for partition in pool.partitions.values())


def test_unknown_names_are_looked_for_upstream_only_if_they_may_exist() -> None:
    world = World()
    assert world.cluster.missing_topic(ORDERS)
    assert not world.cluster.missing_topic(TopicName("nothing"))


def test_deadlines_of_fetches_that_were_answered_are_let_go() -> None:
    world = World()
    consumer = member(world)
    for number in range(1_000):
        consumer.fetch(wait=30.0)
        world.produce(number % 4, 1)
    assert len(world.pool.timers) < 300
