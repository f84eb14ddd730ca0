"""Random lives of a virtual cluster: no record is lost, held twice, or given under two offsets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from typing import get_args

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mesh.apis.answers import ConnectionId
from mesh.pool.common.group_rules import GROUP_LESS
from mesh.pool.common.history import Redelivery
from mesh.pool.common.ids import GroupId
from mesh.pool.common.results import CommitResult
from mesh.pool.common.settings import Policy, PoolSettings
from mesh.pool.common.sharing import EQUAL, ClientPattern, LimitRule, Sharing, TopicPriority, WeightRule
from mesh.pool.interventions import Action, NotPossible, RunPlace
from mesh.records.decode import decode_records
from mesh.records.spans import ClusterName, CommitPosition, Span, UpstreamPartition
from mesh.wire.errors import ErrorCode
from tests.pool.consumer import Protocol
from tests.pool.harness import EU, GROUP, ORDERS, US, Consumer, World, source, value_of
from tests.pool.operating import intervene, offsets_of

INDEX = st.integers(0, 3)
SIZE = st.sampled_from([None, 1, 2, 5])
"""Records per batch: None for a single batch, else a run of batches comes."""
NUMBER = st.integers(0, 5)
OTHER, CONSOLE = GroupId("other"), GroupId("console-consumer-1")
GROUPS = st.sampled_from([GROUP, GROUP, OTHER, CONSOLE, GROUP_LESS])
RECEIPT = (CONSOLE, GROUP_LESS)
MOST = 5


class WatchedWorld(World):
    """Keeps account of clients' acknowledgements, by commit or by receipt, and of those that were answered as stored.

    settled: the commits of a consumer in a partition that were not answered yet.
    """

    def __init__(self, settings: PoolSettings) -> None:
        super().__init__(settings, auto_store=False, auto_reread=False)
        self.has_moved = False
        """True if held records moved away: a member that commits them is told to join again."""
        self.acknowledged: set[tuple[GroupId, bytes]] = set()
        self.settled: dict[tuple[str, int], set[bytes]] = defaultdict(set)
        self.stored_for_good: set[tuple[GroupId, bytes]] = set()

    def committing(self, consumer: Consumer, positions: Mapping[int, int]) -> None:
        pool = self.cluster.pools.get(consumer.group)
        member = pool.members.by_id.get(consumer.member_id) if pool is not None else None
        for index, offset in positions.items() if member is not None else ():
            window = member.windows.get(source(index)) if member is not None else None
            if window is None or offset > window.end:
                continue
            for delivery in window:
                below = range(delivery.first, delivery.last + 1)[: max(offset - delivery.virtual, 0)]
                self.settled[consumer.name, index].update(value_of(source(index), each) for each in below)

    def moved(self, cluster: str) -> None:
        """Settled records there may be stored or not: the mesh says so to members that ask, and tells them to join
        again."""
        self.has_moved = True
        for name, index in self.settled:
            if source(index).cluster == cluster:
                self.settled[name, index].clear()

    def _left_cluster(
        self, group: GroupId, positions: Mapping[UpstreamPartition, CommitPosition], cluster: ClusterName
    ) -> None:
        self.moved(cluster)
        super()._left_cluster(group, positions, cluster)

    def given(self, group: GroupId, partition: int, offset: int, value: bytes) -> None:
        super().given(group, partition, offset, value)
        assert (group, value) not in self.stored_for_good, "its commit was answered, and it came again"

    def committed(self, ticket: object, result: CommitResult) -> None:
        consumer, positions = self.commits.pop(ticket)
        for (_, partition), error in result.errors.items():
            if error is ErrorCode.NONE:
                values = self.settled.pop((consumer.name, partition), set())
                self.stored_for_good.update((consumer.group, value) for value in values)
        # One that is not stored yet, or moved, may be stored all the same.
        settled = {
            partition: offset
            for partition, offset in positions.items()
            if result.errors[ORDERS, partition] is not ErrorCode.OFFSET_OUT_OF_RANGE
        }
        self._acknowledge(consumer, settled)

    def asked(self, consumer: Consumer) -> None:
        if consumer.group in RECEIPT:
            self._acknowledge(consumer, consumer.positions)

    def _acknowledge(self, consumer: Consumer, positions: dict[int, int]) -> None:
        for partition, virtual, value in consumer.received:
            if partition in positions and virtual < positions[partition]:
                self.acknowledged.add((consumer.group, value))


SHARINGS = (
    EQUAL,
    Sharing(limits=(LimitRule(in_flight=15), LimitRule(records_per_second=20.0, is_of_each=True))),
    Sharing(
        weights=(WeightRule(ClientPattern("c0"), 3.0, 1),),
        limits=(LimitRule(clients=ClientPattern("c1"), share=0.2), LimitRule(bytes_per_second=2_000.0)),
        topics=(TopicPriority(EU, ORDERS, False, 2),),
    ),
)


class PoolMachine(RuleBasedStateMachine):
    consumers: list[Consumer]

    @initialize(
        policy=st.sampled_from(Policy),
        window=st.sampled_from([5, 20, 1000]),
        replay=st.sampled_from([0, 500, 4000]),
        metadata=st.sampled_from([0, 40, 4000]),
        limit=st.sampled_from([None, 1, 2, 5]),
        sharing=st.sampled_from(SHARINGS),
    )
    def begin(
        self, policy: Policy, window: int, replay: int, metadata: int, limit: int | None, sharing: Sharing
    ) -> None:
        self.size = 2
        self.world = self.make_world(
            PoolSettings(
                policy=policy,
                initial_window=window,
                replay_budget=replay,
                partition_budget=800,
                pool_budget=2_000,
                metadata_limit=metadata,
                redelivery=Redelivery(limit=limit),
                sharing=sharing,
            )
        )
        self.consumers = [self.world.consumer("c0")]
        self.count = 1
        self.half_open: dict[str, list[ConnectionId]] = defaultdict(list)
        self.sought: dict[str, set[int]] = defaultdict(set)
        self.world.assign_all()

    def make_world(self, settings: PoolSettings) -> WatchedWorld:
        return WatchedWorld(settings)

    def pick(self, number: int) -> Consumer:
        return self.consumers[number % len(self.consumers)]

    @precondition(lambda self: len(self.consumers) < MOST)
    @rule(group=GROUPS, is_static=st.booleans(), protocol=st.sampled_from(get_args(Protocol)))
    def join(self, group: GroupId, is_static: bool, protocol: Protocol) -> None:
        """Static members use the classic protocol: in the other one none takes the place of a member that has not
        left."""
        is_static = is_static and protocol == "classic" and group is not GROUP_LESS
        instance_id = f"static-{self.count}" if is_static else None
        name = f"c{self.count}"
        self.count += 1
        if group is GROUP_LESS:
            self.consumers.append(
                self.world.consumer(name, joined=False, group=group, positions=dict.fromkeys(range(4), 0))
            )
            return
        self.consumers.append(self.world.consumer(name, group=group, instance_id=instance_id, protocol=protocol))
        with self.world.of(group):
            self.world.assign_all()

    @rule(number=NUMBER)
    def take_the_place_of_a_static_member(self, number: int) -> None:
        older = self.pick(number)
        if older.instance_id is None:
            return
        self.consumers.remove(older)
        self.consumers.append(self.world.consumer(f"c{self.count}", group=older.group, instance_id=older.instance_id))
        self.count += 1
        assert older.heartbeat() is ErrorCode.FENCED_INSTANCE_ID
        older.disconnect()

    @rule(group=GROUPS, index=INDEX, count=st.integers(1, 12), gap=st.integers(0, 3), size=SIZE)
    def produce(self, group: GroupId, index: int, count: int, gap: int, size: int | None) -> None:
        if group not in self.world.cluster.pools:
            return
        with self.world.of(group):
            self.world.assign_all()
            if self.world.is_consumed(index):
                self.world.batch_size = size
                self.world.produce(index, count, gap)

    @rule(
        number=NUMBER,
        minimum=st.sampled_from([1, 500, 100_000]),
        maximum=st.sampled_from([10, 2000, 1 << 20]),
        wait=st.sampled_from([0.0, 0.5, 5.0]),
    )
    def fetch(self, number: int, minimum: int, maximum: int, wait: float) -> None:
        consumer = self.pick(number)
        if not consumer.is_parked:
            self.sought[consumer.name].clear()
            consumer.fetch(minimum=minimum, maximum=maximum, partition_maximum=max(maximum // 2, 1), wait=wait)

    @rule(number=NUMBER, partitions=st.sets(INDEX, min_size=1))
    def fetch_some_on_another_connection(self, number: int, partitions: set[int]) -> None:
        """The older connection is half open for a while; a member that seeks just then could not be distinguished from
        a stranger."""
        consumer = self.pick(number)
        if consumer.is_parked or self.sought[consumer.name]:
            return
        self.half_open[consumer.name].append(consumer.fetching)
        self.world.reconnect(consumer)
        consumer.fetch(partitions=sorted(partitions))

    @rule(number=NUMBER)
    def hurry(self, number: int) -> None:
        consumer = self.pick(number)
        if consumer.is_parked:
            self.world.do(self.world.cluster.answer_early(consumer.ticket, self.world.now))
            assert not consumer.is_parked

    @rule(number=NUMBER, back=st.integers(0, 30))
    def commit(self, number: int, back: int) -> None:
        consumer = self.pick(number)
        if consumer.group is not GROUP_LESS:
            consumer.commit({partition: max(offset - back, 0) for partition, offset in consumer.positions.items()})

    @rule(number=NUMBER, index=INDEX, back=st.integers(1, 60))
    def seek_back(self, number: int, index: int, back: int) -> None:
        consumer = self.pick(number)
        if not consumer.is_parked:
            consumer.positions[index] = max(consumer.positions[index] - back, 0)
            self.seeks(consumer, index)

    @rule(number=NUMBER, index=INDEX)
    def seek_to_end(self, number: int, index: int) -> None:
        consumer = self.pick(number)
        if not consumer.is_parked:
            consumer.positions[index] = self.world.cluster.list_offset(-1)
            self.seeks(consumer, index)

    def seeks(self, consumer: Consumer, index: int) -> None:
        for connection in self.half_open.pop(consumer.name, ()):
            self.world.disconnect(connection)
        self.sought[consumer.name].add(index)

    @rule(number=NUMBER)
    def lose_connection(self, number: int) -> None:
        consumer = self.pick(number)
        consumer.ticket = None
        self.world.disconnect(consumer.fetching)
        for connection in self.half_open.pop(consumer.name, ()):
            self.world.disconnect(connection)
        self.world.reconnect(consumer)

    @rule(number=NUMBER)
    def join_again(self, number: int) -> None:
        consumer = self.pick(number)
        if not consumer.is_parked and consumer.group is not GROUP_LESS:
            assert consumer.join().error is ErrorCode.NONE

    @precondition(lambda self: len(self.consumers) > 1)
    @rule(number=NUMBER, clean=st.booleans())
    def go(self, number: int, clean: bool) -> None:
        consumer = self.pick(number)
        if sum(each.group == GROUP for each in self.consumers) == 1 and consumer.group == GROUP:
            return
        self.consumers.remove(consumer)
        if clean and consumer.group is not GROUP_LESS:
            consumer.leave()
        consumer.disconnect()

    @rule(seconds=st.sampled_from([0.1, 0.6, 1.1, 4.0]))
    def wait(self, seconds: float) -> None:
        for consumer in self.consumers:
            if consumer.group is not GROUP_LESS:
                told = consumer.heartbeat()
                may_be_asked = self.size > 2 or self.world.has_moved
                assert told is ErrorCode.NONE or (told is consumer.asks_to_join_again and may_be_asked)
        self.world.advance(seconds)

    @precondition(lambda self: self.size < 5)
    @rule()
    def grow(self) -> None:
        """The topic gets one more partition on eu: each fetching member is told once, and loses no records by it."""
        self.size += 1
        self.world.do(self.world.cluster.topics_changed(EU, {ORDERS: self.size}, self.world.now))
        self.world.check()

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
    def write_dead_letter(self, error: str) -> None:
        letter = self.world.dead_letters[0]
        if not error:
            (record,) = decode_records(letter.batch)
            assert record.value is not None
            self.world.acknowledged.add((letter.group, record.value))
        if letter.group in self.world.cluster.pools:
            self.world.write_dead_letter(error)
        else:
            self.world.dead_letters.pop(0)

    @rule(action=st.sampled_from(Action), index=INDEX, first=st.integers(0, 40), more=st.integers(0, 5))
    def intervene(self, action: Action, index: int, first: int, more: int) -> None:
        """An operator settles, buries or releases records that are held, or waits."""
        if GROUP not in self.world.cluster.pools:
            return
        places: list[RunPlace] = []
        with suppress(NotPossible):
            places = intervene(self.world, action, index, Span(first, first + more))
        if action is Action.SETTLE:
            self.world.acknowledged |= {(GROUP, value_of(source(index), offset)) for offset in offsets_of(places)}
        self.world.check()

    @rule(cluster=st.sampled_from([EU, US]))
    def leave_cluster_or_come_back(self, cluster: ClusterName) -> None:
        """Removes a cluster from the configuration, or adds it again."""
        if cluster in self.world.cluster.topics.withheld:
            self.world.do(self.world.cluster.rejoin_cluster(cluster, self.world.now))
        else:
            self.world.do(self.world.cluster.leave_cluster(cluster, 2.0, self.world.now))

    @rule(cluster=st.sampled_from([EU, US]))
    def renew_cluster(self, cluster: ClusterName) -> None:
        """The files of a cluster's certificate have changed."""
        self.world.do(self.world.cluster.renew_cluster(GROUP, cluster, 2.0, self.world.now))

    @rule(cluster=st.sampled_from([EU, US]), comes_back=st.booleans())
    def rebalance(self, cluster: str, comes_back: bool) -> None:
        """A rebalance begins, and ends with the same assignment, or with only the first partition of it."""
        if cluster in self.world.cluster.topics.withheld:
            return
        indexes = [index for index in range(4) if source(index).cluster == cluster]
        self.world.upstream(lambda pool: pool.intake.revoked([source(index) for index in indexes]))
        self.world.check()
        if not comes_back:
            self.world.moved(cluster)
        self.world.assign(source(indexes[0]).cluster, resumed=True, indexes=indexes if comes_back else indexes[:1])

    @rule(cluster=st.sampled_from([EU, US]))
    def lose(self, cluster: str) -> None:
        if cluster in self.world.cluster.topics.withheld:
            return
        sources = [source(index) for index in range(4) if source(index).cluster == cluster]
        self.world.moved(cluster)
        self.world.upstream(lambda pool: pool.intake.lost(sources))
        self.world.pending_stores = [
            each for each in self.world.pending_stores if each.cluster != cluster or each.group != GROUP
        ]
        self.world.assign(sources[0].cluster)

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    @invariant()
    def what_is_not_acknowledged_is_not_committed(self) -> None:
        if not hasattr(self, "world"):
            return
        world = self.world
        accounted = world.acknowledged | self._in_commits()
        for (index, _), (group, value) in world.virtual.items():
            if (group, value) not in accounted:
                stored = world.upstreams[group].stored.get(source(index), 0)
                assert int(value.rsplit(b"@")[-1]) >= stored, (group, value)

    def _in_commits(self) -> set[tuple[GroupId, bytes]]:
        """Offsets that members have committed without an answer yet."""
        return {
            (consumer.group, value)
            for consumer, positions in self.world.commits.values()
            for where, virtual, value in consumer.received
            if where in positions and virtual < positions[where]
        }

    def teardown(self) -> None:
        """Stops the mesh at any point: it answers every client, and leaves nothing behind."""
        if not hasattr(self, "world"):
            return
        world = self.world
        world.do(world.cluster.drain(world.now))
        assert not any(consumer.is_parked for consumer in self.consumers)
        assert not world.commits
        for connection in sorted(world.connections):
            world.disconnect(connection)
        world.check_empty()


TestPool = PoolMachine.TestCase
TestPool.settings = settings(max_examples=settings().max_examples * 6, stateful_step_count=60)
