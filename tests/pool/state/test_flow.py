"""The window cap and the load of one member."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mesh.pool.state.flow import FIRST_TRIAL, FULL_ANYHOW, OVERDUE, SMALLEST_WINDOW, USUAL, Flow

WORST = 7.7
"""WORST + 5 - WORST is less than 5."""
TIMES = st.floats(0, 1e9, allow_nan=False)


def flow(initial: int = 100, maximum: int = 10_000) -> Flow:
    return Flow(initial, maximum)


def test_the_cap_follows_what_the_member_commits_about_two_intervals_worth() -> None:
    member = flow()
    member.sent(0.0)
    member.committed(400, 0, 5.0)
    assert member.cap == 800


def test_the_cap_never_exceeds_the_maximum() -> None:
    member = flow(maximum=500)
    member.sent(0.0)
    member.committed(400, 0, 5.0)
    assert member.cap == 500


def test_a_member_that_leaves_more_than_it_settles_gets_less() -> None:
    member = flow(initial=1_000)
    member.sent(0.0)
    member.committed(10, 900, 5.0)
    assert member.cap < 1_000


def test_one_that_commits_each_record_is_not_behind_with_less_than_a_second_of_work() -> None:
    member = flow(initial=1_000)
    member.sent(0.0)
    for number in range(1, 20):
        member.committed(1, 900, number * 0.001)  # a thousand a second
    assert member.cap == 1_000
    assert member.may_grow_from <= 1.0


def test_one_that_is_behind_has_no_part_in_what_all_are_given() -> None:
    member = flow(initial=1_000)
    member.sent(0.0)
    assert not member.is_slow
    member.committed(10, 900, 5.0)
    assert member.is_slow
    member.committed(10, 0, 10.0)
    assert member.is_slow, "that it has nothing left does not make it quick"
    assert member.may_grow_from == math.inf
    member.committed(900, 0, 15.0)
    assert not member.is_slow
    assert member.may_grow_from <= 15.0


def test_one_that_has_not_committed_does_not_grow_with_others_before_it_had_the_time_to() -> None:
    member = flow()
    member.sent(0.0)
    member.asked_while_full(2.0)
    assert member.may_grow_from == 2.0 + FIRST_TRIAL
    member.committed(100, 0, 2.01)
    assert member.may_grow_from <= 2.01


def test_a_member_of_unknown_pace_may_hold_as_much_as_those_that_keep_up() -> None:
    member = flow()
    member.sent(0.0)
    member.asked_while_full(1.0)
    assert member.cap_if_quick(2_000, 1_000.0, 2.0) == 2_000
    assert member.cap_if_quick(2_000, 1_000.0, 4.5) == 3_500
    assert member.cap_if_quick(2_000, 1_000.0, 60.0) == 1_000 * FULL_ANYHOW, "by then any client has committed"


def test_what_it_was_given_while_it_was_alone_does_not_count_against_it_before_it_has_committed() -> None:
    member = flow()
    member.sent(0.0)
    member.granted_without_cap(5_000)
    assert member.cap == 5_000
    member.asked_while_full(1.0)
    assert member.cap_if_quick(300, 100.0, 2.0) == 5_300
    member.committed(5_000, 0, 3.0)
    assert member.cap_if_quick(300, 100.0, 3.0) == 300


def test_it_is_tried_for_seconds_from_when_its_window_holds_it_up_and_again_once_it_does_not() -> None:
    member = flow()
    member.sent(0.0)
    assert not member.is_newly_limited(0.0)
    member.asked_while_full(1.0)
    member.committed(100, 0, 2.0)  # held up
    assert member.is_newly_limited(1.0 + FULL_ANYHOW)
    assert not member.is_newly_limited(1.1 + FULL_ANYHOW)
    member.committed(10, 0, 10.0)  # not held up
    assert not member.is_newly_limited(10.0)
    member.asked_while_full(20.0)
    assert member.is_newly_limited(20.0)
    member.committed(10, 1_000, 21.0)
    assert not member.is_newly_limited(21.0), "it is slow"


def test_a_member_that_idles_keeps_its_cap() -> None:
    member = flow(initial=1_000)
    member.sent(0.0)
    member.committed(10, 0, 5.0)
    assert member.cap == 1_000


def test_a_cap_that_shrank_to_the_smallest_recovers() -> None:
    member = flow(initial=1_000)
    member.sent(0.0)
    for second in range(1, 40):
        member.committed(1, 900, 10.0 * second)
    assert member.cap <= 2 * SMALLEST_WINDOW
    for second in range(1, 10):
        member.committed(500, 0, 400.0 + 5 * second)
    assert member.cap >= 1_000


def test_it_doubles_when_it_asked_with_a_full_window_for_a_second_and_nobody_under_the_cap_waits() -> None:
    member = flow()
    member.sent(0.0)
    member.committed(50, 0, 1.0)
    cap = member.cap
    assert member.asked_while_full(10.0) == 11.0
    assert not member.grow_if_due(others_wait=False, now=10.9)
    assert member.grow_if_due(others_wait=False, now=11.0)
    assert member.cap == 2 * cap


def test_it_doubles_after_five_seconds_in_any_case() -> None:
    member = flow()
    member.sent(0.0)
    member.committed(50, 0, 1.0)
    cap = member.cap
    member.asked_while_full(10.0)
    assert not member.grow_if_due(others_wait=True, now=14.9)
    assert member.grow_if_due(others_wait=True, now=15.0)
    assert member.cap == 2 * cap


def test_others_may_stop_waiting_at_any_time_so_it_is_asked_again_every_second() -> None:
    member = flow()
    member.sent(0.0)
    member.committed(50, 0, 1.0)
    member.asked_while_full(10.0)
    assert not member.grow_if_due(others_wait=True, now=11.0)
    assert member.asked_while_full(11.0) == 12.0
    assert member.grow_if_due(others_wait=False, now=12.0)


def test_one_that_cannot_have_committed_yet_is_trusted_once() -> None:
    member = flow()
    member.sent(0.0)
    member.asked_while_full(0.0)
    assert member.grow_if_due(others_wait=True, now=1.0)
    member.asked_while_full(1.0)
    assert not member.grow_if_due(others_wait=True, now=2.0)
    assert not member.grow_if_due(others_wait=True, now=3.0)


def test_a_commit_that_leaves_room_ends_the_wait() -> None:
    member = flow()
    member.sent(0.0)
    member.asked_while_full(0.0)
    member.committed(50, 50, 0.5)
    assert not member.grow_if_due(others_wait=False, now=1.0)


def test_a_commit_that_leaves_no_room_does_not() -> None:
    member = flow(initial=100)
    member.sent(0.0)
    member.asked_while_full(0.0)
    member.committed(1, 10_000, 0.5)
    assert member.grow_if_due(others_wait=False, now=1.0)


@example(began=WORST, others_wait=True, trusted=False)
@given(began=TIMES, others_wait=st.booleans(), trusted=st.booleans())
def test_what_it_says_when_to_ask_again_always_leads_somewhere(began: float, others_wait: bool, trusted: bool) -> None:
    """A timer that fires at the very time it was set for either doubles the cap, or is set for a later time."""
    member = flow()
    member.sent(began)
    if not trusted:
        member.committed(10, 0, began)
    now = began
    for _ in range(5):
        when = member.asked_while_full(now)
        assert when > now
        now = when
        if member.grow_if_due(others_wait, now):
            return
    pytest.fail(f"not doubled after {FULL_ANYHOW} s")


def test_a_member_that_keeps_up_has_no_load_whatever_its_commit_interval() -> None:
    often, seldom = flow(), flow()
    for member, interval, count in ((often, 0.1, 10), (seldom, 5.0, 500)):
        member.sent(0.0)
        for number in range(1, 4):
            member.committed(count, 0, number * interval)
    assert often.load(0, 0.35) == 0
    assert seldom.load(250, 17.5) == 0


def test_the_load_is_what_it_holds_beyond_what_is_usual() -> None:
    member = flow()
    member.sent(0.0)
    member.committed(100, 0, 1.0)
    assert member.load(1_000, 2.0) == 1_000 - USUAL * member.cap


def test_one_that_cannot_have_committed_yet_has_no_load_for_five_seconds() -> None:
    member = flow()
    assert member.load(50, 0.0) == 0
    member.sent(0.0)
    assert member.load(150, 4.9) == 0
    assert member.load(150, 5.0) == 150 - USUAL * member.cap


@given(
    st.lists(st.tuples(st.floats(0, 10), st.integers(0, 10_000), st.integers(0, 10_000)), max_size=30),
    st.integers(1, 1_000),
)
def test_the_cap_stays_within_its_bounds_even_when_the_clock_stands_still(
    commits: list[tuple[float, int, int]], initial: int
) -> None:
    member, now = Flow(initial, 1_000), 0.0
    for step, count, left in commits:
        now += step
        member.sent(now)
        member.committed(count, left, now)
        assert min(initial, SMALLEST_WINDOW) <= member.cap <= 1_000
        assert member.load(left, now) >= 0


def test_a_member_that_should_have_committed_by_now_is_named_once() -> None:
    member = flow()
    assert not member.take_overdue(100.0)
    member.sent(0.0)
    assert not member.take_overdue(OVERDUE - 0.1)
    assert member.take_overdue(OVERDUE)
    assert not member.take_overdue(OVERDUE + 1)
    assert member.never_committed
