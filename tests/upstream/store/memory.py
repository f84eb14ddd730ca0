"""A store in memory, as a double of the one in a topic: documents are JSON, and a write may fail."""

from __future__ import annotations

from mesh.upstream.store.documents import Document, DocumentKey, DocumentKind, StoreUnavailable, decode, encode


class MemoryStore:
    """Implements `mesh.upstream.store.store.Store`. away: the reason why everything fails; None: nothing fails."""

    def __init__(self) -> None:
        self.away: str | None = None
        self.documents: dict[DocumentKey, bytes] = {}

    def get(self, kind: DocumentKind, virtual_cluster: str, group: str) -> Document | None:
        self._check()
        value = self.documents.get(DocumentKey(kind.name, virtual_cluster, group))
        return None if value is None else decode(kind, value)

    def groups(self, kind: DocumentKind, virtual_cluster: str) -> list[str]:
        self._check()
        return [key.group for key in self.documents if key[:2] == (kind.name, virtual_cluster)]

    async def put(
        self, kind: DocumentKind, virtual_cluster: str, group: str, document: Document | None
    ) -> Document | None:
        before = self.get(kind, virtual_cluster, group)
        key = DocumentKey(kind.name, virtual_cluster, group)
        if document is None:
            self.documents.pop(key, None)
        else:
            self.documents[key] = encode(kind, document)
        return before

    def _check(self) -> None:
        if self.away is not None:
            raise StoreUnavailable(self.away)
