"""Answers leave whole and in the order of their requests, in whatever order their parts come."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from mesh.wire.answer_queue import AnswerQueue


@given(st.lists(st.integers(1, 4), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_parts_in_any_order(sizes: list[int], chance: Random) -> None:
    """sizes: of answers, in parts."""
    queue = AnswerQueue()
    tickets = [queue.expect() for _ in sizes]
    come = [0] * len(sizes)
    left = b""
    while any(count < size for count, size in zip(come, sizes, strict=True)):
        place = chance.choice([index for index, size in enumerate(sizes) if come[index] < size])
        part = bytes([place, come[place]])
        come[place] += 1
        is_next = queue.is_next(tickets[place])
        leaving = b"".join(queue.add(tickets[place], [part], is_last=come[place] == sizes[place]))
        assert leaving.startswith(part) is is_next, "a part leaves at once if it is the next one's, and only then"
        left += leaving
        done = next((index for index, size in enumerate(sizes) if come[index] < size), len(sizes))
        assert len(queue) == len(sizes) - done
    assert left == b"".join(bytes([place, part]) for place, size in enumerate(sizes) for part in range(size))


def test_nobody_waits_any_more() -> None:
    queue = AnswerQueue()
    ticket = queue.expect()
    queue.clear()
    assert len(queue) == 0
    assert not queue.is_next(ticket)
