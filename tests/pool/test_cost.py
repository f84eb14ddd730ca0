"""The cost of an operation grows at most with the logarithm of the number of spans.

The tests count calls of Python functions and of built-in ones, not seconds. Calls do not show a built-in function that
walks a list as long as the spans; so these tests also forbid the index of positions, which is as long.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import islice

import pytest
from sortedcontainers import SortedDict

from mesh.pool.state.delivery_counts import DeliveryCounts
from mesh.pool.state.ledger import Ledger
from mesh.pool.state.window import Available, Window
from mesh.records.encode import encode_batch
from mesh.records.spans import Span

FEW, MANY = 1_000, 1_000_000
START = 1 << 32
BATCH = encode_batch(0, [(0, 0, None, b"v", None)])
Operation = Callable[[int], object]


def settled_every_other(count: int) -> Ledger:
    ledger = Ledger(0)
    ledger.receive(0, 4 * count)
    ledger._settled = SortedDict((offset, offset + 1) for offset in range(2, 4 * count, 4))
    return ledger


def held(count: int) -> Window:
    """So many deliveries of one record each, none adjacent upstream."""
    window = Window(START)
    for number in range(count):
        batch = BATCH
        batch.first = batch.last = 2 * number
        window.append(Available(batch))
    return window


def of_the_ledger(count: int) -> dict[str, Operation]:
    ledger = settled_every_other(count)
    counts = DeliveryCounts()
    counts._spans = SortedDict((offset, (offset + 1, 2)) for offset in range(0, 4 * count, 4))
    return {
        "acknowledge in the middle": lambda at: ledger.settle(4 * at, 4 * at + 1),
        "commit position": lambda at: ledger.committable,
        "receive": lambda at: ledger.receive(ledger.received, ledger.received + 9),
        "what is settled of a batch": lambda at: ledger.unsettled(4 * at, 4 * at + 9),
        "the highest": lambda at: ledger.highest,
        "delivered in vain": lambda at: counts.note(Span(4 * at + 1, 4 * at + 2), 3),
    }


def of_the_window(count: int) -> dict[str, Operation]:
    window = held(count)
    return {
        "acquire": lambda at: window.append(Available(BATCH)),
        "acknowledge the first": lambda at: window.settle(window.committed + 1),
        "replay": lambda at: list(islice(window.sent_from(START + at), 3)),
        "give up bytes": lambda at: window.strip(window._deliveries[START + at]),
        "read again": lambda at: _replace(window, START + at + 1),
        "release the oldest": lambda at: window.first(),
    }


def _replace(window: Window, virtual: int) -> None:
    delivery = window._deliveries[virtual]
    delivery.held = True
    window.replace(delivery, [delivery])


def calls(operation: Operation, places: Iterator[int]) -> int:
    """The most calls that it took at any of these places."""
    most = 0
    for at in places:
        count = 0

        def note(frame: object, event: str, argument: object) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        sys.setprofile(note)
        try:
            operation(at)
        finally:
            sys.setprofile(None)
        most = max(most, count)
    return most


@pytest.mark.parametrize("made", [of_the_ledger, of_the_window])
def test_steps(made: Callable[[int], dict[str, Operation]], monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = made(FEW), made(MANY)

    def index_of_positions(self: object) -> None:
        raise AssertionError("a position was asked for, which costs O(n)")

    monkeypatch.setattr("sortedcontainers.SortedList._build_index", index_of_positions)
    for name in few:
        at_few = calls(few[name], iter(range(FEW // 2, FEW // 2 + 20, 2)))
        at_many = calls(many[name], iter(range(MANY // 2, MANY // 2 + 20, 2)))
        assert at_many <= 2 * at_few + 10, f"{name}: {at_few} calls at {FEW} spans, {at_many} at {MANY}"
