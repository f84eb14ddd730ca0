"""Random lives of share members, classic members and holders of leases in one pool, with a kill -9 of the mesh between
any two steps: no record is held by two at once or lost, and none comes again after its acknowledgement was answered."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mesh.pool.common.effects import Effect, GivenUp
from mesh.pool.common.history import Redelivery
from mesh.pool.common.ids import GroupId
from mesh.pool.common.settings import PoolSettings, ShareSettings
from mesh.pool.interventions import Action, NotPossible, RunPlace
from mesh.pool.share.requests import AcknowledgeType, ShareAcknowledgeResult, ShareFetchResult
from mesh.pool.state.leases import HolderId, LeaseGranted, LeaseId, LeaseRequest
from mesh.pool.state.partition import Ownership
from mesh.records.decode import decode_records
from mesh.records.spans import Span
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import AcknowledgementBatch
from tests.pool.harness import EU, GROUP, ORDERS, US, Consumer, World, source, value_of
from tests.pool.operating import intervene, offsets_of
from tests.pool.share_member import ACCEPT, GAP, REJECT, RELEASE, RENEW, ShareMember, mixed

INDEX = st.integers(0, 3)
NUMBER = st.integers(0, 3)
SIZE = st.sampled_from([None, 1, 3, 5])
KINDS = st.sampled_from([ACCEPT, ACCEPT, ACCEPT, RELEASE, REJECT, GAP])
LIMIT = 5


class SharedWorld(World):
    """A world with share members. done: records that are settled for good: their acknowledgement was answered as
    stored. given_up: settled without a dead letter, because they were rejected, or delivered too often."""

    def __init__(self, settings: PoolSettings) -> None:
        super().__init__(settings, auto_store=False, auto_reread=False)
        self.done: set[bytes] = set()
        self.given_up: set[bytes] = set()

    def do(self, effects: list[Effect]) -> None:
        for each in effects:
            if isinstance(each, GivenUp):
                offsets = range(each.span.first, each.span.last + 1)
                self.given_up |= {value_of(each.partition, offset) for offset in offsets}
        super().do(effects)

    def given(self, group: GroupId, partition: int, offset: int, value: bytes) -> None:
        assert value not in self.done, "its acknowledgement was answered, and it came again"


class ShareMachine(RuleBasedStateMachine):
    @initialize(
        replay=st.sampled_from([0, 500, 4000]),
        metadata=st.sampled_from([100, 4000]),
        locks=st.sampled_from([6, 2_000]),
        limit=st.sampled_from([None, 2, 5]),
        backoff=st.sampled_from([0.0, 1.0]),
    )
    def begin(self, replay: int, metadata: int, locks: int, limit: int | None, backoff: float) -> None:
        self.settings = PoolSettings(
            initial_window=20,
            replay_budget=replay,
            partition_budget=800,
            pool_budget=2_000,
            metadata_limit=metadata,
            redelivery=Redelivery(limit=limit, initial=backoff),
            share=ShareSettings(most_locks=locks, delivery_limit=LIMIT),
            presence=1_000.0,
        )
        self.world = SharedWorld(self.settings)
        self.count = 0
        self.members: list[ShareMember] = []
        self.consumers: list[Consumer] = []
        self.waiting: dict[object, tuple[ShareMember, set[bytes]]] = {}
        """Unanswered acknowledgements, with the records that they decide."""
        self.decided: set[bytes] = set()
        """Records that were accepted, rejected, committed or leased: they may be settled, or not."""
        self.join_share()

    def assign_all(self) -> None:
        """Commits in flight when partitions moved were not stored: their group has another generation."""
        partitions = self.world.pool.partitions
        known = [partitions.get(source(index)) for index in range(4)]
        if any(each is None or each.ownership is Ownership.UNASSIGNED for each in known):
            for _ in range(len(self.world.pending_stores)):
                self.world.store(27)
            self.world.assign_all()
            self.forget_what_is_over()  # before records come again, in the same step

    def pick(self, number: int) -> ShareMember:
        return self.members[number % len(self.members)]

    @precondition(lambda self: len(self.members) < 4)
    @rule()
    def join_share(self) -> None:
        self.count += 1
        member = ShareMember.joined(self.world, f"s{self.count}")
        self.members.append(member)
        member.ask(wait=0.0)
        self.take(member)
        self.assign_all()

    @precondition(lambda self: len(self.consumers) < 2)
    @rule()
    def join_classic(self) -> None:
        self.count += 1
        self.consumers.append(self.world.consumer(f"c{self.count}"))

    @rule(index=INDEX, count=st.integers(1, 12), gap=st.integers(0, 3), size=SIZE)
    def produce(self, index: int, count: int, gap: int, size: int | None) -> None:
        self.assign_all()
        if self.world.is_consumed(index):
            self.world.batch_size = size
            self.world.produce(index, count, gap)

    @rule(
        number=NUMBER,
        most=st.sampled_from([1, 4, 20, 500]),
        exact=st.booleans(),
        minimum=st.sampled_from([1, 300]),
        maximum=st.sampled_from([10, 300, 1 << 20]),
        longest=st.sampled_from([1, 5, 500]),
        wait=st.sampled_from([0.0, 0.5, 5.0]),
        acquires=st.sampled_from([True, True, True, False]),
    )
    def share_fetch(
        self, number: int, most: int, exact: bool, minimum: int, maximum: int, longest: int, wait: float, acquires: bool
    ) -> None:
        member = self.pick(number)
        if member.ticket is not None:
            return
        member.ask(
            most=most, exact=exact, minimum=minimum, maximum=maximum, longest=longest, wait=wait, acquires=acquires
        )
        self.take(member)

    @rule(number=NUMBER, index=INDEX, kinds=st.lists(KINDS, min_size=1, max_size=12), piggy_backed=st.booleans())
    def acknowledge(self, number: int, index: int, kinds: list[AcknowledgeType], piggy_backed: bool) -> None:
        member = self.pick(number)
        if member.ticket is not None:
            return
        self.say(member, index, dict(zip(member.held(index), kinds, strict=False)), piggy_backed)

    @rule(number=NUMBER, index=INDEX)
    def acknowledge_all(self, number: int, index: int) -> None:
        member = self.pick(number)
        if member.ticket is None:
            self.say(member, index, dict.fromkeys(member.held(index), ACCEPT), piggy_backed=False)

    def say(self, member: ShareMember, index: int, said: Mapping[int, AcknowledgeType], piggy_backed: bool) -> None:
        if not said:
            return
        batches: dict[int, list[AcknowledgementBatch]] = {index: mixed(said)}
        decided = {value_of(source(index), each) for each, kind in said.items() if kind is not RELEASE}
        self.decided |= decided
        member.forget(index, said)
        if piggy_backed and member.epoch:
            ticket = member.ask(acknowledge=batches, acquires=False)
        else:
            ticket = member.acknowledge(batches)
        self.waiting[ticket] = (member, decided)
        self.take(member)

    @rule(number=NUMBER, index=INDEX)
    def renew(self, number: int, index: int) -> None:
        member = self.pick(number)
        if member.ticket is None and member.epoch and member.held(index):
            ticket = member.acknowledge({index: mixed(dict.fromkeys(member.held(index), RENEW))}, renews=True)
            self.waiting[ticket] = (member, set())

    @rule(number=NUMBER)
    def end_session(self, number: int) -> None:
        member = self.pick(number)
        if member.ticket is None and member.epoch:
            member.end()

    @rule(number=NUMBER)
    def lose_session(self, number: int) -> None:
        member = self.pick(number)
        self.forget_requests(member)
        member.lose_session()
        member.reconnect()

    @precondition(lambda self: len(self.members) > 1)
    @rule(number=NUMBER, leaves=st.booleans())
    def go(self, number: int, leaves: bool) -> None:
        member = self.pick(number)
        self.members.remove(member)
        self.forget_requests(member)
        if leaves:
            member.leave()
        member.disconnect()

    def forget_requests(self, member: ShareMember) -> None:
        self.waiting = {ticket: each for ticket, each in self.waiting.items() if each[0] is not member}

    @rule(number=NUMBER)
    def classic_fetch(self, number: int) -> None:
        if self.consumers and not (consumer := self.consumers[number % len(self.consumers)]).is_parked:
            consumer.fetch()

    @rule(number=NUMBER)
    def classic_commit(self, number: int) -> None:
        if not self.consumers:
            return
        consumer = self.consumers[number % len(self.consumers)]
        consumer.commit()
        self.decided |= {value for index, at, value in consumer.received if at < consumer.positions[index]}

    @rule(number=NUMBER, clean=st.booleans())
    def classic_goes(self, number: int, clean: bool) -> None:
        if self.consumers:
            consumer = self.consumers.pop(number % len(self.consumers))
            if clean:
                consumer.leave()
            consumer.disconnect()

    @rule(most=st.integers(1, 20))
    def lease_and_let_it_end(self, most: int) -> None:
        """A batch reader takes some and never acknowledges them: they come back after a while."""
        world = self.world
        self.count += 1
        wanted = LeaseRequest(
            id=LeaseId(f"lease-{self.count}"), holder=HolderId("one"), topics=(ORDERS,), most=most, ttl=5.0
        )
        ends = {
            source(index): (world.logs[source(index)][-1][1] + 1) for index in range(4) if world.logs.get(source(index))
        }
        world.upstream(lambda pool: pool.intake.ends_known(ends))
        ticket = world.ticket()
        error, effects = world.cluster.leasing(GROUP, lambda pool: pool.lease(ticket, wanted, world.now), world.now)
        assert error is ErrorCode.NONE
        world.do(effects)
        while world.pending_stores:
            world.store()
        granted = world.answers.pop(ticket, None)
        if isinstance(granted, LeaseGranted):
            for each in granted.ranges:
                for offset in range(each.span.first, each.span.last + 1):
                    assert value_of(each.partition, offset) not in world.done

    @rule(seconds=st.sampled_from([0.1, 0.6, 3.1, 20.0, 31.0]))
    def wait(self, seconds: float) -> None:
        while seconds > 0:
            for member in self.members:
                assert member.heartbeat().error is ErrorCode.NONE
            for consumer in self.consumers:
                consumer.heartbeat()
            self.world.advance(min(seconds, 10.0))
            seconds -= 10.0

    def forget_what_is_over(self) -> None:
        """Forgets expired locks, and partitions that moved away."""
        for member in self.members:
            held = self.held_by(member)
            for where in [where for where in member.acquired if where not in held]:
                del member.acquired[where]

    def held_by(self, member: ShareMember) -> set[tuple[int, int]]:
        known = self.world.pool.members.by_id.get(member.member_id)
        if known is None or known.share is None:
            return set()
        return {
            (index, offset)
            for index in range(4)
            for acquired in known.share.by_partition.get(source(index), ())
            for offset in range(acquired.span.first, acquired.span.last + 1)
        }

    @precondition(lambda self: self.world.pending_stores)
    @rule(error=st.sampled_from([0, 0, 0, 14]))
    def store(self, error: int) -> None:
        self.world.store(error)

    @precondition(lambda self: self.world.pending_rereads)
    @rule(error=st.sampled_from(["", "", "broker away"]))
    def reread(self, error: str) -> None:
        self.world.reread(error)

    @precondition(lambda self: self.world.dead_letters)
    @rule(error=st.sampled_from(["", "", "no such topic"]))
    def write_dead_letter(self, error: str) -> None:
        letter = self.world.dead_letters[0]
        if not error:
            (record,) = decode_records(letter.batch)
            assert record.value is not None
            self.decided.add(record.value)
        self.world.write_dead_letter(error)

    @rule(action=st.sampled_from(Action), index=INDEX, first=st.integers(0, 40), more=st.integers(0, 5))
    def intervene(self, action: Action, index: int, first: int, more: int) -> None:
        places: list[RunPlace] = []
        with suppress(NotPossible):
            places = intervene(self.world, action, index, Span(first, first + more))
        if action is Action.SETTLE:
            self.decided |= {value_of(source(index), offset) for offset in offsets_of(places)}
        losers = {place.member for place in places}
        for member in self.members:
            if member.member_id in losers:  # it may get some of that again, by a Fetch that waited
                lost = {place for place in member.acquired if place[0] == index}
                for each in lost:
                    del member.acquired[each]

    @rule(cluster=st.sampled_from([EU, US]), comes_back=st.booleans())
    def rebalance(self, cluster: str, comes_back: bool) -> None:
        indexes = [index for index in range(4) if source(index).cluster == cluster]
        self.world.upstream(lambda pool: pool.intake.revoked([source(index) for index in indexes]))
        self.world.check()
        for _ in range(0 if comes_back else len(self.world.pending_stores)):
            self.world.store(27)
        self.world.assign(source(indexes[0]).cluster, resumed=True, indexes=indexes if comes_back else indexes[:1])

    @rule()
    def kill(self) -> None:
        """Kills the mesh: the next one knows only the upstream state."""
        before = self.world
        self.world = world = SharedWorld(self.settings)
        world.now, world.done, world.given_up = before.now, before.done, before.given_up
        world.upstreams[GROUP].stored.update(before.upstreams[GROUP].stored)
        world.upstreams[GROUP].metadata.update(before.upstreams[GROUP].metadata)
        world.upstreams[GROUP].logs.update(before.upstreams[GROUP].logs)
        self.members.clear()
        self.consumers.clear()
        self.waiting.clear()
        self.join_share()
        self.bring_all()

    def bring_all(self) -> None:
        """Brings all records of the logs that were not brought yet."""
        self.assign_all()
        for index in range(4):
            log = self.world.logs.get(source(index))
            while log and self.world.ends.get(source(index), 0) <= log[-1][1] and self.world.is_consumed(index):
                self.world.produce(index)

    def take(self, member: ShareMember) -> None:
        """Takes the answers that have come by now."""
        self.answers()
        if member.ticket is not None and member.ticket in self.world.answers:
            member.take()

    def answers(self) -> None:
        for ticket, (_, decided) in list(self.waiting.items()):
            answer = self.world.answers.get(ticket)
            if answer is None:
                continue
            del self.waiting[ticket]
            if isinstance(answer, ShareAcknowledgeResult):
                del self.world.answers[ticket]
                errors = list(answer.errors.values()) or [answer.error]
            else:
                assert isinstance(answer, ShareFetchResult)
                errors = [each.acknowledge_error for each in answer.partitions] or [answer.error]
            if errors == [ErrorCode.NONE]:
                self.world.done |= decided
            else:
                assert set(errors) <= {
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    ErrorCode.NOT_LEADER_OR_FOLLOWER,
                    ErrorCode.SHARE_SESSION_NOT_FOUND,
                    ErrorCode.INVALID_SHARE_SESSION_EPOCH,
                }

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "world"):
            return
        self.answers()
        for member in self.members:
            if member.ticket is not None and member.ticket in self.world.answers:
                member.take()
        self.forget_what_is_over()
        self.world.check()

    @invariant()
    def members_know_what_they_have(self) -> None:
        if hasattr(self, "world"):
            for member in self.members:
                if member.ticket is None:
                    assert self.held_by(member) <= member.acquired.keys()

    @invariant()
    def nothing_is_committed_that_nobody_decided(self) -> None:
        if hasattr(self, "world"):
            for index in range(4):
                below = self.world.stored.get(source(index), 0)
                assert self.records(index, below) <= self.decided | self.world.given_up

    def records(self, index: int, below: int) -> set[bytes]:
        """The records from below an offset that were ever brought."""
        log = self.world.logs.get(source(index), [])
        offsets = (offset for first, last in log for offset in range(first, min(last + 1, below)))
        return {value_of(source(index), offset) for offset in offsets}

    def teardown(self) -> None:
        """At the end one last member gets all records that no member decided about; then nothing is left."""
        if not hasattr(self, "world"):
            return
        world = self.world
        self.join_share()
        while len(self.members) > 1:
            self.go(0, leaves=True)
        (last,) = self.members
        while self.consumers:
            self.classic_goes(0, clean=False)
        for _ in range(300):
            self.accept_all(last)
            if all(world.stored.get(source(index), 0) == self.end(index) for index in range(4)):
                break
        for index in range(4):
            assert world.stored.get(source(index), 0) == self.end(index), "something was never given again"
        self.nothing_is_committed_that_nobody_decided()
        world.do(world.cluster.drain(world.now))
        for connection in sorted(world.connections):
            world.disconnect(connection)
        world.check_empty()

    def accept_all(self, last: ShareMember) -> None:
        """Accepts the records that one member has by now, and carries out all pending upstream work."""
        world = self.world
        self.bring_all()
        self.forget_what_is_over()
        last.heartbeat()
        if last.ticket is None:
            last.ask(wait=0.0)
        while world.pending_rereads:
            world.reread()
        self.take(last)
        for index in range(4):
            self.say(last, index, dict.fromkeys(last.held(index), ACCEPT), piggy_backed=False)
        while world.dead_letters:
            self.write_dead_letter("")
        while world.pending_stores:
            world.store()
        world.advance(0.5)
        self.answers()

    def end(self, index: int) -> int:
        log = self.world.logs.get(source(index))
        return log[-1][1] + 1 if log else 0


TestShares = ShareMachine.TestCase
TestShares.settings = settings(max_examples=settings().max_examples * 3, stateful_step_count=50)
