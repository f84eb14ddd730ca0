"""Pauses between two requests for a description."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mesh.streams.backoff import INITIAL, JITTER, MAXIMUM, MOST_GROUPS, Backoff


def even() -> float:
    return 0.5


def pauses(random: float, count: int) -> list[float]:
    """The pauses of a group that is asked as often as allowed."""
    backoff, now, found = Backoff(lambda: random), 0.0, []
    assert backoff.arm_if_not_active("g", 1, now)
    for _ in range(count):
        begin = now
        while not backoff.arm_if_not_active("g", 1, now):
            now += 0.5
        found.append(now - begin)
    return found


def test_they_double_up_to_an_hour() -> None:
    assert pauses(0.5, 9) == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]


@given(st.floats(0, 1))
def test_they_differ_by_a_fifth(random: float) -> None:
    for number, pause in enumerate(pauses(random, 8)):
        plain = min(INITIAL * 2**number, MAXIMUM)
        assert plain * (1 - JITTER) <= pause <= min(plain * (1 + JITTER), MAXIMUM) + 0.5


def test_asking_begins_a_pause() -> None:
    backoff = Backoff(even)
    assert backoff.arm_if_not_active("g", 1, 0)
    assert not backoff.arm_if_not_active("g", 1, 29)
    assert backoff.arm_if_not_active("other", 1, 29)
    assert backoff.arm_if_not_active("g", 1, 30)


def test_a_failed_push_makes_it_longer() -> None:
    backoff = Backoff(even)
    backoff.arm_if_not_active("g", 1, 0)
    backoff.arm("g", 1, 1)
    assert not backoff.arm_if_not_active("g", 1, 60)
    assert backoff.arm_if_not_active("g", 1, 61)


def test_a_later_epoch_starts_again_and_an_earlier_one_changes_nothing() -> None:
    backoff = Backoff(even)
    backoff.arm_if_not_active("g", 2, 0)
    backoff.arm("g", 1, 1)
    assert not backoff.arm_if_not_active("g", 1, 1_000)
    assert backoff.arm_if_not_active("g", 3, 1)
    assert not backoff.arm_if_not_active("g", 3, 30)
    assert backoff.arm_if_not_active("g", 3, 31)


def test_only_the_epoch_that_is_settled_is_cleared() -> None:
    backoff = Backoff(even)
    backoff.arm_if_not_active("g", 2, 0)
    backoff.clear("g", 1)
    assert not backoff.arm_if_not_active("g", 2, 1)
    backoff.clear("g", 2)
    assert backoff.arm_if_not_active("g", 2, 1)
    backoff.clear_group("g")
    assert backoff.arm_if_not_active("g", 2, 1)
    backoff.clear_group("nobody")


def test_of_groups_that_are_gone_no_more_are_remembered_than_there_is_room_for() -> None:
    backoff = Backoff(even)
    for number in range(MOST_GROUPS + 1):
        backoff.arm_if_not_active(str(number), 1, 0)
    assert backoff.arm_if_not_active("0", 1, 0), "the one that began first is forgotten"
    assert not backoff.arm_if_not_active(str(MOST_GROUPS), 1, 0)
