"""Which offsets are stored again, and when."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mesh.routing.groups.keeping import AGAIN, NOTHING, SOON, Deed, GroupAtOwner, Keeping, Look, Members
from mesh.routing.groups.stored_offsets import Place, StoredOffset
from mesh.routing.names import LeafNumber

US = LeafNumber(1)
GROUP = GroupAtOwner("one", US)
INTERVAL = 100.0
A, B = Place("a", 0), Place("b", 0)


def offset(number: int) -> StoredOffset:
    return StoredOffset(number, -1, "")


def look(stored: dict[Place, int], members: Members = Members.NONE, is_empty: bool | None = False) -> Look:
    return Look(is_empty, members, {place: offset(each) for place, each in stored.items()}, INTERVAL)


def noticed() -> Keeping:
    keeping = Keeping()
    assert keeping.notice(GROUP, 0.0)
    return keeping


def test_a_group_is_due_at_once_and_then_each_interval() -> None:
    keeping = noticed()
    assert not keeping.notice(GROUP, 1.0)
    assert keeping.due(1.0) == [GROUP]
    keeping.looked(GROUP, look({A: 1}), 1.0)
    assert (keeping.due(1.0 + SOON - 1), keeping.next_at) == ([], 1.0 + SOON)
    keeping.looked(GROUP, look({A: 1}), 20.0)
    assert (keeping.due(119.0), keeping.due(120.0)) == ([], [GROUP])


def test_what_has_changed_since_the_last_look_is_new() -> None:
    keeping = noticed()
    assert keeping.looked(GROUP, look({A: 1, B: 1}), 0.0) == NOTHING
    assert keeping.looked(GROUP, look({A: 2, B: 1}), 10.0) == Deed({B: offset(1)}, joins=False)
    assert keeping.looked(GROUP, look({A: 2, B: 1}), 110.0) == Deed({A: offset(2), B: offset(1)}, joins=False)


def test_a_member_joins_where_there_once_were_some_and_not_where_there_are_some() -> None:
    keeping = noticed()
    assert keeping.looked(GROUP, look({A: 1}, Members.GONE), 0.0) == Deed({}, joins=True)
    assert keeping.looked(GROUP, look({A: 1}, Members.GONE), 10.0) == Deed({}, joins=True)
    assert keeping.looked(GROUP, look({A: 1}, Members.SOME), 110.0) == NOTHING


def test_a_home_that_does_not_answer_may_have_members() -> None:
    keeping = noticed()
    keeping.looked(GROUP, look({A: 1}, is_empty=None), 0.0)
    assert keeping.looked(GROUP, look({A: 1}, is_empty=None), 10.0) == Deed({A: offset(1)}, joins=False)


def test_a_group_without_members_is_not_kept_until_it_is_noticed_again() -> None:
    keeping = noticed()
    assert keeping.looked(GROUP, look({A: 1}, Members.GONE, is_empty=True), 0.0) == NOTHING
    assert (keeping.due(1e9), keeping.next_at) == ([], None)
    assert keeping.looked(GROUP, look({A: 1}, Members.GONE), 0.0) == NOTHING
    assert keeping.notice(GROUP, 5.0)


def test_an_owner_that_fails_is_looked_at_again_soon_and_as_if_for_the_first_time() -> None:
    keeping = noticed()
    keeping.looked(GROUP, look({A: 1}), 0.0)
    keeping.failed(GROUP, INTERVAL, 10.0)
    assert keeping.next_at == 10.0 + AGAIN
    assert keeping.looked(GROUP, look({A: 1}), 50.0) == NOTHING
    keeping.forget(GROUP)
    keeping.failed(GROUP, INTERVAL, 60.0)
    assert keeping.next_at is None


def test_no_more_are_kept_than_there_is_room_for() -> None:
    keeping = Keeping(most=2)
    groups = [GroupAtOwner(str(each), US) for each in range(3)]
    for group in groups[:2]:
        keeping.notice(group, 0.0)
    keeping.notice(groups[0], 0.0)
    keeping.notice(groups[2], 0.0)
    assert keeping.due(0.0) == [groups[0], groups[2]]


@given(st.lists(st.tuples(st.floats(0, 30), st.booleans()), max_size=60))
def test_nothing_is_left_for_longer_than_two_intervals(steps: list[tuple[float, bool]]) -> None:
    """Commits come when they like; whenever a look is due it is taken. As an interval is a quarter of the time after
    which offsets are dropped, none is."""
    keeping, now, stored, committed = noticed(), 0.0, 1, 0.0
    for step, commits in steps:
        now += step
        if commits:
            stored, committed = stored + 1, now
        if keeping.due(now):
            deed = keeping.looked(GROUP, look({A: stored}), now)
            if deed.commits:
                assert deed.commits == {A: offset(stored)}
                committed = now
        assert now - committed <= 2 * INTERVAL + 60
