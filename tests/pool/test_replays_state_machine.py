"""Random lives of a virtual cluster with replays: no record of a span is lost, and no other record comes again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from mesh.pool.common.group_rules import GROUP_LESS
from mesh.pool.common.ids import GroupId
from mesh.pool.common.settings import Policy, PoolSettings
from mesh.pool.replay.service import NotReplayed
from mesh.pool.state.replayed import ALL, RecordFilter
from mesh.records.spans import Span
from tests.pool.checks import offsets_of
from tests.pool.harness import GROUP, source, value_of
from tests.pool.operating import begin_replay, cancel_replay
from tests.pool.test_state_machine import INDEX, NUMBER, SHARINGS, PoolMachine, WatchedWorld

KEYS = {offset: b"a" if offset % 3 == 0 else b"b" for offset in range(10_000)}
FILTERS = (ALL, ALL, RecordFilter(key=b"a"), RecordFilter(key=b"c"))


class ReplayingWorld(WatchedWorld):
    """A world with replays. may_come: the offsets of begun replays. came: how often each record was given to the
    group."""

    def __init__(self, settings: PoolSettings) -> None:
        super().__init__(settings)
        self.keys = KEYS
        self.may_come: set[bytes] = set()
        self.came: Counter[bytes] = Counter()

    def reread(self, error: str = "", gone: Iterable[int] = (), empty: Iterable[int] = ()) -> None:
        """Offsets that were never produced have no record."""
        wanted = self.pending_rereads[0]
        produced = offsets_of(Span(*each) for each in self.upstreams[wanted.group].logs.get(wanted.partition, ()))
        super().reread(error, gone, {*empty, *(offsets_of([wanted.span]) - produced)})

    def given(self, group: GroupId, partition: int, offset: int, value: bytes) -> None:
        if group == GROUP:
            self.came[value] += 1
            if value in self.may_come:
                self.stored_for_good.discard((group, value))
        super().given(group, partition, offset, value)


class ReplayMachine(PoolMachine):
    @initialize(
        policy=st.sampled_from(Policy),
        window=st.sampled_from([5, 20, 1000]),
        replay=st.sampled_from([0, 500, 4000]),
        limit=st.sampled_from([None, 2]),
    )
    def begin(self, policy: Policy, window: int, replay: int, limit: int | None) -> None:
        super().begin(policy, window, replay, 4_000, limit, SHARINGS[0])
        self.begun = 0
        for index in range(3):
            self.world.produce(index, 40)
        for _ in range(10):
            self.take_and_commit(0)

    def make_world(self, settings: PoolSettings) -> WatchedWorld:
        return ReplayingWorld(settings)

    @rule(
        index=INDEX,
        first=st.integers(0, 30),
        more=st.integers(0, 40),
        rate=st.sampled_from([None, None, 3]),
        chosen=st.sampled_from(FILTERS),
    )
    def replay(self, index: int, first: int, more: int, rate: int | None, chosen: RecordFilter) -> None:
        world = self.world
        assert isinstance(world, ReplayingWorld)
        if GROUP not in world.cluster.pools:
            return
        self.begun += 1
        span = Span(first, first + more)
        matching = {offset for offset in offsets_of([span]) if chosen.key is None or KEYS[offset] == chosen.key}
        world.may_come |= {value_of(source(index), offset) for offset in matching}
        with suppress(NotReplayed):
            begin_replay(world, {index: span}, rate, chosen, f"replay {self.begun}")
        world.check()

    @rule(number=NUMBER)
    def take_and_commit(self, number: int) -> None:
        """Takes and commits until no record is in flight."""
        consumer = self.pick(number)
        if not consumer.is_parked:
            consumer.fetch(wait=0.0)
        if consumer.group is not GROUP_LESS:
            consumer.commit()
        while self.world.pending_stores or self.world.pending_rereads:
            if self.world.pending_stores:
                self.world.store()
            if self.world.pending_rereads:
                self.world.reread()

    @precondition(lambda self: GROUP in self.world.cluster.pools)
    @rule()
    def cancel(self) -> None:
        for id in {each.replay.id for each in self.world.pool.replaying.partitions() if not each.is_cancelled}:
            cancel_replay(self.world, id)
        self.world.check()


TestReplays = ReplayMachine.TestCase
TestReplays.settings = settings(max_examples=settings().max_examples * 3, stateful_step_count=60)
