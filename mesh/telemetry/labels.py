"""Bounded label values: the number of time series has a limit, whatever names clients choose."""

from __future__ import annotations

from collections.abc import Container
from typing import Final, TypeAlias

OTHER: Final = "other"
"""The label for all values beyond the limit."""
LONGEST: Final = 128
"""The most characters of a label value; the rest is cut off."""

Scope: TypeAlias = tuple[str, ...]


class BoundedLabels:
    """The values of one kind of label, at most `limit` of them in each scope (such as the members of one group).

    A value that was admitted keeps its label until it is forgotten. A value beyond the limit is OTHER only until there
    is room.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._admitted: dict[Scope, dict[str, str]] = {}

    def admit(self, value: str, scope: Scope = ()) -> str:
        """Returns the label to use for a value."""
        admitted = self._admitted.get(scope)
        if admitted is None:
            admitted = self._admitted[scope] = {}
        label = admitted.get(value)
        if label is not None:
            return label
        if len(admitted) >= self._limit or value == OTHER:
            return OTHER
        # Text that cannot be encoded (a lone surrogate) would break the whole response of /metrics.
        admitted[value] = label = value[:LONGEST].encode("utf-8", "replace").decode()
        return label

    def forget(self, value: str, scope: Scope = ()) -> str | None:
        """Forgets a value, and so makes room. Returns the label of the value; None if it had none of its own."""
        admitted = self._admitted.get(scope, {})
        label = admitted.pop(value, None)
        if not admitted:
            self._admitted.pop(scope, None)
        return label

    def keep_only(self, seen: Container[tuple[Scope, str]]) -> None:
        """Forgets every value that is not among these."""
        for scope, admitted in list(self._admitted.items()):
            for value in [value for value in admitted if (scope, value) not in seen]:
                self.forget(value, scope)
