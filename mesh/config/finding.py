"""What the checks of several values find."""

from __future__ import annotations

from dataclasses import dataclass

from mesh.config.mistakes import KeyPath


class Missing:
    """In place of a value that is not there."""

    def __str__(self) -> str:
        return "(missing)"


@dataclass(frozen=True, slots=True)
class Finding:
    """A mistake at `path`, found by looking at the values at `others` too: if one of them is wrong, it says nothing."""

    path: KeyPath
    value: object
    allowed: str
    others: tuple[KeyPath, ...] = ()
