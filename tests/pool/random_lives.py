"""Random lives of a group, of its members and leases, and of the logs that it reads: they grow by transactions, are
truncated, and are deleted and created again; clusters are left and come back, engines fail, the mesh is killed.

The expectation knows only the promises (docs/guarantees.md): a log has offsets with and without records, and an
application remembers which records it got and acknowledged. `make lives` runs it for any length of time.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from hypothesis import seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mesh.pool.common.effects import CommitUpstream
from mesh.pool.common.history import Redelivery
from mesh.pool.common.ids import GroupId
from mesh.pool.common.results import CommitResult
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
from mesh.pool.state.partition import Ownership
from mesh.records.batch import RecordBatch
from mesh.records.decode import decode_records
from mesh.records.encode import encode_batch
from mesh.records.runs import from_offset, join_runs
from mesh.records.spans import ClusterName, Gap, UpstreamPartition
from mesh.wire.errors import ErrorCode
from tests.pool.consumer import Consumer
from tests.pool.harness import EU, GROUP, ORDERS, US, World, source

INDEX = st.sampled_from([0, 0, 0, 1, 2])
"""Mostly the same partition, so that one log goes through many events."""
NUMBER = st.integers(0, 5)
CLUSTER = st.sampled_from([EU, US])
HOLDERS = st.sampled_from([HolderId("one"), HolderId("two")])
MOST_MEMBERS = 4
TTL = 30.0


@dataclass(slots=True)
class Log:
    """One upstream partition. batches: first and last offset of each; values: of the records, by offset; life: rises
    whenever new records may get offsets of earlier ones. cut: the lowest offset at which it was truncated."""

    partition: UpstreamPartition
    end: int = 0
    life: int = 0
    cut: int = 1 << 62
    batches: list[tuple[int, int]] = field(default_factory=list)
    values: dict[int, bytes] = field(default_factory=dict)

    def append(self, empty: int, count: int) -> None:
        """Adds a batch of `count` records, and offsets without a record behind it."""
        first, last = self.end, self.end + count - 1
        if count:
            self.batches.append((first, last))
        for offset in range(first, last + 1):
            self.values[offset] = f"{self.partition}@{offset}#{self.life}".encode()
        self.end = last + 1 + empty

    def truncate(self, offset: int) -> None:
        self.life += 1
        self.end, self.cut = min(self.end, offset), min(self.cut, offset)
        self.batches = [(first, min(last, offset - 1)) for first, last in self.batches if first < offset]
        self.values = {each: value for each, value in self.values.items() if each < offset}

    def read(self, first: int, end: int) -> list[RecordBatch]:
        """Reads as a broker does: whole batches that contain some of these offsets."""
        batches = []
        for begin, last in self.batches:
            if last >= first and begin < end:
                records = [(offset, 0, None, self.values[offset], None) for offset in range(begin, last + 1)]
                batch = encode_batch(begin, records)
                batch.first = max(begin, first)
                batches.append(batch)
        return join_runs(batches) if batches else []


class LivesWorld(World):
    """The world of a life. acknowledged: values that an application got and acknowledged, answered or not. answered:
    those whose acknowledgement was answered, and which must not come again."""

    def __init__(self, settings: PoolSettings, logs: dict[UpstreamPartition, Log]) -> None:
        super().__init__(settings, auto_store=False, auto_reread=False, assigned=False)
        self.contents = logs
        self.acknowledged: set[bytes] = set()
        self.answered: set[bytes] = set()
        self.settling: dict[object, dict[int, set[bytes]]] = {}
        self.parts_at: dict[UpstreamPartition, int] = {}
        """The divergence of logs that were truncated while unread."""

    # Acknowledgements

    def committing(self, consumer: Consumer, positions: Mapping[int, int]) -> None:
        """The application has processed the records that it holds below the positions."""
        pool = self.cluster.pools.get(consumer.group)
        member = pool.members.by_id.get(consumer.member_id) if pool is not None else None
        settling: dict[int, set[bytes]] = defaultdict(set)
        for index, offset in positions.items() if member is not None else ():
            assert member is not None
            window = member.windows.get(source(index))
            for delivery in window if window is not None and offset <= window.end else ():
                count = min(max(offset - delivery.virtual, 0), len(delivery))
                values = self.contents[source(index)].values
                found = (values.get(each) for each in range(delivery.first, delivery.first + count))
                settling[index].update(value for value in found if value is not None)
        self.settling[next(reversed(self.commits))] = settling
        for index, virtual, value in consumer.received:
            if virtual < positions.get(index, 0):
                self.acknowledged.add(value)

    def committed(self, ticket: object, result: CommitResult) -> None:
        self.commits.pop(ticket)
        settling = self.settling.pop(ticket)
        for (_, index), error in result.errors.items():
            if error is ErrorCode.NONE:
                self.answered |= settling[index]

    def given(self, group: GroupId, partition: int, offset: int, value: bytes) -> None:
        super().given(group, partition, offset, value)
        upstream = int(value.partition(b"@")[2].partition(b"#")[0])
        assert self.contents[source(partition)].values.get(upstream) == value, "of a log that is not there any more"
        assert value not in self.answered, "its acknowledgement was answered, and it came again"

    # Upstream

    def sync_logs(self) -> None:
        for partition, log in self.contents.items():
            self.logs[partition] = list(log.batches)

    def read(self, index: int, count: int) -> None:
        """The engine brings up to so many offsets."""
        partition = source(index)
        log, position = self.contents[partition], self.ends.get(partition, 0)
        end = min(position + count, log.end)
        if not self.is_consumed(index) or position >= end:
            return
        end = max([end, *(last + 1 for first, last in log.batches if first < end)])
        self.ends[partition] = end
        if batches := log.read(position, end):
            self.upstream(lambda pool: pool.intake.received(partition, batches, self.now, Gap.EMPTY))
        if batches == [] or batches[-1].last + 1 < end:
            self.upstream(lambda pool: pool.intake.reached_end(partition, end, Gap.EMPTY))

    def tell_ends(self) -> None:
        ends = {partition: log.end for partition, log in self.contents.items()}
        self.upstream(lambda pool: pool.intake.ends_known(ends))

    def reread(self, error: str = "", gone: Iterable[int] = (), empty: Iterable[int] = ()) -> None:
        wanted = self.pending_rereads.pop(0)
        if wanted.group not in self.cluster.pools:
            return
        span, log = wanted.span, self.contents[wanted.partition]
        batches = [from_offset(each, max(each.first, span.first)) for each in log.read(span.first, span.last + 1)]
        found = () if error else tuple(batches)
        self.upstream(lambda pool: pool.intake.reread(wanted.partition, wanted.token, found, True, error, 0, self.now))

    def drop_stores(self, is_meant: Callable[[CommitUpstream], bool]) -> None:
        self.pending_stores = [each for each in self.pending_stores if not is_meant(each)]

    def assign(self, cluster: ClusterName, resumed: bool = False, indexes: Iterable[int] = range(4)) -> None:
        super().assign(cluster, resumed, indexes)
        for partition in [each for each in self.parts_at if self.pool.partitions[each].ownership is Ownership.ASSIGNED]:
            offset = self.parts_at.pop(partition)
            self.ends[partition] = min(self.ends[partition], offset)
            self.upstream(lambda pool, each=partition, offset=offset: pool.intake.truncated(each, offset, self.now))
            while self.pending_stores:  # one of them moves the committed offset back
                self.store()
        self.tell_ends()

    def assign_missing(self) -> None:
        for cluster in {EU, US} - self.cluster.topics.withheld:
            indexes = [index for index in range(4) if source(index).cluster == cluster]
            ownership = [self.pool.partitions.get(source(index)) for index in indexes]
            is_wanted = cluster in self.upstreams[GROUP].subscribed
            if is_wanted and any(each is None or each.ownership is Ownership.UNASSIGNED for each in ownership):
                self.assign(cluster, resumed=True)


class LivesMachine(RuleBasedStateMachine):
    @initialize(
        window=st.sampled_from([5, 20, 1_000]),
        replay=st.sampled_from([0, 500, 4_000]),
        metadata=st.sampled_from([60, 200, 4_000]),
        limit=st.sampled_from([None, None, 2]),
    )
    def begin(self, window: int, replay: int, metadata: int, limit: int | None) -> None:
        self.settings = PoolSettings(
            initial_window=window,
            replay_budget=replay,
            partition_budget=800,
            pool_budget=2_000,
            metadata_limit=metadata,
            redelivery=Redelivery(limit=limit),
            presence=10_000.0,
        )
        self.contents = {source(index): Log(source(index)) for index in range(4)}
        self.world = LivesWorld(self.settings, self.contents)
        self.names = itertools.count()
        self.world.topic_ids = {cluster: f"{cluster}-{next(self.names)}" for cluster in (EU, US)}
        self.leases: dict[HolderId, tuple[LeaseId, tuple[Range, ...], set[bytes]]] = {}
        self.deadlines: dict[HolderId, float] = {}
        """The deadlines of leases; none is renewed."""
        self.consumers = [self.world.consumer(f"c{next(self.names)}")]
        self.consumers[0].fetch(wait=0.0)
        self.world.assign_missing()

    def pick(self, number: int) -> Consumer:
        return self.consumers[number % len(self.consumers)]

    # Logs

    @rule(index=INDEX, count=st.integers(0, 12), empty=st.integers(0, 3), batches=st.integers(1, 3))
    def produce(self, index: int, count: int, empty: int, batches: int) -> None:
        for _ in range(batches):
            self.contents[source(index)].append(empty, count)
        self.world.sync_logs()

    @rule(index=INDEX, count=st.integers(1, 60))
    def read(self, index: int, count: int) -> None:
        self.world.assign_missing()
        self.world.read(index, count)

    @rule()
    def look_at_the_ends(self) -> None:
        self.world.tell_ends()

    @rule(index=INDEX, back=st.integers(1, 40))
    def truncate(self, index: int, back: int) -> None:
        """An unclean election. A commit in flight ends before it. A commit that moves the committed offset back ends
        before new records are produced: until then the committed offset lies above records that no member got, as a
        consumer's would."""
        world, log = self.world, self.contents[source(index)]
        while world.pending_stores:
            world.store()
        offset = max(log.end - back, 0)
        if any(first < offset <= last for first, last in log.batches):
            offset = next(first for first, last in log.batches if first < offset <= last)
        log.truncate(offset)
        world.sync_logs()
        partition = source(index)
        world.ends[partition] = min(world.ends.get(partition, 0), offset)
        world.may_move_back.add(partition)
        known = world.pool.partitions.get(partition)
        is_read = known is not None and known.ownership is not Ownership.UNASSIGNED
        if is_read:
            world.upstream(lambda pool: pool.intake.truncated(partition, offset, world.now))
            while world.pending_stores:
                world.store()
        else:  # the stored leader epoch shows at the assignment that its log diverges there
            world.parts_at[partition] = min(world.parts_at.get(partition, offset), offset)
        world.tell_ends()

    @rule(cluster=CLUSTER)
    def make_anew(self, cluster: ClusterName) -> None:
        """Deletes the topic and creates it again; brokers forget the commits of a deleted topic."""
        world = self.world
        while world.pending_stores:
            world.store()
        world.topic_ids[cluster] = f"{cluster}-{next(self.names)}"
        for partition in [each for each in self.contents if each.cluster == cluster]:
            self.contents[partition] = Log(partition, life=self.contents[partition].life + 1)
            world.stored.pop(partition, None)
            world.parts_at.pop(partition, None)
            world.upstreams[GROUP].metadata.pop(partition, None)
            world.ends[partition] = 0
            world.upstream(lambda pool, each=partition: pool.intake.position_reset(each, 0, "made anew", world.now))
        world.sync_logs()
        ids = {ORDERS: world.topic_ids[cluster]}
        world.upstream(lambda pool: pool.intake.topics_identified(cluster, ids))
        world.tell_ends()

    # Members

    @precondition(lambda self: len(self.consumers) < MOST_MEMBERS)
    @rule()
    def join(self) -> None:
        self.consumers.append(self.world.consumer(f"c{next(self.names)}"))

    @rule(number=NUMBER, maximum=st.sampled_from([10, 2_000, 1 << 20]), wait=st.sampled_from([0.0, 0.5, 5.0]))
    def fetch(self, number: int, maximum: int, wait: float) -> None:
        consumer = self.pick(number)
        if not consumer.is_parked:
            consumer.fetch(maximum=maximum, partition_maximum=max(maximum // 2, 1), wait=wait)

    @rule(number=NUMBER, back=st.sampled_from([0, 0, 1, 5, 20]))
    def commit(self, number: int, back: int) -> None:
        consumer = self.pick(number)
        consumer.commit({partition: max(offset - back, 0) for partition, offset in consumer.positions.items()})

    @rule(number=NUMBER, index=INDEX, back=st.integers(1, 30))
    def seek_back(self, number: int, index: int, back: int) -> None:
        consumer = self.pick(number)
        if not consumer.is_parked:
            consumer.positions[index] = max(consumer.positions[index] - back, 0)

    def beat(self) -> None:
        """All members send heartbeats now and then, and join again when they are told to."""
        for consumer in self.consumers:
            told = consumer.heartbeat()
            assert told in (ErrorCode.NONE, consumer.asks_to_join_again), told
            if told is not ErrorCode.NONE and not consumer.is_parked:
                assert consumer.join().error is ErrorCode.NONE

    def advance(self, seconds: float) -> None:
        self.beat()
        self.world.advance(seconds)

    @precondition(lambda self: len(self.consumers) > 1)
    @rule(number=NUMBER, clean=st.booleans())
    def go(self, number: int, clean: bool) -> None:
        consumer = self.pick(number)
        self.consumers.remove(consumer)
        if clean:
            consumer.leave()
        consumer.disconnect()

    # Leases

    def ask(self, step: Callable[[Pool, object], None]) -> object:
        ticket, world = self.world.ticket(), self.world
        error, effects = world.cluster.leasing(GROUP, lambda pool: step(pool, ticket), world.now)
        assert error is ErrorCode.NONE
        world.do(effects)
        return ticket

    def answered(self, step: Callable[[Pool, object], None]) -> object:
        """A failed commit is tried again after a while."""
        ticket = self.ask(step)
        for _ in range(60):
            while self.world.pending_stores and ticket not in self.world.answers:
                self.world.store()
            if ticket in self.world.answers:
                break
            self.world.advance(0.1)
        return self.world.answers.pop(ticket)

    @rule(holder=HOLDERS, most=st.integers(1, 60))
    def lease(self, holder: HolderId, most: int) -> None:
        if holder in self.leases:
            return
        self.beat()
        self.world.assign_missing()
        id = LeaseId(f"lease-{next(self.names)}")
        wanted = LeaseRequest(id=id, holder=holder, topics=(ORDERS,), most=most, ttl=TTL)
        answer = self.answered(lambda pool, ticket: pool.lease(ticket, wanted, self.world.now))
        if isinstance(answer, LeaseGranted) and answer.ranges:
            values = self.values_of(answer.ranges)
            assert not values & self.world.answered
            lasting = [each for name, each in self.leases.items() if self.deadlines[name] > self.world.now]
            assert not any(values & held for _, _, held in lasting), "two leases hold it"
            self.leases[holder], self.deadlines[holder] = (id, answer.ranges, values), answer.deadline

    def values_of(self, ranges: Iterable[Range]) -> set[bytes]:
        return {
            value
            for each in ranges
            for offset in range(each.span.first, each.span.last + 1)
            if (value := self.contents[each.partition].values.get(offset)) is not None
        }

    @rule(holder=HOLDERS, claims=st.booleans())
    def acknowledge(self, holder: HolderId, claims: bool) -> None:
        """Acknowledges the whole lease, with or without a new claim of its ranges, whatever happened to the logs
        meanwhile."""
        if holder in self.leases:
            self.beat()
            self.settle_lease(holder, claims)

    def settle_lease(self, holder: HolderId, claims: bool) -> None:
        id, ranges, values = self.leases.pop(holder)
        if claims:
            claim = Claim(id=id, holder=holder, ranges=ranges, ttl=TTL)
            self.answered(lambda pool, ticket: pool.claim(ticket, claim, self.world.now))
        self.world.acknowledged |= values
        wanted = Acknowledgement(id=id, holder=holder, ranges=ranges)
        answer = self.answered(lambda pool, ticket: pool.acknowledge_lease(ticket, wanted, self.world.now))
        if isinstance(answer, LeaseSettled):
            self.world.answered |= self.values_of(answer.done) & values

    @rule(holder=HOLDERS)
    def forget_lease(self, holder: HolderId) -> None:
        """Its holder disappears without a word."""
        self.leases.pop(holder, None)

    # Events of the mesh

    @rule(seconds=st.sampled_from([0.1, 0.6, 1.1, 4.0, 12.0]))
    def wait(self, seconds: float) -> None:
        self.advance(seconds)

    @precondition(lambda self: self.world.pending_stores)
    @rule(error=st.sampled_from([0, 0, 0, 14, 27]))
    def store(self, error: int) -> None:
        self.world.store(error)

    @precondition(lambda self: self.world.pending_rereads)
    @rule(error=st.sampled_from(["", "", "broker away"]))
    def reread(self, error: str) -> None:
        self.world.reread(error)

    @precondition(lambda self: self.world.dead_letters)
    @rule(error=st.sampled_from(["", "", "no such topic"]))
    def dead_letter(self, error: str) -> None:
        self.write_dead_letter(error)

    def write_dead_letter(self, error: str) -> None:
        letter = self.world.dead_letters[0]
        if not error:
            self.world.acknowledged |= {each.value for each in decode_records(letter.batch) if each.value is not None}
        self.world.write_dead_letter(error)

    @rule(cluster=CLUSTER)
    def leave_cluster_or_come_back(self, cluster: ClusterName) -> None:
        world = self.world
        if cluster in world.cluster.topics.withheld:
            world.do(world.cluster.rejoin_cluster(cluster, world.now))
        else:
            world.do(world.cluster.leave_cluster(cluster, 2.0, world.now))
            self.advance(2.5)
            world.drop_stores(lambda each: each.cluster == cluster)

    @rule()
    def drain_and_serve_again(self) -> None:
        """Ends the pool, and begins another one with the upstream state, as after `kill`."""
        world = self.world
        self.forget_truncated_leases()
        world.do(world.cluster.drain_pool(GROUP, 2.0, world.now))
        self.advance(2.5)
        world.do(world.cluster.serve_again(GROUP, world.now))

    @rule(cluster=CLUSTER, comes_back=st.booleans(), is_anew=st.booleans())
    def rebalance(self, cluster: ClusterName, comes_back: bool, is_anew: bool) -> None:
        """is_anew: the topic is created again meanwhile."""
        world = self.world
        if cluster in world.cluster.topics.withheld or cluster not in world.upstreams[GROUP].subscribed:
            return
        indexes = [index for index in range(4) if source(index).cluster == cluster]
        world.upstream(lambda pool: pool.intake.revoked([source(index) for index in indexes]))
        world.check()
        if is_anew:
            self.make_anew(cluster)
            world.check()
        world.assign(cluster, resumed=True, indexes=indexes if comes_back else indexes[:1])

    @rule(cluster=CLUSTER)
    def renew_the_engine(self, cluster: ClusterName) -> None:
        world = self.world
        world.upstream(lambda pool: (pool.intake.engine_failed(cluster), pool.commits.engine_failed(cluster)))
        world.drop_stores(lambda each: each.cluster == cluster)
        world.pending_rereads = [each for each in world.pending_rereads if each.partition.cluster != cluster]
        world.upstreams[GROUP].paused -= {each for each in world.upstreams[GROUP].paused if each.cluster == cluster}

    @rule()
    def kill(self) -> None:
        """Kills the mesh: the next one knows only the upstream state."""
        before = self.world
        self.forget_truncated_leases()
        self.world = world = LivesWorld(self.settings, self.contents)
        world.topic_ids = before.topic_ids
        world.now = before.now  # leases are stored with the time of day
        world.upstreams[GROUP].stored.update(before.upstreams[GROUP].stored)
        world.upstreams[GROUP].metadata.update(before.upstreams[GROUP].metadata)
        world.acknowledged, world.answered = before.acknowledged, before.answered
        world.may_move_back, world.parts_at = before.may_move_back, before.parts_at
        world.sync_logs()
        self.consumers = [world.consumer(f"c{next(self.names)}")]
        self.consumers[0].fetch(wait=0.0)
        world.assign_missing()

    def forget_truncated_leases(self) -> None:
        """The next pool cannot know that leases above a truncation are about another log. A lease that has ended by
        then would acknowledge the new records (docs/guarantees.md)."""
        self.leases = {holder: lease for holder, lease in self.leases.items() if not self.is_truncated(lease[1])}

    def is_truncated(self, ranges: Iterable[Range]) -> bool:
        """True if some of these offsets were truncated, of the topic that still exists."""
        return any(
            each.topic_id == self.world.topic_ids[each.partition.cluster]
            and each.span.last >= self.contents[each.partition].cut
            for each in ranges
        )

    # Invariants

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    @invariant()
    def nothing_is_committed_that_was_not_acknowledged(self) -> None:
        if not hasattr(self, "world"):
            return
        for partition, log in self.contents.items():
            if partition in self.world.parts_at:
                continue  # unread since: the stored leader epoch shows it at the next assignment
            stored = self.world.stored.get(partition, 0)
            passed = {value for offset, value in log.values.items() if offset < stored}
            assert passed <= self.world.acknowledged, (partition, stored, sorted(passed - self.world.acknowledged))

    @rule(cluster=CLUSTER)
    def renew_cluster(self, cluster: ClusterName) -> None:
        world = self.world
        world.do(world.cluster.renew_cluster(GROUP, cluster, 2.0, world.now))

    def teardown(self) -> None:
        """At the end one member gets all remaining records, and the group has no lag."""
        if not hasattr(self, "world"):
            return
        world = self.world
        for cluster in list(world.cluster.topics.withheld):
            world.do(world.cluster.rejoin_cluster(cluster, world.now))
        last = world.consumer("last")
        for consumer in self.consumers:
            consumer.disconnect()
        for holder in list(self.leases):
            self.settle_lease(holder, claims=False)
        for _ in range(400):
            is_stored = all(world.stored.get(partition, 0) == log.end for partition, log in self.contents.items())
            if is_stored and not world.parts_at:
                break
            self.settle_down(last)
        lags = {str(each): (world.stored.get(each, 0), log.end) for each, log in self.contents.items()}
        assert all(stored == end for stored, end in lags.values()), lags
        everything = {value for log in self.contents.values() for value in log.values.values()}
        assert everything <= world.acknowledged, sorted(everything - world.acknowledged)
        world.check()

    def settle_down(self, last: Consumer) -> None:
        world = self.world
        world.assign_missing()
        for index in range(4):
            world.read(index, 1_000)
        if not last.is_parked:
            last.fetch(wait=0.0)
        if last.heartbeat() is not ErrorCode.NONE:
            last.join()
        last.commit()
        while world.pending_rereads:
            world.reread()
        while world.dead_letters:
            self.write_dead_letter("")
        while world.pending_stores:
            world.store()
        world.advance(1.0)


def main() -> None:
    """Runs it from a seed on, for so many minutes."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--minutes", type=float, default=10.0)
    arguments.add_argument("--steps", type=int, default=100)
    chosen = arguments.parse_args()
    until = time.monotonic() + 60 * chosen.minutes
    each = settings(max_examples=200, stateful_step_count=chosen.steps, deadline=None, database=None)
    for number in itertools.count(chosen.seed):
        machine = seed(number)(type(f"Lives{number}", (LivesMachine,), {}))
        run_state_machine_as_test(machine, settings=each)
        print(f"seed {number}: 200 lives of up to {chosen.steps} steps", flush=True)
        if time.monotonic() > until:
            return


if __name__ == "__main__":
    main()
