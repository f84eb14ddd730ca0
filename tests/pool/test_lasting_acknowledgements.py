"""Acknowledgements above the lowest unacknowledged record survive the mesh."""

from __future__ import annotations

import pytest

from mesh.pool.common.effects import CommitUpstream, LeaveUpstream, Report
from mesh.pool.common.results import CommitResult
from mesh.pool.common.settings import PoolSettings
from mesh.pool.offsets.metadata import unpack
from mesh.pool.state.ledger import Ledger
from mesh.records.spans import CommitPosition, Span
from mesh.wire.errors import ErrorCode
from tests.pool.consumer import Protocol
from tests.pool.harness import Consumer, World, source, value_of

NONE, LATER = ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
METADATA_TOO_LARGE, BROKER_AWAY = 12, 14
FITS = len("kafka-mesh/1 0 AAAA 01234567")


def begin(
    settings: PoolSettings | None = None, auto_store: bool = True, batches: int = 2, protocol: Protocol = "classic"
) -> tuple[World, list[Consumer]]:
    """Members that got three records of one partition each, one after the other."""
    world = World(settings, auto_store=auto_store)
    members = []
    for number in range(batches):
        members.append(world.consumer(f"c{number}", protocol=protocol))
        world.produce(0, 3)
        members[-1].fetch(partitions=[0], wait=0.0)
    return world, members


def commit(world: World, consumer: Consumer) -> object:
    return consumer.commit({0: consumer.positions[0]})


def error(world: World, ticket: object) -> ErrorCode:
    (only,) = world.answer(ticket, CommitResult).errors.values()
    return only


def told(world: World, event: str) -> list[Report]:
    return [effect for effect in world.effects if isinstance(effect, Report) and effect.event == event]


def restarted(before: World, end: int = 0) -> tuple[World, Consumer]:
    """Another mesh, which knows only the upstream state."""
    world = World()
    consumer = world.consumer()
    upstream = before.upstreams[before.group]
    world.upstreams[world.group].stored.update(upstream.stored)
    world.upstreams[world.group].metadata.update(upstream.metadata)
    world.upstreams[world.group].logs.update(upstream.logs)
    world.log_end = end
    world.assign_all()
    return world, consumer


def values(consumer: Consumer) -> list[bytes]:
    return [value for _, _, value in consumer.received]


def expected(*offsets: int) -> list[bytes]:
    return [value_of(source(0), offset) for offset in offsets]


def test_it_is_answered_when_it_is_stored() -> None:
    world, (_, second) = begin(auto_store=False)
    ticket = commit(world, second)
    assert ticket not in world.answers
    world.store()
    assert error(world, ticket) is NONE
    assert world.stored == {source(0): 0}
    assert world.upstreams[world.group].metadata[source(0)].startswith("kafka-mesh/1 0 ")


def test_it_does_not_come_again_after_a_restart() -> None:
    before, (_, second) = begin()
    commit(before, second)
    world, consumer = restarted(before)
    world.produce(0)
    world.produce(0)
    world.produce(0, 2)
    consumer.fetch(partitions=[0])
    consumer.fetch(partitions=[0], wait=0.0)
    assert values(consumer) == expected(0, 1, 2, 6, 7)
    world.check()


def test_a_batch_that_is_settled_in_its_middle_is_cut() -> None:
    before, (first, second) = begin()
    commit(before, second)
    first.commit({0: first.positions[0] - 2})
    world, consumer = restarted(before)
    world.logs[source(0)] = [(0, 9)]
    world.produce(0)
    consumer.fetch(partitions=[0])
    consumer.fetch(partitions=[0], wait=0.0)
    assert values(consumer) == expected(1, 2, 6, 7, 8, 9)
    world.check()


@pytest.mark.parametrize("settled", [(0, 2, 0), (1, 2, 1), (0, 3, 1)])
def test_what_is_settled_at_the_front_of_a_later_batch_is_not_sent(settled: tuple[int, ...]) -> None:
    """librdkafka compares offsets with the one that it asked for, not with the end of the previous batch."""
    before, members = begin(batches=3)
    for member, count in zip(members, settled, strict=True):
        member.commit({0: member.positions[0] - 3 + count})
    world, consumer = restarted(before)
    consumer.fetch(partitions=[0], minimum=100_000)
    for _ in settled:
        world.produce(0)
    world.do(world.cluster.answer_early(consumer.ticket, world.now))
    left = [3 * number + each for number, count in enumerate(settled) for each in range(count, 3)]
    assert values(consumer) == expected(*left)
    world.check()


