"""Random lives of leases beside members, with a kill -9 of the mesh between any two steps: no granted record goes to
another member, no acknowledged record comes again, and none is lost."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mesh.pool.common.ids import GroupId
from mesh.pool.common.settings import PoolSettings
from mesh.pool.pool import Pool
from mesh.pool.state.leases import (
    Acknowledgement,
    Claim,
    HolderId,
    LeaseGranted,
    LeaseId,
    LeaseRequest,
    LeaseSettled,
    Range,
)
from mesh.records.spans import Span
from mesh.wire.errors import ErrorCode
from tests.pool.harness import GROUP, ORDERS, Consumer, World, source, value_of

HOLDERS = st.sampled_from([HolderId("one"), HolderId("two")])
INDEX = st.integers(0, 3)
TTL = 60.0
SETTINGS = PoolSettings(presence=10_000.0, initial_window=5, partition_budget=800, pool_budget=2_000)


class LeasedWorld(World):
    """A world with leases. granted: the offsets of every lease that was answered and has not ended. done: acknowledged
    offsets, with an answer."""

    def __init__(self) -> None:
        super().__init__(SETTINGS, auto_store=False)
        self.granted: dict[HolderId, set[bytes]] = {}
        self.done: set[bytes] = set()

    def given(self, group: GroupId, partition: int, offset: int, value: bytes) -> None:
        super().given(group, partition, offset, value)
        assert not any(value in held for held in self.granted.values()), "somebody leases it"
        assert value not in self.done, "it was acknowledged"


class LeaseMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.ends = dict.fromkeys((source(index) for index in range(4)), 0)
        self.leases: dict[HolderId, tuple[LeaseId, tuple[Range, ...]]] = {}
        self.waiting: dict[HolderId, object] = {}
        self.count = 0
        self.acknowledged: set[bytes] = set()
        self.world = LeasedWorld()
        self.consumer: Consumer | None = None
        self.ask(lambda pool, ticket: pool.lease(ticket, self.request(HolderId("nobody"), 0), self.world.now))
        self.world.assign_all()
        for index in range(4):
            self.produce(index, 10)

    def ask(self, step: object) -> object:
        ticket = self.world.ticket()
        world = self.world
        error, effects = world.cluster.leasing(GROUP, lambda pool: step(pool, ticket), world.now)  # type: ignore[operator]
        assert error is ErrorCode.NONE
        world.do(effects)
        return ticket

    def request(self, holder: HolderId, most: int) -> LeaseRequest:
        self.count += 1
        last = self.leases.get(holder)
        id = LeaseId(f"lease-{self.count}")
        completed = last[0] if last else None
        return LeaseRequest(id=id, holder=holder, topics=(ORDERS,), most=most, ttl=TTL, completed=completed)

    @rule(index=INDEX, count=st.integers(1, 12))
    def produce(self, index: int, count: int) -> None:
        self.ends[source(index)] += count
        ends = dict(self.ends)
        self.world.upstream(lambda pool: pool.intake.ends_known(ends))

    @rule(counts=st.lists(st.integers(0, 9), min_size=4, max_size=4))
    def a_member_fetches(self, counts: list[int]) -> None:
        """Meanwhile the engine brings so many of each partition, as far as it may."""
        world = self.world
        if self.consumer is None:
            self.consumer = world.consumer(f"c{self.count}")
        if not self.consumer.is_parked:
            self.consumer.fetch(wait=5.0)
        for index, count in enumerate(counts):
            partition = source(index)
            position = world.ends.get(partition, 0)
            last = min(position + count, self.ends[partition])
            if world.is_consumed(index) and position < last:
                world.logs[partition] = [(position, last - 1)]
                world.produce(index)
        world.check()

    @rule()
    def commit(self) -> None:
        if self.consumer is None:
            return
        positions = dict(self.consumer.positions)
        self.consumer.commit(positions)
        for index, virtual, value in self.consumer.received:
            if virtual < positions[index]:
                self.acknowledged.add(value)

    @rule()
    def leave(self) -> None:
        if self.consumer is None:
            return
        self.consumer.leave()
        self.consumer.disconnect()
        self.consumer = None

    @rule(holder=HOLDERS, most=st.integers(1, 40))
    def lease(self, holder: HolderId, most: int) -> None:
        """Its last lease stays if it has not acknowledged it, as with Spark when it asks for the next one."""
        if holder in self.leases or holder in self.waiting:
            return
        wanted = self.request(holder, most)
        self.world.granted.pop(holder, None)
        ticket = self.ask(lambda pool, ticket: pool.lease(ticket, wanted, self.world.now))
        for each in range(3):
            if self.world.pending_stores and each:
                self.world.store()
        answer = self.world.answers.pop(ticket, None)
        if isinstance(answer, LeaseGranted) and answer.ranges:
            self.leases[holder] = (answer.id, answer.ranges)
            self.world.granted[holder] = values_of(answer.ranges)

    @rule(holder=HOLDERS, most=st.integers(1, 40))
    def lease_what_comes(self, holder: HolderId, most: int) -> None:
        """The answer comes in one of the next steps, or after several."""
        if holder not in self.leases and holder not in self.waiting:
            wanted = replace(self.request(holder, most), wait=2.0)
            self.waiting[holder] = self.ask(lambda pool, ticket: pool.lease(ticket, wanted, self.world.now))

    @rule(holder=HOLDERS, part=st.booleans(), number=st.integers(0, 100))
    def acknowledge(self, holder: HolderId, part: bool, number: int) -> None:
        if holder not in self.leases:
            return
        id, ranges = self.leases[holder]
        if part:
            each = ranges[number % len(ranges)]
            ranges = (Range(each.partition, Span(each.span.first, each.span.first + number % len(each.span))),)
        self.acknowledged |= values_of(ranges)
        self.world.granted[holder] -= values_of(ranges)

        wanted = Acknowledgement(id=id, holder=holder, ranges=tuple(ranges))

        def step(pool: Pool, ticket: object) -> None:
            pool.leases.acknowledge(ticket, wanted, self.world.now)

        answer = self.settled(step)
        assert not answer.lost, "it was held all the time"
        self.world.done |= values_of(answer.done)
        assert values_of(answer.done) == values_of(ranges)
        if not self.world.granted[holder]:  # it ended with its last record
            del self.leases[holder]
            del self.world.granted[holder]

    @rule(holder=HOLDERS)
    def release(self, holder: HolderId) -> None:
        if holder not in self.leases:
            return
        id, _ = self.leases.pop(holder)
        del self.world.granted[holder]
        self.ask(lambda pool, ticket: pool.leases.release(ticket, id, holder, self.world.now))

    @rule(holder=HOLDERS)
    def claim(self, holder: HolderId) -> None:
        if holder not in self.leases:
            return
        id, ranges = self.leases[holder]
        again = Claim(id=id, holder=holder, ranges=ranges, ttl=TTL)
        answer = self.settled(lambda pool, ticket: pool.claim(ticket, again, self.world.now))
        assert values_of(answer.done) == values_of(ranges)

    def settled(self, step: object) -> LeaseSettled:
        """The answer, when it is stored; a failed commit is tried again after a while."""
        ticket = self.ask(step)
        for _ in range(20):
            while self.world.pending_stores:
                self.world.store()
            if ticket in self.world.answers:
                break
            self.world.advance(0.1)
        answer = self.world.answers.pop(ticket)
        assert isinstance(answer, LeaseSettled)
        return answer

    @rule(seconds=st.sampled_from([0.1, 3.0, 20.0, 70.0]))
    def wait(self, seconds: float) -> None:
        """Holders renew their leases, or the leases end."""
        if seconds >= TTL:
            self.leases.clear()
            self.world.granted.clear()
        for holder, (id, _) in self.leases.items():
            self.ask(
                lambda pool, ticket, id=id, holder=holder: pool.leases.renew(ticket, id, holder, TTL, self.world.now)
            )
        if self.consumer is not None:
            self.consumer.heartbeat()
        self.world.advance(min(seconds, 20.0))
        if self.consumer is not None:
            self.consumer.heartbeat()
        self.world.advance(max(seconds - 20.0, 0.0))
        if self.consumer is not None and seconds > 20.0:
            self.consumer.disconnect()
            self.consumer = None
            self.world.advance(4.0)

    @rule(error=st.sampled_from([0, 0, 14]))
    def store(self, error: int) -> None:
        if self.world.pending_stores:
            self.world.store(error)

    @rule()
    def kill(self) -> None:
        """Kills the mesh: the next one knows only the upstream state."""
        before, self.consumer = self.world, None
        self.waiting.clear()
        self.world = world = LeasedWorld()
        world.now = before.now  # leases are stored with the time of day
        world.upstreams[GROUP].stored.update(before.upstreams[GROUP].stored)
        world.upstreams[GROUP].metadata.update(before.upstreams[GROUP].metadata)
        world.granted, world.done = before.granted, before.done
        self.ask(lambda pool, ticket: pool.lease(ticket, self.request(HolderId("nobody"), 0), world.now))
        world.assign_all()
        ends = dict(self.ends)
        world.upstream(lambda pool: pool.intake.ends_known(ends))

    @invariant()
    def what_was_waited_for_is_nobody_elses(self) -> None:
        if not hasattr(self, "world"):
            return
        for holder, ticket in list(self.waiting.items()):
            answer = self.world.answers.pop(ticket, None)
            if answer is None:
                continue
            del self.waiting[holder]
            if isinstance(answer, LeaseGranted) and answer.ranges and answer.deadline > self.world.now:
                values = values_of(answer.ranges)
                assert not any(values & held for held in self.world.granted.values())
                assert not values & self.world.done
                self.leases[holder], self.world.granted[holder] = (answer.id, answer.ranges), values

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    @invariant()
    def nothing_is_committed_that_was_not_acknowledged(self) -> None:
        if hasattr(self, "world"):
            for partition, offset in self.world.stored.items():
                assert {value_of(partition, each) for each in range(offset)} <= self.acknowledged

    def teardown(self) -> None:
        """When all leases have ended, members can get every unacknowledged record."""
        if not hasattr(self, "world"):
            return
        self.wait(70.0)
        self.wait(70.0)
        self.wait(70.0)
        while self.world.pending_stores:
            self.world.store()
        wanted = self.request(HolderId("last"), 1_000_000)
        ticket = self.ask(lambda pool, ticket: pool.lease(ticket, wanted, self.world.now))
        while self.world.pending_stores:
            self.world.store()
        granted = self.world.answer(ticket, LeaseGranted)
        everything = {value_of(partition, offset) for partition, end in self.ends.items() for offset in range(end)}
        assert values_of(granted.ranges) | self.acknowledged >= everything
        assert not values_of(granted.ranges) & self.world.done


def values_of(ranges: tuple[Range, ...]) -> set[bytes]:
    return {
        value_of(each.partition, offset) for each in ranges for offset in range(each.span.first, each.span.last + 1)
    }


TestLeases = LeaseMachine.TestCase
TestLeases.settings = settings(max_examples=settings().max_examples, stateful_step_count=30)
