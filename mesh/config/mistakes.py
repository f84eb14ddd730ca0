"""What is wrong with a configuration: where, the value, what is allowed. A configuration is refused with all of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]
"""Keys and list indexes that lead to a value, from the root."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake of the user in the configuration. value: as it may be shown, so never a secret; "" where there is none.
    allowed: what it should be."""

    path: KeyPath
    value: str
    allowed: str

    def __str__(self) -> str:
        where = format_path(self.path)
        return ": ".join(part for part in (where, self.value, self.allowed) if part)


class ConfigurationError(Exception):
    """A configuration that cannot be used."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(map(str, self.mistakes)))


def format_path(path: KeyPath) -> str:
    """As in `virtual_clusters[0].target.pool.topics[1].prefix`; a key with a dot of its own stands in brackets."""
    text = ""
    for part in path:
        bracketed = isinstance(part, int) or "." in part
        text += f"[{part}]" if bracketed else f".{part}" if text else str(part)
    return text


def is_within(path: KeyPath, ancestor: KeyPath) -> bool:
    return path[: len(ancestor)] == ancestor


def show(value: object) -> str:
    """A value for a message. Containers are only named: they may hold what must not be shown."""
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
