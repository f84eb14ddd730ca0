"""Lists of spans, against sets of offsets."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from mesh.records.span_lists import (
    at_or_above,
    below,
    common,
    count,
    disjoint,
    first_of,
    merge_adjacent,
    parts_of,
    within,
    without,
    without_span,
)
from mesh.records.spans import Span

LENGTH = 60
SPANS = st.tuples(st.integers(0, LENGTH), st.integers(0, 9)).map(lambda pair: Span(pair[0], sum(pair)))
ANY = st.lists(SPANS, max_size=12)
LISTS = ANY.map(disjoint)
OFFSETS = st.integers(0, LENGTH + 10)


def offsets(spans: Iterable[Span]) -> list[int]:
    return [offset for span in spans for offset in range(span.first, span.last + 1)]


def is_list(spans: list[Span]) -> bool:
    return all(one.last < other.first for one, other in itertools.pairwise(spans))


@given(ANY)
def test_apart(spans: list[Span]) -> None:
    assert is_list(disjoint(spans))
    assert set(offsets(disjoint(spans))) == set(offsets(spans))


def test_what_only_touches_stays_apart_and_can_be_joined() -> None:
    spans = [Span(0, 2), Span(3, 5), Span(7, 9)]
    assert disjoint(reversed(spans)) == spans
    assert merge_adjacent(spans) == [Span(0, 5), Span(7, 9)]


@given(LISTS, LISTS)
def test_without_and_within(spans: list[Span], others: list[Span]) -> None:
    left, shared = without(spans, iter(others)), within(spans, iter(others))
    assert is_list(left)
    assert is_list(shared)
    assert offsets(left) == sorted(set(offsets(spans)) - set(offsets(others)))
    assert offsets(shared) == sorted(set(offsets(spans)) & set(offsets(others)))
    assert all(any(common(part, span) == part for span in spans) for part in left + shared), "each is of one span"


@given(SPANS, LISTS)
def test_parts_of_one(whole: Span, spans: list[Span]) -> None:
    assert parts_of(whole, spans) == within([whole], spans)


@given(LISTS, OFFSETS)
def test_below_and_above(spans: list[Span], offset: int) -> None:
    assert offsets(below(spans, offset)) == [each for each in offsets(spans) if each < offset]
    assert offsets(at_or_above(spans, offset)) == [each for each in offsets(spans) if each >= offset]


@given(ANY, st.integers(-1, 40))
def test_the_first_so_many(spans: list[Span], most: int) -> None:
    assert offsets(first_of(spans, most)) == offsets(spans)[: max(most, 0)]
    assert count(spans) == len(offsets(spans))


@given(ANY, SPANS)
def test_without_span(spans: list[Span], held: Span) -> None:
    assert offsets(without_span(spans, held)) == [
        each for each in offsets(spans) if not held.first <= each <= held.last
    ]