def test_it_does_not_come_again_when_the_pool_ends_and_starts_again() -> None:
    world, (first, second) = begin()
    world.auto_store = False
    commit(world, second)
    for consumer in (first, second):
        consumer.leave()
        consumer.disconnect()
    world.advance(60.0)
    (left,) = [effect for effect in world.effects if isinstance(effect, LeaveUpstream)]
    assert left.positions[source(0)].offset == 0
    again, consumer = restarted(world)
    again.produce(0)
    again.produce(0)
    consumer.fetch(partitions=[0])
    assert values(consumer) == expected(0, 1, 2)


def test_a_log_that_was_cut_off_may_have_other_records_there() -> None:
    before, (_, second) = begin()
    commit(before, second)
    world, consumer = restarted(before, end=5)
    world.produce(0)
    world.produce(0)
    consumer.fetch(partitions=[0])
    consumer.fetch(partitions=[0], wait=0.0)
    assert values(consumer) == expected(0, 1, 2, 3, 4, 5)


@pytest.mark.parametrize(("parts_at", "again"), [(0, True), (3, True), (5, True), (6, False), (100, False)])
def test_a_log_that_was_cut_off_and_has_grown_again(parts_at: int, again: bool) -> None:
    """The engine reports from which offset on the log no longer is the one with the stored leader epoch: 3 to 5 were
    acknowledged."""
    before, (_, second) = begin()
    commit(before, second)
    world, consumer = restarted(before, end=50)
    world.upstream(lambda pool: pool.intake.truncated(source(0), parts_at, world.now))
    world.produce(0)
    world.produce(0)
    consumer.fetch(partitions=[0])
    consumer.fetch(partitions=[0], wait=0.0)
    assert values(consumer) == expected(0, 1, 2, *range(max(parts_at, 3), 6))
    assert bool(told(world, "records and acknowledgements discarded: upstream log truncated")) == again


def test_what_is_stored_says_whether_the_engine_has_read_it_all() -> None:
    """Only then the engine's last leader epoch is that of all of it. Epochs that were stored before still count."""
    before, (_, second) = begin()
    before.auto_store = False
    commit(before, second)
    (effect,) = [each for each in before.effects if isinstance(each, CommitUpstream)]
    assert effect.positions[source(0)].is_read
    read = Ledger(0)
    read.receive(0, 9)
    read.settle(5, 9)
    assert read.has_read(9)
    assert not read.has_read(10), "a lease holds it"
    read.settle(12, 13)
    assert not read.has_read(-1), "a lease is ahead of the engine"
    for epoch in (4, -1):
        stored = Ledger(0, CommitPosition(0, "", leader_epoch=epoch), [Span(3, 5)])
        stored.extend_epoch(9)
        assert stored.has_read(9) == (epoch == 4)


@pytest.mark.parametrize("metadata", ["kafka-mesh/9 0 x y", "kafka-mesh/1 0 BAa 00000000"])
def test_metadata_that_cannot_be_read_is_passed_over_with_a_warning(metadata: str) -> None:
    before, (_, second) = begin()
    commit(before, second)
    before.upstreams[before.group].store({source(0): CommitPosition(0, metadata)})
    world, consumer = restarted(before)
    world.produce(0)
    world.produce(0)
    consumer.fetch(partitions=[0])
    consumer.fetch(partitions=[0], wait=0.0)
    assert values(consumer) == expected(0, 1, 2, 3, 4, 5)
    assert len(told(world, "upstream commit metadata ignored")) == 1


def test_what_does_not_fit_is_answered_as_not_stored_until_it_does() -> None:
    world, members = begin(PoolSettings(metadata_limit=FITS), batches=4)
    second, fourth = commit(world, members[1]), commit(world, members[3])
    assert error(world, second) is NONE
    assert fourth not in world.answers
    world.advance(3.0)
    assert error(world, fourth) is LATER
    sent = len([effect for effect in world.effects if isinstance(effect, CommitUpstream)])
    again = commit(world, members[3])
    assert again not in world.answers
    assert len([effect for effect in world.effects if isinstance(effect, CommitUpstream)]) == sent, "nothing new fits"
    assert error(world, commit(world, members[0])) is NONE
    assert error(world, again) is NONE
    world.check()


