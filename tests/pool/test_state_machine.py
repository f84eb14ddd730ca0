"""Random lives of a pool: whatever happens, nothing is lost, held twice, or given under two offsets."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mesh.pool.partition import Standing
from mesh.pool.results import CommitResult
from mesh.pool.settings import Policy, PoolSettings
from mesh.records.spans import UpstreamPartition
from mesh.wire.errors import ErrorCode
from tests.pool.harness import EU, GROUP, ORDERS, US, Consumer, World, source

INDEX = st.integers(0, 3)


class WatchedWorld(World):
    """Keeps account of what clients have acknowledged."""

    def __init__(self, settings: PoolSettings) -> None:
        super().__init__(settings, auto_store=False, auto_reread=False)
        self.acknowledged: set[bytes] = set()

    def committed(self, ticket: object, result: CommitResult) -> None:
        consumer, positions = self.commits.pop(ticket)
        for partition, offset in positions.items():
            if result.errors[ORDERS, partition] is ErrorCode.NONE:
                for where, virtual, value in consumer.received:
                    if where == partition and virtual < offset:
                        self.acknowledged.add(value)


class PoolMachine(RuleBasedStateMachine):
    consumers: list[Consumer]

    @initialize(
        policy=st.sampled_from(Policy), window=st.sampled_from([5, 20, 1000]), replay=st.sampled_from([0, 4000])
    )
    def begin(self, policy: Policy, window: int, replay: int) -> None:
        self.world = WatchedWorld(
            PoolSettings(policy=policy, initial_window=window, replay_budget=replay, partition_budget=20_000)
        )
        self.consumers = [self.world.consumer("c0")]
        self.world.assign_all()

    def pick(self, number: int) -> Consumer:
        return self.consumers[number % len(self.consumers)]

    @precondition(lambda self: len(self.consumers) < 4)
    @rule()
    def join(self) -> None:
        self.consumers.append(self.world.consumer(f"c{len(self.consumers)}"))
        self.world.assign_all()

    @rule(index=INDEX, count=st.integers(1, 12), gap=st.integers(0, 3))
    def produce(self, index: int, count: int, gap: int) -> None:
        if self.world.pool.partitions[source(index)].standing is Standing.ACTIVE:
            self.world.produce(index, count, gap)

    @rule(
        number=st.integers(0, 3),
        minimum=st.sampled_from([1, 500, 100_000]),
        maximum=st.sampled_from([10, 2000, 1 << 20]),
    )
    def fetch(self, number: int, minimum: int, maximum: int) -> None:
        consumer = self.pick(number)
        if not consumer.is_parked:
            consumer.fetch(minimum=minimum, maximum=maximum, partition_maximum=max(maximum // 2, 1))

    @rule(number=st.integers(0, 3), back=st.integers(0, 30))
    def commit(self, number: int, back: int) -> None:
        consumer = self.pick(number)
        consumer.commit({partition: max(offset - back, 0) for partition, offset in consumer.positions.items()})

    @rule(number=st.integers(0, 3), index=INDEX, back=st.integers(1, 60))
    def seek_back(self, number: int, index: int, back: int) -> None:
        consumer = self.pick(number)
        if not consumer.is_parked:
            consumer.positions[index] = max(consumer.positions[index] - back, 0)

    @rule(number=st.integers(0, 3), index=INDEX)
    def seek_to_end(self, number: int, index: int) -> None:
        consumer = self.pick(number)
        if not consumer.is_parked:
            consumer.positions[index] = self.world.cluster.list_offset(-1)

    @rule(number=st.integers(0, 3))
    def lose_connection(self, number: int) -> None:
        consumer = self.pick(number)
        consumer.ticket = None
        self.world.do(self.world.cluster.disconnected(consumer.fetching, self.world.now))
        self.world.reconnect(consumer)

    @rule(number=st.integers(0, 3))
    def join_again(self, number: int) -> None:
        consumer = self.pick(number)
        if not consumer.is_parked:
            assert consumer.join().error is ErrorCode.NONE

    @precondition(lambda self: len(self.consumers) > 1)
    @rule(number=st.integers(0, 3), clean=st.booleans())
    def go(self, number: int, clean: bool) -> None:
        consumer = self.pick(number)
        self.consumers.remove(consumer)
        if clean:
            consumer.leave()
        consumer.disconnect()

    @rule(seconds=st.sampled_from([0.1, 0.6, 1.1, 4.0]))
    def wait(self, seconds: float) -> None:
        for consumer in self.consumers:
            ticket = self.world.ticket()
            self.world.do(
                self.world.cluster.heartbeat(
                    ticket, GROUP, consumer.member_id, None, consumer.generation, self.world.now
                )
            )
        self.world.advance(seconds)

    @precondition(lambda self: self.world.pending_stores)
    @rule(error=st.sampled_from([0, 0, 0, 14, 27]))
    def store(self, error: int) -> None:
        self.world.store(error)

    @precondition(lambda self: self.world.pending_rereads)
    @rule(error=st.sampled_from(["", "", "broker away"]))
    def reread(self, error: str) -> None:
        self.world.reread(error)

    @rule(cluster=st.sampled_from([EU, US]))
    def rebalance(self, cluster: str) -> None:
        sources = [source(index) for index in range(4) if source(index).cluster == cluster]
        self.world.upstream(lambda pool: pool.revoked(sources))
        self.world.assign(sources[0].cluster, resumed=True)

    @rule(cluster=st.sampled_from([EU, US]))
    def lose(self, cluster: str) -> None:
        sources = [source(index) for index in range(4) if source(index).cluster == cluster]
        self.world.upstream(lambda pool: pool.lost(sources))
        self.world.pending_rereads = [each for each in self.world.pending_rereads if each.partition not in sources]
        self.world.pending_stores = [each for each in self.world.pending_stores if each.cluster != cluster]
        self.world.assign(sources[0].cluster)

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    @invariant()
    def what_is_not_acknowledged_is_not_committed(self) -> None:
        if not hasattr(self, "world"):
            return
        for index in range(4):
            partition: UpstreamPartition = source(index)
            produced = {value for (where, _), value in self.world.virtual.items() if where == index}
            for value in produced - self.world.acknowledged - self._in_commits():
                assert int(value.rsplit(b"@")[-1]) >= self.world.stored.get(partition, 0), value

    def _in_commits(self) -> set[bytes]:
        """What members have committed and have not been answered for."""
        return {
            value
            for consumer, positions in self.world.commits.values()
            for where, virtual, value in consumer.received
            if where in positions and virtual < positions[where]
        }


TestPool = PoolMachine.TestCase
TestPool.settings = settings(max_examples=settings().max_examples * 6, stateful_step_count=60)
