"""A member's window of one partition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.pool.common.history import UNSENT, History
from mesh.pool.state.window import Available, Delivery, Window
from mesh.records.encode import encode_batch
from mesh.records.spans import Span

START = 7 << 32 | 1_000


def window() -> Window:
    return Window(START)


def send(of: Window, first: int, count: int, deliveries: int = 0) -> Delivery:
    batch = encode_batch(first, [(offset, 0, None, b"v", None) for offset in range(first, first + count)])
    return of.append(Available(batch, History(deliveries)))


def test_virtual_offsets_are_contiguous_whatever_the_upstream_ones_are() -> None:
    sent = window()
    assert send(sent, 100, 5).virtual == START
    assert send(sent, 300, 5).virtual == START + 5
    assert sent.end == START + 10
    assert sent.held == 10


@given(st.lists(st.integers(1, 6), min_size=1, max_size=8), st.lists(st.integers(0, 50), max_size=12))
def test_a_commit_settles_exactly_the_records_below_it(counts: list[int], commits: list[int]) -> None:
    sent, upstream, position = window(), list[int](), 0
    for number, count in enumerate(counts):
        position += 10 * (number % 3)
        send(sent, position, count)
        upstream += range(position, position + count)
        position += count
    done = 0
    for commit in commits:
        offset = min(START + commit, sent.end)
        spans = sent.settle(offset)
        assert [each for span in spans for each in range(span.first, span.last + 1)] == upstream[
            done : max(done, offset - START)
        ]
        done = max(done, offset - START)
        assert sent.committed == START + done
        assert sent.held == len(upstream) - done
        assert sent.holds_beyond(sent.committed) is (sent.held > 0)


def test_a_commit_in_the_middle_of_a_batch_keeps_the_offsets_of_the_rest() -> None:
    sent = window()
    delivery = send(sent, 100, 10)
    base = delivery.base_offset(delivery.batch) if delivery.batch is not None else -1
    assert sent.settle(START + 4) == [Span(100, 103)]
    assert (delivery.virtual, delivery.first, delivery.last) == (START + 4, 104, 109)
    assert delivery.batch is not None
    assert delivery.base_offset(delivery.batch) == base
    assert list(sent.sent_from(START)) == [delivery]


def test_an_offset_belongs_to_a_window_from_committed_to_the_end_of_what_was_sent() -> None:
    sent = window()
    send(sent, 0, 10)
    sent.settle(START + 4)
    assert START + 3 not in sent
    assert START + 4 in sent
    assert START + 10 in sent
    assert START + 11 not in sent


def test_what_is_taken_away_is_given_up_whole_and_the_member_goes_on_after_it() -> None:
    sent = window()
    deliveries = [send(sent, 0, 5), send(sent, 5, 5)]
    sent.settle(START + 2)
    assert sent.release() == deliveries
    assert (sent.committed, sent.end, sent.held, len(sent)) == (START + 10, START + 10, 0, 0)
    assert not any(delivery.held for delivery in deliveries)


def test_what_is_sent_from_an_offset_begins_with_the_delivery_that_holds_it() -> None:
    sent = window()
    first, second, third = send(sent, 0, 5), send(sent, 5, 5), send(sent, 10, 5)
    assert list(sent.sent_from(START)) == [first, second, third]
    assert list(sent.sent_from(START + 7)) == [second, third]
    assert list(sent.sent_from(START + 10)) == [third]
    assert list(sent.sent_from(START + 15)) == []
    assert not sent.holds_beyond(START + 15)
    assert sent.holds_beyond(START + 14)


def test_runs_without_bytes_become_one_delivery_when_they_follow_each_other() -> None:
    sent = window()
    first, second = send(sent, 0, 5), send(sent, 5, 5)
    sent.strip(first)
    sent.strip(second)
    assert len(sent) == 1
    assert (first.first, first.last, first.batch) == (0, 9, None)
    assert not second.held


@pytest.mark.parametrize(("gap", "deliveries"), [(3, 0), (0, 1)])
def test_runs_that_differ_stay_apart(gap: int, deliveries: int) -> None:
    sent = window()
    first, second = send(sent, 0, 5), send(sent, 5 + gap, 5, deliveries)
    sent.strip(first)
    sent.strip(second)
    assert list(sent) == [first, second]


def test_a_window_moves_to_another_slot_only_when_it_holds_nothing() -> None:
    sent = window()
    send(sent, 0, 5)
    with pytest.raises(ValueError):
        sent.move(9 << 32)
    sent.settle(sent.end)
    sent.move(9 << 32)
    assert (sent.committed, sent.end) == (9 << 32, 9 << 32)


def test_what_was_sent_keeps_its_offsets_when_the_next_ones_come_from_another_slot() -> None:
    sent = window()
    send(sent, 0, 5)
    sent.jump(9 << 32)
    assert send(sent, 5, 5).virtual == 9 << 32
    assert sent.settle(START + 5) == [Span(0, 4)]
    assert sent.settle(sent.end) == [Span(5, 9)]
    with pytest.raises(ValueError):
        sent.jump(START)


def test_an_empty_window_jumps_whole() -> None:
    sent = window()
    sent.jump(9 << 32)
    assert sent.committed == 9 << 32


def test_what_is_in_none_of_the_new_batches_is_held_no_more() -> None:
    sent = window()
    delivery = send(sent, 0, 10)
    sent.strip(delivery)
    parts = [Delivery(START + 2, 2, 4, None, UNSENT), Delivery(START + 8, 8, 9, None, UNSENT)]
    assert sent.replace(delivery, parts) == 5
    assert sent.held == 5
    assert list(sent) == parts
    with pytest.raises(ValueError):
        sent.replace(delivery, [])
