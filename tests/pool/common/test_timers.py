"""Deadlines without a clock, and the pool of many whose deadline comes next."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from mesh.pool.common.timers import SWEEP, DeadlineQueue, Timer, Timers


def test_what_is_due_is_done_in_order_of_time_then_in_the_order_it_was_set() -> None:
    timers, done = Timers(), list[str]()
    for when, name in [(2.0, "c"), (1.0, "a"), (1.0, "b"), (3.0, "d")]:
        timers.at(when, lambda _, name=name: done.append(name))  # type: ignore[misc]
    while timers.fire_next(2.0):
        pass
    assert done == ["a", "b", "c"]
    assert timers.next() == 3.0


def test_nothing_is_due_before_its_time() -> None:
    timers = Timers()
    timers.at(1.0, lambda _: None)
    assert not timers.fire_next(0.999)
    assert timers.fire_next(1.0)
    assert timers.next() is None


def test_what_is_cancelled_is_neither_done_nor_waited_for() -> None:
    timers, done = Timers(), list[str]()
    timer = timers.at(1.0, lambda _: done.append("a"))
    timers.at(2.0, lambda _: done.append("b"))
    timer.cancel()
    timer.cancel()
    assert timers.next() == 2.0
    while timers.fire_next(9.0):
        pass
    assert done == ["b"]


def test_a_deadline_is_met_once() -> None:
    timers, done = Timers(), list[float]()
    timer = timers.at(1.0, done.append)
    timers.fire_next(5.0)
    timer.fire(6.0)
    assert done == [5.0]
    assert timer.cancelled


def test_what_is_done_may_set_another_that_is_due_at_once() -> None:
    timers, done = Timers(), list[float]()
    timers.at(1.0, lambda now: (timers.at(now, done.append), None)[1])
    while timers.fire_next(1.0):
        pass
    assert done == [1.0]


@given(st.lists(st.tuples(st.floats(0, 10), st.booleans()), max_size=400))
def test_cancelled_ones_are_let_go(deadlines: list[tuple[float, bool]]) -> None:
    timers, kept, done = Timers(), list[float](), list[float]()
    for when, cancelled in deadlines:
        timer = timers.at(when, lambda now: done.append(now))
        if cancelled:
            timer.cancel()
        else:
            kept.append(when)
        assert len(timers) <= 2 * len(kept) + SWEEP + 1
    while (deadline := timers.next()) is not None:
        timers.fire_next(deadline)
    assert done == sorted(kept)


@dataclass(eq=False)
class FakePool:
    """The part of a pool that an agenda sees."""

    timers: Timers = field(default_factory=Timers)


def test_an_empty_agenda_has_nothing_to_do() -> None:
    assert DeadlineQueue[FakePool]().next() is None
    assert DeadlineQueue[FakePool]().take(1e9) is None


def test_a_pool_is_taken_when_its_time_has_come() -> None:
    deadlines, pool = DeadlineQueue[FakePool](), FakePool()
    pool.timers.at(5.0, lambda _: None)
    deadlines.note(pool)
    assert deadlines.take(4.9) is None
    assert deadlines.take(5.0) is pool
    assert deadlines.take(5.0) is None


def test_a_pool_that_has_ended_is_forgotten() -> None:
    deadlines, pool = DeadlineQueue[FakePool](), FakePool()
    pool.timers.at(5.0, lambda _: None)
    deadlines.note(pool)
    deadlines.forget(pool)
    assert deadlines.next() is None


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("at"), st.integers(0, 4), st.integers(0, 20)),
        st.tuples(st.just("cancel"), st.integers(0, 4), st.integers(0, 20)),
        st.tuples(st.just("pass"), st.integers(0, 4), st.integers(0, 20)),
    ),
    max_size=60,
)


@given(steps=STEPS)
def test_nothing_is_ever_late_and_nothing_is_forgotten(steps: list[tuple[str, int, int]]) -> None:
    deadlines, now = DeadlineQueue[FakePool](), 0.0
    pools = [FakePool() for _ in range(5)]
    timers: dict[int, list[Timer]] = {index: [] for index in range(5)}
    for kind, index, number in steps:
        pool = pools[index]
        match kind:
            case "at":
                timers[index].append(pool.timers.at(now + number, lambda _: None))
                deadlines.note(pool)
            case "cancel":
                if timers[index]:
                    timers[index][number % len(timers[index])].cancel()
                deadlines.note(pool)
            case _:
                now += number
                while (taken := deadlines.take(now)) is not None:
                    while taken.timers.fire_next(now):
                        pass
                    deadlines.note(taken)
        dues = [when for each in pools if (when := each.timers.next()) is not None]
        planned = deadlines.next()
        if dues:
            assert planned is not None
            assert planned <= min(dues)
        assert all(when > now or kind != "pass" for when in dues)
