"""Replays that an operator begins, beside new records."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.pool.common.history import Redelivery
from mesh.pool.common.settings import PoolSettings
from mesh.pool.interventions import Action
from mesh.pool.replay.service import MOST_APART, NotReplayed
from mesh.pool.state.replayed import ALL, RecordFilter
from mesh.records.spans import Span
from tests.pool.harness import Consumer, World, source, value_of
from tests.pool.operating import begin_replay, cancel_replay, intervene, processed
from tests.pool.share_member import ShareMember


def begin(members: int = 1, count: int = 10, **more: object) -> tuple[World, list[Consumer]]:
    """Members that have acknowledged `count` records of a partition together."""
    world = World(PoolSettings(initial_window=1_000, **more))  # type: ignore[arg-type]
    consumers = [world.consumer(f"c{number}") for number in range(members)]
    consumers[0].fetch(wait=0.0)
    world.produce(0, count)
    processed(world, consumers)
    assert world.stored[source(0)] == count
    for consumer in consumers:
        consumer.received.clear()
    return world, consumers


def offsets_of(*consumers: Consumer) -> list[int]:
    return [int(value.rsplit(b"@")[-1]) for consumer in consumers for _, _, value in consumer.received]


def test_what_was_acknowledged_is_delivered_again_and_the_committed_offset_stays() -> None:
    world, (member,) = begin()
    shown = begin_replay(world, {0: Span(2, 5)})
    assert [(each.total, each.left) for each in shown] == [(4, 4)]
    processed(world, [member])
    assert offsets_of(member) == [2, 3, 4, 5]
    assert world.stored[source(0)] == 10
    assert world.pool.replaying.partitions() == []
    assert world.reports("replay over")


def test_new_records_go_on_beside_it() -> None:
    world, (member,) = begin()
    begin_replay(world, {0: Span(0, 9)})
    world.produce(0, 5)
    world.produce(1, 5)
    processed(world, [member])
    assert Counter(offsets_of(member)) == Counter([*range(10), *range(10, 15), *range(5)])
    assert world.stored[source(0)] == 15


def test_members_that_are_behind_are_given_as_many_new_records_as_old_ones() -> None:
    world, (member,) = begin(count=5_000)
    begin_replay(world, {0: Span(0, 4_999)})
    world.batch_size = 100
    for _ in range(40):
        world.produce(0, 100)
    for _ in range(40):
        member.fetch(wait=0.0, maximum=6_000)
        member.commit()
    found = offsets_of(member)
    new = sum(offset >= 5_000 for offset in found)
    assert 0.3 < new / len(found) < 0.7, (new, len(found))


def test_what_is_not_acknowledged_is_delivered_anyhow_and_not_twice() -> None:
    world, (member,) = begin()
    world.produce(0, 10)
    member.fetch(wait=0.0)
    assert offsets_of(member) == list(range(10, 20))
    (shown,) = begin_replay(world, {0: Span(8, 15)})
    assert shown.total == 2
    processed(world, [member])
    assert Counter(offsets_of(member)) == Counter([8, 9, *range(10, 20)])


def test_a_member_that_dies_with_it_leaves_it_to_another() -> None:
    world, (one, other) = begin(2)
    begin_replay(world, {0: Span(0, 9)})
    one.fetch(wait=0.0)
    assert offsets_of(one) == list(range(10))
    one.disconnect()
    world.advance(5.0)
    processed(world, [other])
    assert offsets_of(other) == list(range(10))
    assert world.pool.replaying.partitions() == []


def test_a_rate_bounds_what_is_delivered() -> None:
    world, (member,) = begin(count=100)
    begin_replay(world, {0: Span(0, 99)}, rate=10)
    counts = []
    for _ in range(11):
        processed(world, [member])
        counts.append(len(member.received))
        world.advance(1.0)
    assert all(count <= 10 * (second + 1) for second, count in enumerate(counts)), counts
    assert counts[-1] == 100


def test_partitions_have_their_turns_at_a_rate() -> None:
    world, (member,) = begin(count=100)
    world.produce(1, 100)
    processed(world, [member])
    member.received.clear()
    begin_replay(world, {0: Span(0, 99), 1: Span(0, 99)}, rate=10)
    for _ in range(50):
        processed(world, [member])
        world.advance(0.1)
    counts = Counter(partition for partition, _, _ in member.received)
    assert abs(counts[0] - counts[1]) <= 10, counts
    assert 40 <= counts.total() <= 60


def test_what_is_done_is_counted_until_all_is_over() -> None:
    world, (member,) = begin(count=100)
    world.produce(1, 5)
    processed(world, [member])
    begin_replay(world, {0: Span(0, 99), 1: Span(0, 4)}, rate=10)
    for _ in range(2):
        processed(world, [member])
        world.advance(1.0)
    shown = {each.source: (each.total, each.left) for each in world.pool.replaying.partitions()}
    assert shown[source(1)] == (5, 0)
    assert shown[source(0)][0] == 100
    (stopped,) = cancel_replay(world)
    assert stopped.source == source(0)
    world.check()
    processed(world, [member])
    assert world.pool.replaying.partitions() == []


def test_a_record_of_it_that_is_stuck_is_settled_by_an_operator() -> None:
    world, (member,) = begin()
    begin_replay(world, {0: Span(4, 4)})
    member.fetch(wait=0.0)
    assert offsets_of(member) == [4]
    (place,) = world.pool.interventions.places(source(0), Span(4, 4))
    assert place.state == "held"
    intervene(world, Action.SETTLE, 0, Span(4, 4))
    world.check()
    assert world.pool.replaying.partitions() == []


SPANS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 59), st.integers(0, 40)),
    min_size=1,
    max_size=3,
    unique_by=lambda s: s[0],
)


@given(
    spans=SPANS,
    rate=st.sampled_from([None, 5, 40]),
    by_key=st.booleans(),
    size=st.sampled_from([None, 1, 7]),
    deaths=st.lists(st.integers(0, 3), max_size=4),
    is_restarted=st.booleans(),
    budget=st.sampled_from([0, 4_000]),
)
def test_each_record_of_the_spans_comes_once_more_and_no_other(
    spans: list[tuple[int, int, int]],
    rate: int | None,
    by_key: bool,
    size: int | None,
    deaths: list[int],
    is_restarted: bool,
    budget: int,
) -> None:
    world = World(PoolSettings(initial_window=20, replay_budget=budget))
    world.keys = {offset: b"a" if offset % 4 == 1 else b"b" for offset in range(200)}
    world.batch_size = size
    first = world.consumer("first")
    for index in range(3):
        world.produce(index, 60)
    while sum(world.stored.values()) < 180:
        processed(world, [first])
    first.received.clear()
    asked = {index: Span(start, min(start + more, 59)) for index, start, more in spans}
    begin_replay(world, asked, rate, RecordFilter(key=b"a") if by_key else ALL)
    consumers = [first]
    for number, rounds in enumerate(deaths):
        victim = world.consumer(f"victim {number}")
        consumers.append(victim)
        for _ in range(rounds):
            victim.fetch(wait=0.0)
        victim.disconnect()
        world.advance(5.0)
        world.check()
    if is_restarted:
        again = World(PoolSettings(initial_window=20, replay_budget=budget))
        again.upstreams, again.keys, again.batch_size = world.upstreams, world.keys, size
        world = again
    last = world.consumer("last")
    world.assign_all()
    consumers.append(last)
    for _ in range(200):
        if not world.pool.replaying.partitions():
            break
        processed(world, [last] if is_restarted else [first, last])
        world.advance(0.5)
    assert world.pool.replaying.partitions() == []
    came = {value for consumer in consumers for _, _, value in consumer.received}
    offsets = ((index, offset) for index, span in asked.items() for offset in range(span.first, span.last + 1))
    wanted = {value_of(source(index), each) for index, each in offsets if not by_key or world.keys[each] == b"a"}
    assert came == wanted


def test_a_filter_chooses_records_and_is_no_slower_for_a_rate() -> None:
    world, (member,) = begin(count=3_000)
    world.keys = {offset: b"a" if offset % 100 == 7 else b"b" for offset in range(3_000)}
    begin_replay(world, {0: Span(0, 2_999)}, rate=20, chosen=RecordFilter(key=b"a"))
    for _ in range(3):
        processed(world, [member])
        world.advance(1.0)
    processed(world, [member])
    assert offsets_of(member) == list(range(7, 3_000, 100))
    assert world.pool.replaying.partitions() == []


def test_bytes_that_were_given_up_are_chosen_again_when_they_are_read_again() -> None:
    world, (one, other) = begin(2, count=20, replay_budget=0)
    world.keys = {offset: b"a" if offset in (3, 9) else b"b" for offset in range(20)}
    begin_replay(world, {0: Span(0, 19)}, chosen=RecordFilter(key=b"a"))
    one.fetch(wait=0.0)
    assert offsets_of(one) == [3, 9]
    position = min(virtual for _, virtual, _ in one.received)
    one.positions[0] = position
    one.fetch(wait=1.0)
    assert offsets_of(one) == [3, 9, 3, 9]
    one.disconnect()
    world.advance(5.0)
    processed(world, [other])
    assert offsets_of(other) == [3, 9]
    assert world.pool.replaying.partitions() == []


def test_nothing_that_matches_ends_it() -> None:
    world, (member,) = begin()
    begin_replay(world, {0: Span(0, 9)}, chosen=RecordFilter(headers=(("region", b"eu"),)))
    processed(world, [member])
    assert member.received == []
    assert world.pool.replaying.partitions() == []


def test_cancelled_it_delivers_no_more() -> None:
    world, (member, other) = begin(2, count=100)
    begin_replay(world, {0: Span(0, 99)}, rate=10)
    member.fetch(wait=0.0)
    assert len(member.received) == 10
    (stopped,) = cancel_replay(world)
    assert (stopped.total, stopped.left, stopped.out) == (100, 100, 10)
    world.check()
    with pytest.raises(NotReplayed, match="is not over"):
        begin_replay(world, {0: Span(0, 9)}, id="second")
    world.advance(10.0)
    processed(world, [member, other])
    assert len(offsets_of(member, other)) == 10
    assert world.pool.replaying.partitions() == []
    begin_replay(world, {0: Span(0, 9)}, id="second")
    with pytest.raises(NotReplayed, match="'third': no unfinished replay"):
        cancel_replay(world, id="third")


def test_cancelled_it_takes_back_what_waits_and_leaves_what_is_new() -> None:
    world, (member,) = begin(count=100)
    begin_replay(world, {0: Span(0, 99)})
    world.produce(0, 10)
    cancel_replay(world)
    world.check()
    processed(world, [member])
    assert offsets_of(member) == list(range(100, 110))


@pytest.mark.parametrize("redelivery", [Redelivery(), Redelivery(limit=10, initial=5.0)])
def test_cancelled_it_does_not_come_again_when_its_member_goes_away(redelivery: Redelivery) -> None:
    world, (member, other) = begin(2, count=100, redelivery=redelivery)
    begin_replay(world, {0: Span(0, 99)}, rate=10)
    member.fetch(wait=0.0)
    world.produce(0, 5)
    member.fetch(wait=0.0)
    cancel_replay(world)
    held = offsets_of(member)
    member.disconnect()
    world.advance(5.0)
    for _ in range(5):
        processed(world, [other])
        world.advance(5.0)
    assert offsets_of(other) == [offset for offset in held if offset >= 100]
    assert world.pool.replaying.partitions() == []
    assert world.stored[source(0)] == 105
    world.check()


def test_cancelled_it_makes_no_dead_letters() -> None:
    world, (member, _) = begin(2, redelivery=Redelivery(limit=1))
    begin_replay(world, {0: Span(4, 4)})
    member.fetch(wait=0.0)
    assert offsets_of(member) == [4]
    cancel_replay(world)
    member.disconnect()
    world.advance(5.0)
    assert not world.dead_letters
    assert world.pool.replaying.partitions() == []
    world.check()


def test_cancelled_it_does_not_come_again_when_a_share_member_releases_it() -> None:
    world, (member,) = begin(count=100)
    begin_replay(world, {0: Span(0, 99)}, rate=10)
    sharing = ShareMember.joined(world)
    sharing.fetch(wait=0.0)
    assert sharing.held(0) == list(range(10))
    cancel_replay(world)
    sharing.end()
    processed(world, [member])
    assert member.received == []
    assert world.pool.replaying.partitions() == []
    world.check()


def test_a_restart_goes_on_with_what_was_not_acknowledged() -> None:
    world, (member,) = begin(count=100)
    begin_replay(world, {0: Span(0, 49)}, rate=10)
    processed(world, [member])
    assert offsets_of(member) == list(range(10))
    again = World(PoolSettings(initial_window=1_000))
    again.upstreams = world.upstreams
    other = again.consumer("after")
    again.assign_all()
    (shown,) = again.pool.replaying.partitions()
    assert (shown.total, shown.left, shown.replay.rate) == (50, 40, 10)
    for _ in range(5):
        processed(again, [other])
        again.advance(1.0)
    assert offsets_of(other) == list(range(10, 50))
    assert again.pool.replaying.partitions() == []


def test_a_commit_of_it_is_answered_when_that_is_stored() -> None:
    world, (member,) = begin()
    begin_replay(world, {0: Span(0, 9)})
    member.fetch(wait=0.0)
    world.auto_store = False
    ticket = member.commit()
    assert ticket not in world.answers
    while world.pending_stores:
        world.store()
    assert ticket in world.answers


def test_another_process_goes_on_with_what_it_is_assigned() -> None:
    world, (member,) = begin()
    begin_replay(world, {0: Span(0, 9)})
    world.upstream(lambda pool: pool.intake.lost([source(0)]))
    assert world.pool.replaying.partitions() == []
    world.assign(source(0).cluster)
    assert [each.left for each in world.pool.replaying.partitions()] == [10]
    world.check()
    member.join()
    processed(world, [member])
    assert sorted(set(offsets_of(member))) == list(range(10))


def test_a_log_that_was_truncated_or_starts_again_has_nothing_to_be_replayed_there() -> None:
    world, _ = begin(count=100)
    begin_replay(world, {0: Span(0, 99)}, rate=10)
    world.may_move_back.add(source(0))
    world.upstream(lambda pool: pool.intake.truncated(source(0), 50, world.now))
    assert [each.left for each in world.pool.replaying.partitions()] == [50]
    world.upstream(lambda pool: pool.intake.position_reset(source(0), 0, "made anew", world.now))
    assert world.pool.replaying.partitions() == []


def test_what_retention_has_deleted_is_passed_over() -> None:
    world, (member,) = begin()
    world.auto_reread = False
    begin_replay(world, {0: Span(0, 9)})
    world.reread(gone=range(6))
    processed(world, [member])
    assert offsets_of(member) == [6, 7, 8, 9]
    assert world.pool.replaying.partitions() == []


def test_a_record_that_kills_its_members_again_is_a_dead_letter_again() -> None:
    world, _ = begin(1, redelivery=Redelivery(limit=2))
    begin_replay(world, {0: Span(4, 4)})
    for number in range(4):
        victim = world.consumer(f"victim {number}")
        victim.fetch(wait=0.0)
        victim.disconnect()
        world.advance(5.0)
        if world.dead_letters:
            break
    world.write_dead_letter()
    world.check()
    assert world.pool.replaying.partitions() == []


@pytest.mark.parametrize(
    ("spans", "problem"),
    [
        ({0: Span(100, 200)}, "no record of that was acknowledged"),
        ({0: Span(5, 5), 1: Span(0, 0)}, None),
    ],
)
def test_what_cannot_be_replayed_is_refused(spans: dict[int, Span], problem: str | None) -> None:
    world, _ = begin()
    if problem is None:
        assert [each.source for each in begin_replay(world, spans)] == [source(0)]
        return
    with pytest.raises(NotReplayed, match=problem):
        begin_replay(world, spans)


def test_partitions_of_another_process_are_refused() -> None:
    world, _ = begin()
    world.upstream(lambda pool: pool.intake.lost([source(0)]))
    with pytest.raises(NotReplayed, match="is not assigned"):
        begin_replay(world, {0: Span(0, 9)})


def test_too_many_runs_are_refused() -> None:
    world, _ = begin()
    ledger = world.pool.partitions[source(0)].ledger
    world.produce(0, 4 * MOST_APART)
    for offset in range(10, 10 + 3 * MOST_APART, 2):
        ledger.settle(offset, offset)
    with pytest.raises(NotReplayed, match="runs of acknowledged records"):
        begin_replay(world, {0: Span(0, 10 + 3 * MOST_APART)})


def test_a_name_is_for_one_replay_at_a_time() -> None:
    world, _ = begin()
    world.produce(1, 10)
    world.pool.partitions[source(1)].ledger.settle(0, 9)
    begin_replay(world, {0: Span(0, 9)})
    with pytest.raises(NotReplayed, match="is the name of a replay"):
        begin_replay(world, {1: Span(0, 9)})


def test_clusters_that_store_little_metadata_are_refused() -> None:
    world, _ = begin(metadata_limit=1_000)
    with pytest.raises(NotReplayed, match="commit metadata"):
        begin_replay(world, {0: Span(0, 9)})


def test_share_groups_are_refused() -> None:
    world = World()
    member = ShareMember.joined(world)
    member.fetch(wait=0.0)
    world.assign_all()
    with pytest.raises(NotReplayed, match="share group"):
        begin_replay(world, {0: Span(0, 9)})
