"""A mistake found by checks of several values together."""

from __future__ import annotations

from dataclasses import dataclass

from mesh.config.mistakes import KeyPath


class Missing:
    """A stand-in for a missing value."""

    def __str__(self) -> str:
        return "(missing)"


@dataclass(frozen=True, slots=True)
class Finding:
    """A mistake at `path`. The check also read the values at `others`: if one of them is wrong itself, the finding does
    not count."""

    path: KeyPath
    value: object
    allowed: str
    others: tuple[KeyPath, ...] = ()
