"""Reports parts of concatenated topics whose number of partitions differs from the declared one."""

from __future__ import annotations

from typing import Final

from mesh.routing.concatenated import Part
from mesh.runtime.entity_router.leaves import Leaves
from mesh.telemetry.upstream_health import UpstreamHealth
from mesh.upstream.problems import UpstreamProblem


class PartHealth:
    """The problems of the parts of one union's concatenated topics. Implements
    `mesh.runtime.entity_router.parts.PartProblems`."""

    def __init__(self, upstream_health: UpstreamHealth, leaves: Leaves, virtual_cluster: str) -> None:
        self._upstream_health: Final = upstream_health
        self._leaves: Final = leaves
        self._virtual_cluster: Final = virtual_cluster
        self._reported: Final[dict[str, str]] = {}
        """The last report by cluster and upstream topic. A problem that ended stays open for a while."""

    def begin(self, part: Part, reason: str) -> None:
        cluster = self._leaves.by_number[part.leaf].nodes.cluster
        is_news = self._reported.get(f"{cluster}/{part.topic}") not in (None, reason)
        self._reported[f"{cluster}/{part.topic}"] = reason
        self._upstream_health.begin(
            UpstreamProblem.TOPIC_WIDTH,
            cluster,
            reason,
            virtual_cluster=self._virtual_cluster,
            topic=part.topic,
            is_news=is_news,
        )

    def end(self, part: Part) -> None:
        cluster = self._leaves.by_number[part.leaf].nodes.cluster
        self._upstream_health.end(
            UpstreamProblem.TOPIC_WIDTH, cluster, virtual_cluster=self._virtual_cluster, topic=part.topic
        )
