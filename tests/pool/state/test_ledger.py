"""The ledger, against a set of offsets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mesh.pool.state.ledger import Ledger
from mesh.records.runs import MOST_EMPTY
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
        for one, next_one in zip(ledger.spans, ledger.spans[1:], strict=False):
            assert one.last + 1 < next_one.first, "adjacent spans are one"


COMINGS = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8), st.sampled_from([0, 1, 3, 20])), max_size=20)
"""Offsets without a record, records behind them, and how many of the lowest held offsets are then acknowledged."""


@given(COMINGS, st.booleans())
def test_offsets_without_a_record_count_with_the_batch_behind_them(
    comings: list[tuple[int, int, int]], at_once: bool
) -> None:
    ledger, held = Ledger(5), list[Span]()
    for gap, count, acknowledged in comings:
        end = ledger.received + gap
        if count:
            held += ledger.receive(end, end + count - 1, at_once)
        else:
            ledger.reach(end, at_once)
        assert ledger.received == end + count
        assert [part for span in held for part in ledger.unsettled(span.first, span.last)] == held, "nobody else has it"
        for span in held[len(held) // 2 :][:acknowledged]:
            held.remove(span)
            ledger.settle(span.first, span.last)
        waits = ledger.received if ledger._empty_from is None else ledger._empty_from
        assert ledger.committable == min([span.first for span in held] + [waits])
        assert at_once or all(run in ledger.acknowledged for run in ledger), "a run for each small transaction"
    for span in held:
        ledger.settle(span.first, span.last)
    assert ledger.committable == ledger.received
    assert ledger.spans == []


def test_very_many_offsets_without_a_record_are_settled_by_themselves() -> None:
    ledger = received(10)
    begin = 10 + MOST_EMPTY + 1
    assert ledger.receive(begin, begin) == [Span(begin, begin)]
    ledger.reach(begin + MOST_EMPTY + 2)
    assert ledger.spans == [Span(10, begin - 1), Span(begin + 1, begin + MOST_EMPTY + 1)]
    assert list(ledger.acknowledged) == []
    assert ledger.highest_acknowledged == -1


def test_a_run_in_which_something_was_acknowledged_is_one_with_what_is_empty_beside_it() -> None:
    ledger = received(20)
    ledger.settle_empty(5, 6)
    before = ledger.version
    ledger.settle_empty(9, 9)
    assert list(ledger.acknowledged) == []
    assert ledger.version == before, "nothing that has to be stored"
    ledger.settle(7, 8)
    assert list(ledger.acknowledged) == ledger.spans == [Span(5, 9)]
    assert (ledger.version, ledger.highest_acknowledged) == (before + 1, 9)
    ledger.settle_empty(15, 15)
    assert (list(ledger.acknowledged), ledger.highest_acknowledged) == ([Span(5, 9)], 9)


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
