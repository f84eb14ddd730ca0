"""How often spans were delivered in vain, against a count of each offset."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from mesh.pool.state.delivery_counts import Counted, DeliveryCounts
from mesh.records.spans import Span

LENGTH = 40
SPANS = st.tuples(st.integers(0, LENGTH - 1), st.integers(0, 12)).map(
    lambda pair: Span(pair[0], min(sum(pair), LENGTH - 1))
)


@given(st.lists(st.tuples(SPANS, st.integers(0, 5))))
def test_the_last_word_counts(noted: list[tuple[Span, int]]) -> None:
    counts, known = DeliveryCounts(), dict.fromkeys(range(LENGTH), 0)
    for span, count in noted:
        counts.note(span, count)
        known |= dict.fromkeys(range(span.first, span.last + 1), count)
    found = list(counts)
    assert {offset: each.count for each in found for offset in range(each.span.first, each.span.last + 1)} == {
        offset: count for offset, count in known.items() if count
    }
    assert all(one.span.last < other.span.first for one, other in itertools.pairwise(found))
    assert bool(counts) is any(known.values())


def test_what_was_read_is_what_was_told() -> None:
    told = [Counted(Span(3, 9), 2), Counted(Span(12, 12), 4)]
    assert list(DeliveryCounts(told)) == told
