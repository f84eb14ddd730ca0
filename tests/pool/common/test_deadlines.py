"""Which of many pools has something to do next."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from mesh.pool.common.deadlines import DeadlineQueue
from mesh.pool.common.timers import Timer, Timers


@dataclass(eq=False)
class FakePool:
    """As much of a pool as an agenda sees."""

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
