"""Documents of the store: JSON under a kind, a virtual cluster and a group."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

Document: TypeAlias = Mapping[str, Any]
"""What is kept of a group: JSON, without its version."""

_VERSION: Final = "version"


class StoreError(Exception):
    """Something could not be read or written; the message says why."""


class StoreAway(StoreError):
    """The store has not been read yet, or its cluster did not take a document in time. One that was not taken may be
    there all the same."""


class StoreUnreadable(StoreError):
    """A document is none, or of a later version. It is left as it is."""


class DocumentTooLarge(StoreError):
    """The cluster does not take so large a document, now or later."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of documents. version: in which they are written, and up to which they are read."""

    name: str
    version: int


class DocumentKey(NamedTuple):
    """The place of a document. kind: its name."""

    kind: str
    virtual_cluster: str
    group: str

    def encode(self) -> bytes:
        return json.dumps(list(self), ensure_ascii=False, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, key: bytes | None) -> DocumentKey | None:
        """None for the key of something else."""
        try:
            parts = json.loads(key or b"")
        except ValueError:
            return None
        is_key = isinstance(parts, list) and len(parts) == len(cls._fields) and all(isinstance(p, str) for p in parts)
        return cls(*parts) if is_key else None


def encode(kind: Kind, document: Document) -> bytes:
    """document: of what JSON has."""
    tree = {_VERSION: kind.version, **document}
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":")).encode()


def decode(kind: Kind, value: bytes) -> Document:
    """Raises StoreUnreadable."""
    try:
        tree = json.loads(value)
    except ValueError as problem:
        raise StoreUnreadable(f"a {kind.name} is no JSON: {problem}") from None
    version = tree.pop(_VERSION, None) if isinstance(tree, dict) else None
    if not isinstance(version, int):
        raise StoreUnreadable(f"a {kind.name} has no version")
    if version > kind.version:
        raise StoreUnreadable(f"a {kind.name} has version {version}; this kafka-mesh reads up to {kind.version}")
    document: Document = tree
    return document
