"""Documents of the store: JSON, with a kind, a virtual cluster and a group as key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

Document: TypeAlias = Mapping[str, Any]
"""The document of a group: JSON, without its version."""

_VERSION: Final = "version"


class StoreError(Exception):
    """Raised when a document could not be read or written; the message says why."""


class StoreUnavailable(StoreError):
    """Raised if the store has not been read yet, or if its cluster did not confirm a document in time. The document may
    have been stored all the same."""


class StoreUnreadable(StoreError):
    """Raised for a value that is not a document, or is of a later version. It is left as it is."""


class DocumentTooLarge(StoreError):
    """Raised when the cluster refuses a document because of its size."""


@dataclass(frozen=True, slots=True)
class DocumentKind:
    """A kind of documents. version: the version in which they are written, and the latest that can be read."""

    name: str
    version: int


class DocumentKey(NamedTuple):
    """The key of a document. kind: the name of its kind."""

    kind: str
    virtual_cluster: str
    group: str

    def encode(self) -> bytes:
        return json.dumps(list(self), ensure_ascii=False, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, key: bytes | None) -> DocumentKey | None:
        """Decodes the key of a document; None for the key of anything else."""
        try:
            parts = json.loads(key or b"")
        except ValueError:
            return None
        is_key = isinstance(parts, list) and len(parts) == len(cls._fields) and all(isinstance(p, str) for p in parts)
        return cls(*parts) if is_key else None


def encode(kind: DocumentKind, document: Document) -> bytes:
    """Encodes a document. document: values that JSON can represent."""
    tree = {_VERSION: kind.version, **document}
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":")).encode()


def decode(kind: DocumentKind, value: bytes) -> Document:
    """Decodes a document. Raises StoreUnreadable."""
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
