"""Runs of offsets, first and last included, as sorted lists of disjoint pairs. Every function here is linear in
them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

Run: TypeAlias = tuple[int, int]
Runs: TypeAlias = list[Run]


def union(runs: Iterable[Run]) -> Runs:
    """Returns the union of runs in any order, which may overlap; neighbours become one."""
    found: Runs = []
    for first, last in sorted(runs):
        if found and first <= found[-1][1] + 1:
            if last > found[-1][1]:
                found[-1] = (found[-1][0], last)
        elif first <= last:
            found.append((first, last))
    return found


def common(one: Sequence[Run], other: Sequence[Run]) -> Runs:
    found: Runs = []
    i = j = 0
    while i < len(one) and j < len(other):
        first, last = max(one[i][0], other[j][0]), min(one[i][1], other[j][1])
        if first <= last:
            found.append((first, last))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return found


def without(runs: Sequence[Run], taken: Sequence[Run]) -> Runs:
    found: Runs = []
    j = 0
    for first, last in runs:
        while j < len(taken) and taken[j][1] < first:
            j += 1
        at = j
        while at < len(taken) and taken[at][0] <= last:
            if taken[at][0] > first:
                found.append((first, taken[at][0] - 1))
            first = max(first, taken[at][1] + 1)
            at += 1
        if first <= last:
            found.append((first, last))
    return found


def repeated(runs: Iterable[Run]) -> Runs:
    """Returns the offsets that are in at least two of these runs, which may be in any order."""
    found: Runs = []
    end = -1
    for first, last in sorted(runs):
        if first <= end:
            found.append((first, min(last, end)))
        end = max(end, last)
    return union(found)


def length(runs: Iterable[Run]) -> int:
    return sum(last - first + 1 for first, last in runs)
