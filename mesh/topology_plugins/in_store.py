"""The plugin `store` keeps descriptions in the store of the mesh, beside their epochs."""

from __future__ import annotations

from typing import Any, Final

from mesh.streams.description import InvalidDescription, TopologyDescription, description_of, tree_of
from mesh.streams.spi import PermanentFailure, TopologyPlugin
from mesh.upstream.store.documents import DocumentKind, DocumentTooLarge, StoreUnreadable
from mesh.upstream.store.store import Store

DESCRIPTION: Final = DocumentKind("topology-description", 1)


class StorePlugin(TopologyPlugin):
    """A plugin that keeps descriptions in the store. All processes with the same configuration share them."""

    def __init__(self, options: Any, virtual_cluster: str, store: Store) -> None:
        super().__init__(options, virtual_cluster)
        self._virtual_cluster = virtual_cluster
        self._store = store

    async def set_topology(self, group: str, epoch: int, description: TopologyDescription) -> None:
        document = {"epoch": epoch, "description": tree_of(description)}
        try:
            await self._store.put(DESCRIPTION, self._virtual_cluster, group, document)
        except DocumentTooLarge as problem:
            raise PermanentFailure(str(problem)) from problem

    async def get_topology(self, group: str, epoch: int) -> TopologyDescription | None:
        document = self._store.get(DESCRIPTION, self._virtual_cluster, group)
        if document is None or document.get("epoch") != epoch:
            return None
        try:
            return description_of(document["description"])
        except (InvalidDescription, KeyError, TypeError) as problem:
            raise StoreUnreadable(f"a topology description that is none: {problem!r}") from problem

    async def delete_topology(self, group: str) -> None:
        if self._store.get(DESCRIPTION, self._virtual_cluster, group) is not None:
            await self._store.put(DESCRIPTION, self._virtual_cluster, group, None)