def test_a_member_that_is_alone_and_repeats_a_commit_that_does_not_fit_is_asked_to_join_again() -> None:
    """Some clients repeat the commit for ever and process nothing meanwhile. No other member is there to take the
    lowest record, without which the commit never fits."""
    world, members = begin(PoolSettings(metadata_limit=FITS, lock_timeout=30.0), batches=4)
    alone = members.pop(3)
    codes = [error(world, commit(world, members[1]))]
    began = world.now
    while codes[-1] is not ErrorCode.REBALANCE_IN_PROGRESS and world.now < began + 300.0:
        ticket = commit(world, alone)
        if ticket not in world.answers:
            world.advance(3.0)
        codes.append(error(world, ticket))
        for other in members:
            other.leave()
        members.clear()
        alone.heartbeat()
    assert codes == [NONE, *[LATER] * 11, ErrorCode.REBALANCE_IN_PROGRESS], "not before nobody may be silent for longer"
    assert alone.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    alone.join()
    assert alone.heartbeat() is NONE
    alone.fetch(partitions=[0], wait=0.0)
    assert values(alone)[3:6] == expected(0, 1, 2)
    assert error(world, commit(world, alone)) is NONE
    world.check()


@pytest.mark.parametrize(
    ("protocol", "keeps_its_position"), [("classic", False), ("classic", True), ("consumer", False)]
)
def test_a_member_that_joins_again_for_want_of_room_is_given_the_lowest_record_before_what_it_holds(
    protocol: Protocol, keeps_its_position: bool
) -> None:
    """It holds more records than it has tried to commit; one that commits every hundred records would be asked for
    each. Some clients go on with records that they had fetched."""
    world, members = begin(PoolSettings(metadata_limit=FITS, lock_timeout=30.0), batches=4, protocol=protocol)
    alone = members.pop(3)
    processed = dict(alone.positions)
    world.produce(0, 3)
    alone.fetch(partitions=[0], wait=0.0)
    assert error(world, commit(world, members[1])) is NONE
    for other in members:
        other.leave()
    code, began = LATER, world.now
    while code is LATER and world.now < began + 300.0:
        ticket = alone.commit({0: processed[0]})
        if ticket not in world.answers:
            world.advance(3.0)
        code = error(world, ticket)
    asked = ErrorCode.REBALANCE_IN_PROGRESS if protocol == "classic" else ErrorCode.UNKNOWN_MEMBER_ID
    assert code is asked
    held = values(alone)[3:]
    assert held == expected(12, 13, 14)
    fetched = dict(alone.positions)
    assert error(world, alone.commit({0: processed[0]})) is asked, "until it has"
    alone.join()
    if keeps_its_position:
        assert error(world, alone.commit({0: processed[0] + 1})) is NONE
        alone.positions.update(fetched)
    alone.fetch(partitions=[0], wait=0.0)
    assert values(alone)[6:] == expected(0, 1, 2, 6, 7, 8), "what lies above it would need room again"
    assert error(world, commit(world, alone)) is NONE
    alone.fetch(partitions=[0], wait=0.0)
    assert values(alone)[12:] == held
    assert error(world, commit(world, alone)) is NONE
    assert world.stored[source(0)] == 15
    world.check()


