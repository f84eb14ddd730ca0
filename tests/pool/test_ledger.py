"""The ledger, against a set of offsets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mesh.pool.ledger import Ledger
from mesh.records.spans import Span

LENGTH = 60
SPANS = st.lists(
    st.tuples(st.integers(0, LENGTH - 1), st.integers(0, 12)).map(lambda pair: (pair[0], min(sum(pair), LENGTH - 1))),
    max_size=25,
)


def received(length: int = LENGTH) -> Ledger:
    ledger = Ledger(0)
    ledger.receive(0, length - 1)
    return ledger


@given(SPANS)
def test_settling_is_the_union_of_what_was_settled(spans: list[tuple[int, int]]) -> None:
    ledger, settled = received(), set[int]()
    for first, last in spans:
        ledger.settle(first, last)
        settled |= set(range(first, last + 1))
        lowest = min(set(range(LENGTH + 1)) - settled)
        assert ledger.committable == lowest
        assert [offset for offset in range(LENGTH) if ledger.is_settled(offset)] == sorted(settled)
        assert ledger.outstanding == LENGTH - len(settled)
        for one, next_one in zip(ledger.spans, ledger.spans[1:], strict=False):
            assert one.last + 1 < next_one.first, "adjacent spans are one"


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(1, 8)), min_size=1, max_size=20))
def test_offsets_that_were_left_out_do_not_exist_and_are_settled(batches: list[tuple[int, int]]) -> None:
    ledger, position, held = Ledger(5), 5, set[int]()
    for gap, count in batches:
        first = position + gap
        span = ledger.receive(first, first + count - 1)
        assert span == [Span(first, first + count - 1)]
        held |= set(range(first, first + count))
        position = first + count
    assert ledger.received == position
    assert {offset for offset in range(5, position) if not ledger.is_settled(offset)} == held
    assert ledger.committable == min(held)


def test_what_was_received_before_is_not_new() -> None:
    ledger = received(10)
    assert ledger.receive(0, 9) == []
    assert ledger.receive(5, 14) == [Span(10, 14)]
    assert ledger.received == 15


def test_control_records_at_the_end_are_settled_when_the_end_is_reached() -> None:
    ledger = received(10)
    ledger.settle(0, 9)
    ledger.reach(12)
    assert (ledger.committable, ledger.received) == (12, 12)
    ledger.reach(11)
    assert ledger.received == 12


def test_what_is_settled_already_stays_so() -> None:
    ledger = received(10)
    ledger.settle(0, 4)
    ledger.settle(0, 2)
    assert ledger.committable == 5
