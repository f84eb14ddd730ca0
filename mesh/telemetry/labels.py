"""Bounded label values: whatever names clients think of, the number of time series has an end."""

from __future__ import annotations

from collections.abc import Container
from typing import Final, TypeAlias

OTHER: Final = "other"
"""Stands for all values for which there was no room."""
LONGEST: Final = 128
"""Characters of a label value; the rest of it is cut off."""

Scope: TypeAlias = tuple[str, ...]


class BoundedLabels:
    """The values of one kind of label, at most `limit` of them in each scope (such as the members of one group).

    A value that was admitted keeps its name until it is forgotten; one that came too late stays OTHER only until there
    is room.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._admitted: dict[Scope, dict[str, str]] = {}

    def admit(self, value: str, scope: Scope = ()) -> str:
        """The label to be used for this value."""
        admitted = self._admitted.get(scope)
        if admitted is None:
            admitted = self._admitted[scope] = {}
        label = admitted.get(value)
        if label is not None:
            return label
        if len(admitted) >= self._limit or value == OTHER:
            return OTHER
        # What cannot be encoded (a lone surrogate) would cost the whole answer of /metrics.
        admitted[value] = label = value[:LONGEST].encode("utf-8", "replace").decode()
        return label

    def forget(self, value: str, scope: Scope = ()) -> str | None:
        """Make room. Returns the label the value had, None if it had none of its own."""
        admitted = self._admitted.get(scope, {})
        label = admitted.pop(value, None)
        if not admitted:
            self._admitted.pop(scope, None)
        return label

    def keep_only(self, seen: Container[tuple[Scope, str]]) -> None:
        """Forget every value that is not among these."""
        for scope, admitted in list(self._admitted.items()):
            for value in [value for value in admitted if (scope, value) not in seen]:
                self.forget(value, scope)
