"""Lists of spans as sets of offsets. Unless stated otherwise they are ascending, and no span overlaps another."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from mesh.records.spans import Span


def merge_adjacent(spans: Iterable[Span]) -> list[Span]:
    """Merges each span that directly follows the one before it. The order stays."""
    runs: list[Span] = []
    for span in spans:
        if runs and runs[-1].last + 1 == span.first:
            runs[-1] = Span(runs[-1].first, span.last)
        else:
            runs.append(span)
    return runs


def disjoint(spans: Iterable[Span]) -> list[Span]:
    """Returns the same offsets in ascending spans that do not overlap. The given spans may be in any order, and may
    overlap."""
    found: list[Span] = []
    for span in sorted(spans, key=_first):
        if found and span.first <= found[-1].last:
            found[-1] = Span(found[-1].first, max(found[-1].last, span.last))
        else:
            found.append(span)
    return found


def without(spans: Iterable[Span], others: Iterable[Span]) -> list[Span]:
    """Returns the parts of `spans` that are in none of `others`."""
    left: list[Span] = []
    rest = iter(others)
    other = next(rest, None)
    for span in spans:
        first = span.first
        while other is not None and other.first <= span.last and first <= span.last:
            if other.first > first:
                left.append(Span(first, other.first - 1))
            first = max(first, other.last + 1)
            if first <= span.last:
                other = next(rest, None)
        if first <= span.last:
            left.append(Span(first, span.last))
    return left


def within(spans: Iterable[Span], others: Iterable[Span]) -> list[Span]:
    """Returns the parts of `spans` that are in one of `others`."""
    found: list[Span] = []
    rest = iter(others)
    other = next(rest, None)
    for span in spans:
        while other is not None and other.first <= span.last:
            if (part := common(span, other)) is not None:
                found.append(part)
            if other.last > span.last:
                break  # the next span may overlap it, too
            other = next(rest, None)
    return found


def parts_of(whole: Span, spans: Sequence[Span]) -> list[Span]:
    """Returns the parts of one span that are in `spans`. Costs O(log spans), and the size of the result."""
    found: list[Span] = []
    for index in range(bisect_left(spans, whole.first, key=_last), len(spans)):
        part = common(whole, spans[index])
        if part is None:
            break
        found.append(part)
    return found


def below(spans: Iterable[Span], end: int) -> list[Span]:
    """Returns the parts of the spans below an offset."""
    return [span if span.last < end else Span(span.first, end - 1) for span in spans if span.first < end]


def at_or_above(spans: Iterable[Span], begin: int) -> list[Span]:
    """Returns the parts of the spans at or above an offset."""
    return [span if span.first >= begin else Span(begin, span.last) for span in spans if span.last >= begin]


def first_of(spans: Iterable[Span], most: int) -> list[Span]:
    """Returns the first `most` offsets of the spans."""
    first: list[Span] = []
    for span in spans:
        if most <= 0:
            break
        first.append(span if len(span) <= most else Span(span.first, span.first + most - 1))
        most -= len(first[-1])
    return first


def without_span(spans: Iterable[Span], held: Span) -> list[Span]:
    """Returns the parts of the spans, which may be in any order, that are not in `held`."""
    left: list[Span] = []
    for span in spans:
        if held.last < span.first or held.first > span.last:
            left.append(span)
            continue
        if span.first < held.first:
            left.append(Span(span.first, held.first - 1))
        if span.last > held.last:
            left.append(Span(held.last + 1, span.last))
    return left


def common(one: Span, other: Span) -> Span | None:
    """Returns the part that is in both spans; None if there is none."""
    first, last = max(one.first, other.first), min(one.last, other.last)
    return Span(first, last) if first <= last else None


def count(spans: Sequence[Span]) -> int:
    """Returns the number of offsets in the spans."""
    return sum(map(len, spans))


def _first(span: Span) -> int:
    return span.first


def _last(span: Span) -> int:
    return span.last
