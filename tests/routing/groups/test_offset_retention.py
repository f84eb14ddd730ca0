"""The offsets that are stored again, and the times for it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mesh.routing.groups.offset_retention import (
    FIRST_INTERVAL,
    NO_RENEWAL,
    RETRY_INTERVAL,
    CheckResult,
    GroupAtOwner,
    MembersAtOwner,
    OffsetRetention,
    Renewal,
)
from mesh.routing.groups.stored_offsets import StoredOffset, TopicPartition
from mesh.routing.names import LeafNumber

US = LeafNumber(1)
GROUP = GroupAtOwner("one", US)
INTERVAL = 100.0
A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def offset(number: int) -> StoredOffset:
    return StoredOffset(number, -1, "")


def look(
    stored: dict[TopicPartition, int], members: MembersAtOwner = MembersAtOwner.NONE, is_empty: bool | None = False
) -> CheckResult:
    return CheckResult(is_empty, members, {place: offset(each) for place, each in stored.items()}, INTERVAL)


def noticed() -> OffsetRetention:
    retention = OffsetRetention()
    assert retention.add(GROUP, 0.0)
    return retention


def test_a_group_is_due_at_once_and_then_each_interval() -> None:
    retention = noticed()
    assert not retention.add(GROUP, 1.0)
    assert retention.due(1.0) == [GROUP]
    retention.checked(GROUP, look({A: 1}), 1.0)
    assert (retention.due(1.0 + FIRST_INTERVAL - 1), retention.next_at) == ([], 1.0 + FIRST_INTERVAL)
    retention.checked(GROUP, look({A: 1}), 20.0)
    assert (retention.due(119.0), retention.due(120.0)) == ([], [GROUP])


def test_what_has_changed_since_the_last_look_is_new() -> None:
    retention = noticed()
    assert retention.checked(GROUP, look({A: 1, B: 1}), 0.0) == NO_RENEWAL
    assert retention.checked(GROUP, look({A: 2, B: 1}), 10.0) == Renewal({B: offset(1)}, joins=False)
    assert retention.checked(GROUP, look({A: 2, B: 1}), 110.0) == Renewal({A: offset(2), B: offset(1)}, joins=False)


def test_a_member_joins_where_there_once_were_some_and_not_where_there_are_some() -> None:
    retention = noticed()
    assert retention.checked(GROUP, look({A: 1}, MembersAtOwner.LEFT), 0.0) == Renewal({}, joins=True)
    assert retention.checked(GROUP, look({A: 1}, MembersAtOwner.LEFT), 10.0) == Renewal({}, joins=True)
    assert retention.checked(GROUP, look({A: 1}, MembersAtOwner.SOME), 110.0) == NO_RENEWAL


def test_a_home_that_does_not_answer_may_have_members() -> None:
    retention = noticed()
    retention.checked(GROUP, look({A: 1}, is_empty=None), 0.0)
    assert retention.checked(GROUP, look({A: 1}, is_empty=None), 10.0) == Renewal({A: offset(1)}, joins=False)


def test_a_group_without_members_is_not_kept_until_it_is_noticed_again() -> None:
    retention = noticed()
    assert retention.checked(GROUP, look({A: 1}, MembersAtOwner.LEFT, is_empty=True), 0.0) == NO_RENEWAL
    assert (retention.due(1e9), retention.next_at) == ([], None)
    assert retention.checked(GROUP, look({A: 1}, MembersAtOwner.LEFT), 0.0) == NO_RENEWAL
    assert retention.add(GROUP, 5.0)


def test_an_owner_that_fails_is_looked_at_again_soon_and_as_if_for_the_first_time() -> None:
    retention = noticed()
    retention.checked(GROUP, look({A: 1}), 0.0)
    retention.failed(GROUP, INTERVAL, 10.0)
    assert retention.next_at == 10.0 + RETRY_INTERVAL
    assert retention.checked(GROUP, look({A: 1}), 50.0) == NO_RENEWAL
    retention.forget(GROUP)
    retention.failed(GROUP, INTERVAL, 60.0)
    assert retention.next_at is None


def test_no_more_are_kept_than_there_is_room_for() -> None:
    retention = OffsetRetention(most=2)
    groups = [GroupAtOwner(str(each), US) for each in range(3)]
    for group in groups[:2]:
        retention.add(group, 0.0)
    retention.add(groups[0], 0.0)
    retention.add(groups[2], 0.0)
    assert retention.due(0.0) == [groups[0], groups[2]]


@given(st.lists(st.tuples(st.floats(0, 30), st.booleans()), max_size=60))
def test_nothing_is_left_for_longer_than_two_intervals(steps: list[tuple[float, bool]]) -> None:
    """Commits come at any time, and every due check runs. An interval is a quarter of the time after which offsets
    expire, so none expires."""
    retention, now, stored, committed = noticed(), 0.0, 1, 0.0
    for step, commits in steps:
        now += step
        if commits:
            stored, committed = stored + 1, now
        if retention.due(now):
            deed = retention.checked(GROUP, look({A: stored}), now)
            if deed.commits:
                assert deed.commits == {A: offset(stored)}
                committed = now
        assert now - committed <= 2 * INTERVAL + 60
