"""Held runs, compared with a dictionary of offsets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mesh.pipelines.audit.held_runs import HeldRuns

STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 30), st.integers(0, 8)), max_size=30)


@dataclass(frozen=True)
class Held:
    first: int
    last: int
    by: int


def part(held: Held, first: int, last: int) -> Held:
    return replace(held, first=first, last=last)


def by_offset(runs: list[Held]) -> dict[int, int]:
    return {offset: each.by for each in runs for offset in range(each.first, each.last + 1)}


@given(steps=STEPS)
def test_each_offset_is_held_by_the_last_holder_that_took_it(steps: list[tuple[bool, int, int]]) -> None:
    holdings, model = HeldRuns(part), dict[int, int]()
    for number, (takes, first, length) in enumerate(steps):
        last = first + length
        cut = {offset: model.pop(offset) for offset in range(first, last + 1) if offset in model}
        assert by_offset(holdings.cut(first, last)) == cut
        if takes:
            holdings.put(Held(first, last, number))
            model |= dict.fromkeys(range(first, last + 1), number)
        held = list(holdings)
        assert by_offset(held) == model
        assert all(one.last < other.first for one, other in pairwise(held))
    begun_again = HeldRuns(part, holdings)
    assert by_offset(begun_again.clear()) == model
    assert not list(begun_again)
