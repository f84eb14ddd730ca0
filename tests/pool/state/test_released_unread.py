"""Counts of deliveries of records that are yet to be read, compared with a model that has each offset."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from mesh.pool.common.history import UNSENT, History, Redelivery
from mesh.pool.common.settings import PoolSettings
from mesh.pool.offsets.metadata import pack
from mesh.pool.state.delivery_counts import Counted
from mesh.pool.state.leases import HolderId, LeaseId, LeaseSettled, StoredLease
from mesh.pool.state.released_unread import ReleasedUnread
from mesh.records.spans import Span
from tests.pool.harness import GROUP, World, source
from tests.pool.leases.test_service import SPARK, ask, expected, lease, values

LENGTH = 40
SPANS = st.tuples(st.integers(0, LENGTH - 1), st.integers(0, 12)).map(
    lambda pair: Span(pair[0], min(sum(pair), LENGTH - 1))
)
HISTORIES = st.builds(History, st.integers(0, 3), st.booleans())
STEPS = st.one_of(
    st.tuples(st.just("note"), SPANS, HISTORIES),
    st.tuples(st.just("take"), SPANS, st.none()),
    st.tuples(st.just("forget below"), SPANS, st.none()),
)


def offsets(span: Span) -> range:
    return range(span.first, span.last + 1)


@given(st.lists(STEPS))
def test_each_offset_is_there_once_and_the_worst_of_it_counts(steps: list[tuple[str, Span, History | None]]) -> None:
    ahead, model = ReleasedUnread(), dict.fromkeys(range(LENGTH), UNSENT)
    for what, span, history in steps:
        if history is not None:
            ahead.note(span, history)
            model |= {each: max(history, model[each], key=lambda one: one.blame) for each in offsets(span)}
        elif what == "take":
            taken = ahead.take([span])
            assert [each for part, _ in taken for each in offsets(part)] == list(offsets(span))
            assert all(model[each] == history_of for part, history_of in taken for each in offsets(part))
            model |= dict.fromkeys(offsets(span), UNSENT)
        else:
            ahead.forget_below(span.first)
            model |= dict.fromkeys(range(span.first), UNSENT)
        known = list(ahead)
        assert all(one.last < other.first for (one, _), (other, _) in itertools.pairwise(known))
        assert {each: history_of for span, history_of in known for each in offsets(span)} == {
            each: history_of for each, history_of in model.items() if history_of != UNSENT
        }
        assert ahead.highest == max((each for each, history_of in model.items() if history_of != UNSENT), default=-1)


def test_what_a_restored_lease_holds_comes_once_when_it_ends_and_its_count_lasts() -> None:
    """Another mesh was killed: 4..9 had been delivered in vain once, and 4..6 were leased then. The lease ends before
    the engine reaches them."""
    place, deadline = source(0), int(PoolSettings().epoch) + 2_000
    leases = [StoredLease(LeaseId("lease"), SPARK, deadline, (Span(4, 6),))]
    stored = pack(place, 4, [], 4_000, leases, [Counted(Span(4, 9), 1)], 4_000)
    world = World(PoolSettings(presence=600.0, redelivery=Redelivery(limit=9), initial_window=1_000))
    world.stored[place], world.upstreams[GROUP].metadata[place] = 4, stored.text
    lease(world, "another", HolderId("another"))
    world.assign_all()
    partition = world.pool.partitions[place]
    assert [(each.span, each.history.count) for each in partition.leased.values()] == [(Span(4, 6), 1)]
    assert [(span, history.count) for span, history in partition.released_unread] == [(Span(7, 9), 1)]
    ask(world, lambda pool, ticket: pool.leases.release(ticket, LeaseId("lease"), SPARK, world.now), LeaseSettled)
    assert sum(len(span) for span, _ in partition.released_unread) == 6
    consumer = world.consumer()
    consumer.fetch(partitions=[0])
    world.produce(0, 10)
    counts = {each.history.count for each in next(iter(world.pool.members)).windows[place]}
    counts |= {each.history.count for each in partition.backlog.values()}
    assert 0 not in counts
    for _ in range(6):
        consumer.commit()
        consumer.fetch(partitions=[0], wait=0.0)
    assert values(consumer) == expected(4, 9)
    world.check()
