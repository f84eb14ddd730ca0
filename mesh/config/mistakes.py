"""Mistakes in a configuration: the place, the value, and the allowed values. Loading fails with all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]
"""The keys and list indexes that lead from the root to a value."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake of the user in the configuration. value: a text that may be shown, never a secret; "" for none.
    allowed: the right values."""

    path: KeyPath
    value: str
    allowed: str

    def __str__(self) -> str:
        where = format_path(self.path)
        return ": ".join(part for part in (where, self.value, self.allowed) if part)


class ConfigurationError(Exception):
    """Raised for a configuration that cannot be used."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(map(str, self.mistakes)))


def format_path(path: KeyPath) -> str:
    """Returns the path as text, like `virtual_clusters[0].target.pool.topics[1].prefix`. A key that contains a dot is
    in brackets."""
    text = ""
    for part in path:
        bracketed = isinstance(part, int) or "." in part
        text += f"[{part}]" if bracketed else f".{part}" if text else str(part)
    return text


def is_within(path: KeyPath, ancestor: KeyPath) -> bool:
    return path[: len(ancestor)] == ancestor


def show(value: object) -> str:
    """Returns a value as text for a message. Containers are only named: they may hold secrets."""
    match value:
        case dict():
            return "(a mapping)"
        case list() | tuple():
            return "(a list)" if value else "(an empty list)"
        case None:
            return "null"
        case str():
            return repr(value if len(value) <= 80 else value[:77] + "...")
        case bool():
            return str(value).lower()
        case _:
            return str(value)
