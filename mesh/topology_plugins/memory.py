"""The plugin `memory` keeps descriptions in the memory of the process: for tests."""

from __future__ import annotations

from typing import Any

from mesh.streams.description import TopologyDescription
from mesh.streams.spi import TopologyPlugin


class MemoryPlugin(TopologyPlugin):
    """A plugin that keeps descriptions in memory. It loses all of them when the process ends, and the mesh does not ask
    for a description again at the same epoch."""

    def __init__(self, options: Any, virtual_cluster: str) -> None:
        super().__init__(options, virtual_cluster)
        self._descriptions: dict[str, tuple[int, TopologyDescription]] = {}

    async def set_topology(self, group: str, epoch: int, description: TopologyDescription) -> None:
        self._descriptions[group] = epoch, description

    async def get_topology(self, group: str, epoch: int) -> TopologyDescription | None:
        kept = self._descriptions.get(group)
        return kept[1] if kept is not None and kept[0] == epoch else None

    async def delete_topology(self, group: str) -> None:
        self._descriptions.pop(group, None)
