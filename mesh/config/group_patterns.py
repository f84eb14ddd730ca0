"""Finds out whether some group id may match two patterns. Exact for literal ones; for others it may wrongly say yes,
never wrongly no."""

from __future__ import annotations

import fnmatch
import re
from typing import Final

_WILDCARD: Final = re.compile(r"[*?\[]")


def may_overlap(left: str, right: str) -> bool:
    """Returns whether some group id may match both patterns (of `fnmatch`)."""
    match _WILDCARD.search(left), _WILDCARD.search(right):
        case None, None:
            return left == right
        case None, _:
            return fnmatch.fnmatchcase(left, right)
        case _, None:
            return fnmatch.fnmatchcase(right, left)
        case _:
            return _compatible(_head(left), _head(right)) and _compatible(_tail(left), _tail(right))


def _compatible(left: str, right: str) -> bool:
    return left.startswith(right) or right.startswith(left)


def _head(pattern: str) -> str:
    return _WILDCARD.split(pattern, maxsplit=1)[0]


def _tail(pattern: str) -> str:
    """Returns the text after the last wildcard, reversed. It is empty for a pattern with a set, which may end inside
    the set."""
    return "" if "[" in pattern else re.split(r"[*?]", pattern)[-1][::-1]
