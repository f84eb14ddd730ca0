"""A store in memory, as a double of the one in a topic: what is put is JSON, and may fail."""

from __future__ import annotations

from mesh.upstream.store.documents import Document, DocumentKey, Kind, StoreAway, decode, encode


class MemoryStore:
    """Implements `mesh.upstream.store.store.Store`. away: why everything fails; None: nothing does."""

    def __init__(self) -> None:
        self.away: str | None = None
        self.documents: dict[DocumentKey, bytes] = {}

    def get(self, kind: Kind, virtual_cluster: str, group: str) -> Document | None:
        self._check()
        value = self.documents.get(DocumentKey(kind.name, virtual_cluster, group))
        return None if value is None else decode(kind, value)

    def groups(self, kind: Kind, virtual_cluster: str) -> list[str]:
        self._check()
        return [key.group for key in self.documents if key[:2] == (kind.name, virtual_cluster)]

    async def put(self, kind: Kind, virtual_cluster: str, group: str, document: Document | None) -> Document | None:
        before = self.get(kind, virtual_cluster, group)
        key = DocumentKey(kind.name, virtual_cluster, group)
        if document is None:
            self.documents.pop(key, None)
        else:
            self.documents[key] = encode(kind, document)
        return before

    def _check(self) -> None:
        if self.away is not None:
            raise StoreAway(self.away)