def test_a_member_that_goes_on_meanwhile_is_not_asked_to_join_again() -> None:
    world, members = begin(PoolSettings(metadata_limit=FITS, lock_timeout=30.0), batches=4)
    commit(world, members[1])
    first = members[3].positions[0] - 2
    for number in range(24):
        ticket = members[3].commit({0: first + number // 8})
        world.advance(3.0)
        assert error(world, ticket) is LATER
        assert members[3].heartbeat() is NONE


def test_a_partition_that_is_full_delivers_nothing_new_until_its_lowest_record_is_settled() -> None:
    world, members = begin(PoolSettings(metadata_limit=30), batches=2)
    commit(world, members[1])
    assert len(told(world, "partition waits for its lowest unacknowledged record")) == 1
    members[1].fetch(partitions=[0], wait=30.0)
    world.produce(0)
    assert members[1].is_parked
    world.check()
    commit(world, members[0])
    assert not members[1].is_parked
    assert values(members[1])[-10:] == expected(*range(6, 16))
    world.check()


@pytest.mark.parametrize("replay", [0, 1 << 20])
def test_the_lowest_record_is_given_to_others_though_its_partition_is_full(replay: int) -> None:
    settings = PoolSettings(metadata_limit=30, partition_budget=1_000, replay_budget=replay)
    world, members = begin(settings, batches=2)
    commit(world, members[1])
    while world.is_consumed(0):
        world.produce(0, 10)
    members[1].fetch(partitions=[0], wait=30.0)
    assert members[1].is_parked
    members[0].leave()
    assert values(members[1])[-3:] == expected(0, 1, 2)
    commit(world, members[1])
    members[1].fetch(partitions=[0], wait=0.0)
    assert values(members[1])[6:16] == expected(*range(6, 16))
    world.check()


def test_brokers_that_allow_less_are_sent_less() -> None:
    world, members = begin(auto_store=False, batches=60)
    tickets = [commit(world, members[number]) for number in range(1, 60, 2)]
    world.store(BROKER_AWAY)
    world.advance(0.5)
    longest = len(world.pending_stores[0].positions[source(0)].metadata)
    world.store(METADATA_TOO_LARGE)
    world.advance(0.5)
    shorter = len(world.pending_stores[0].positions[source(0)].metadata)
    assert FITS <= shorter <= longest // 2
    world.store()
    assert error(world, tickets[0]) is NONE
    assert len(told(world, "upstream cluster allows less commit metadata")) == 1
    world.advance(3.0)
    assert error(world, tickets[-1]) is LATER


def is_stored(world: World, offset: int) -> bool:
    """True if a new mesh would know that it was acknowledged."""
    upstream = world.upstreams[world.group]
    base = upstream.stored.get(source(0), 0)
    runs = unpack(source(0), base, upstream.metadata.get(source(0), "")).runs
    return offset < base or any(run.first <= offset <= run.last for run in runs)


class Brokers:
    """Brokers that store only so much metadata, and the offsets that were answered as stored."""

    def __init__(self, world: World, members: list[Consumer]) -> None:
        self.world = world
        self.members = members
        self.limit = 4_096
        self.answered: set[int] = set()

    def commit(self, number: int) -> ErrorCode:
        ticket = commit(self.world, self.members[number])
        while ticket not in self.world.answers:
            while self.world.pending_stores:
                position = self.world.pending_stores[0].positions[source(0)]
                self.world.store(METADATA_TOO_LARGE if len(position.metadata) > self.limit else 0)
                self.check()
            self.world.advance(0.1)
        answer = error(self.world, ticket)
        if answer is NONE:
            self.answered.add(number)
        self.check()
        return answer

    def check(self) -> None:
        assert all(is_stored(self.world, 3 * number) for number in self.answered)
        self.world.check()


@pytest.mark.parametrize("allowed", [0, FITS - 1, FITS, FITS + 2])
def test_what_was_answered_stays_stored_when_brokers_allow_less(allowed: int) -> None:
    world, members = begin(auto_store=False, batches=12)
    brokers = Brokers(world, members)
    assert [brokers.commit(number) for number in (9, 5, 7)] == [NONE] * 3
    brokers.limit = allowed
    assert [brokers.commit(number) for number in (3, 11)] == [LATER] * 2
    for number in (0, 1, 2, 4, 6, 8):
        brokers.commit(number)
    assert [brokers.commit(number) for number in (10, 3, 11)] == [NONE] * 3
    assert world.stored == {source(0): 36}
    assert world.upstreams[world.group].metadata[source(0)] == ""


def test_what_is_new_does_not_take_the_room_of_what_was_answered() -> None:
    """The lowest runs come first; but those above them were answered."""
    world, members = begin(PoolSettings(metadata_limit=FITS + 2), auto_store=False, batches=8)
    brokers = Brokers(world, members)
    assert [brokers.commit(number) for number in (3, 7)] == [NONE] * 2
    assert brokers.commit(5) is LATER
    assert brokers.commit(1) is LATER
    assert brokers.commit(0) is NONE, "with it the second"
    assert world.stored == {source(0): 6}
    assert brokers.commit(2) is NONE
    assert brokers.commit(4) is NONE
    assert world.stored == {source(0): 18}


def test_what_was_answered_is_not_given_up_with_the_last_commit_of_a_pool() -> None:
    world, members = begin(PoolSettings(metadata_limit=FITS), auto_store=False)
    brokers = Brokers(world, [*members, *begin_more(world, 4)])
    assert brokers.commit(5) is NONE
    assert brokers.commit(3) is LATER
    for consumer in brokers.members:
        consumer.leave()
        consumer.disconnect()
    world.advance(60.0)
    brokers.check()


def begin_more(world: World, batches: int) -> list[Consumer]:
    """Adds members, each of which was sent three records."""
    members = []
    for number in range(batches):
        members.append(world.consumer(f"further-{number}"))
        world.produce(0, 3)
        members[-1].fetch(partitions=[0], wait=0.0)
    return members
