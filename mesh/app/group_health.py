"""Reports problems of groups whose topics are in several clusters to operators."""

from __future__ import annotations

from typing import Final

from mesh.routing.names import LeafNumber
from mesh.runtime.entity_router.leaves import Leaves
from mesh.telemetry.upstream_health import UpstreamHealth
from mesh.upstream.problems import UpstreamProblem


class GroupHealth:
    """The problems of groups of one union. Implements `mesh.runtime.entity_router.groups.services.GroupProblems`."""

    def __init__(self, upstream_health: UpstreamHealth, leaves: Leaves, virtual_cluster: str) -> None:
        self._upstream_health: Final = upstream_health
        self._leaves: Final = leaves
        self._virtual_cluster: Final = virtual_cluster

    def begin(self, group: str, leaf: LeafNumber, reason: str) -> None:
        cluster, name = self._leaves.by_number[leaf].nodes.cluster, self._virtual_cluster
        self._upstream_health.begin(UpstreamProblem.GROUP_ELSEWHERE, cluster, reason, virtual_cluster=name, group=group)

    def end(self, group: str, leaf: LeafNumber) -> None:
        cluster, name = self._leaves.by_number[leaf].nodes.cluster, self._virtual_cluster
        self._upstream_health.end(UpstreamProblem.GROUP_ELSEWHERE, cluster, virtual_cluster=name, group=group)
