"""Delays and fairness, weighted by records. Pure.

Delays are counters: the number of records for each millisecond. They add up over partitions, members and windows
without loss, and their quantiles are exact. Delays over ten seconds are rounded to a thousandth, so a counter stays
small.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final, TypeAlias

Delays: TypeAlias = Counter[int]
"""The number of records by their delay in milliseconds."""
DIGITS: Final = 4


def rounded(milliseconds: int) -> int:
    """Returns the delay rounded to four digits; 0 for negative ones, which come from clocks that differ."""
    if milliseconds <= 0:
        return 0
    step = int(10 ** max(len(str(milliseconds)) - DIGITS, 0))
    return milliseconds // step * step


def quantiles(delays: Delays, shares: Sequence[int], of: int = 1_000) -> list[int | None]:
    """Returns the quantiles of delays: for each share, the smallest delay that this part of the records does not exceed
    (nearest rank); None without records."""
    values = sorted(delays)
    sums = list(accumulate(delays[value] for value in values))
    if not sums:
        return [None for _ in shares]
    return [values[bisect_left(sums, max(-(-sums[-1] * share // of), 1))] for share in shares]


def quantile(delays: Delays, share: int, of: int = 1_000) -> int | None:
    """Returns the quantile of one share, as in `quantiles`."""
    return quantiles(delays, [share], of)[0]


def jain(shares: Iterable[int]) -> float | None:
    """Returns Jain's index of fairness: 1 if all got the same, 1/n if one of n got everything; None if nothing was
    shared. R. Jain, D. Chiu, W. Hawe, DEC-TR-301 (1984)."""
    got = list(shares)
    total = sum(got)
    return total * total / (len(got) * sum(each * each for each in got)) if total else None
