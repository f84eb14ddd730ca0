"""How long things took and how evenly they were shared, weighted by records. Pure.

Delays are counters, records by milliseconds: they are added up over partitions, members and windows without a loss, and
quantiles of them are exact. What is beyond ten seconds is remembered to a thousandth, so a counter stays small.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final, TypeAlias

Delays: TypeAlias = Counter[int]
"""Records by milliseconds."""
DIGITS: Final = 4


def rounded(milliseconds: int) -> int:
    """To its first four digits; 0 for less than none, where two clocks disagree."""
    if milliseconds <= 0:
        return 0
    step = int(10 ** max(len(str(milliseconds)) - DIGITS, 0))
    return milliseconds // step * step


def quantiles(delays: Delays, shares: Sequence[int], of: int = 1_000) -> list[int | None]:
    """For each share, the smallest delay that so many of `of` records do not exceed (nearest rank); None of none."""
    values = sorted(delays)
    sums = list(accumulate(delays[value] for value in values))
    if not sums:
        return [None for _ in shares]
    return [values[bisect_left(sums, max(-(-sums[-1] * share // of), 1))] for share in shares]


def quantile(delays: Delays, share: int, of: int = 1_000) -> int | None:
    """The same of one share."""
    return quantiles(delays, [share], of)[0]


def jain(shares: Iterable[int]) -> float | None:
    """Jain's index of fairness: 1 where everybody got the same, 1/n where one of n got everything; None of nothing.

    R. Jain, D. Chiu, W. Hawe, DEC-TR-301 (1984).
    """
    got = list(shares)
    total = sum(got)
    return total * total / (len(got) * sum(each * each for each in got)) if total else None
