"""The topology descriptions of the clusters behind a router."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from mesh.records.spans import ClusterName
from mesh.runtime.relay.nodes import RelayNodes
from mesh.runtime.relay.topologies import CleanUp
from mesh.runtime.topologies.topologies import Topologies
from mesh.tasks import OwnedTask, TaskName, keep


class ClusterTopologies:
    """The topology descriptions of the groups of each cluster behind one virtual cluster.

    Groups in two clusters may have the same name. If several routes lead to one cluster, a group of it is one group.
    make: makes the descriptions of a cluster when the first route leads to it. Raises whatever a plugin raises.
    """

    def __init__(self, make: Callable[[ClusterName], Topologies]) -> None:
        self._make: Final = make
        self._made: dict[ClusterName, Topologies] = {}
        self._cleaning: dict[ClusterName, asyncio.Task[None]] = {}

    def __iter__(self) -> Iterator[Topologies]:
        """Yields the descriptions of the clusters to which a route leads now."""
        return iter([self._made[cluster] for cluster in self._cleaning])

    def of(self, nodes: RelayNodes) -> Topologies:
        """The descriptions of the cluster of these nodes. Begins their clean-up at the first call."""
        cluster = nodes.cluster
        if cluster not in self._made:
            self._made[cluster] = self._make(cluster)
        if cluster not in self._cleaning:
            made = self._made[cluster]
            self._cleaning[cluster] = keep(OwnedTask(TaskName.TOPOLOGIES, made.name, cluster), CleanUp(made, nodes).run)
        return self._made[cluster]

    def leave(self, cluster: ClusterName) -> None:
        """Stops the clean-up of a cluster to which no route leads any more."""
        if (cleaning := self._cleaning.pop(cluster, None)) is not None:
            cleaning.cancel()

    async def close(self) -> None:
        """Closes the descriptions of all clusters, once."""
        tasks, self._cleaning = [*self._cleaning.values()], {}
        for task in tasks:
            task.cancel()
        made, self._made = [*self._made.values()], {}
        await asyncio.gather(*tasks, return_exceptions=True)
        for each in made:
            await each.close()
