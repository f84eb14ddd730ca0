"""Turns reports of engines and catalogs into problems with upstream clusters."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from mesh.pool.common.ids import GroupId
from mesh.records.spans import ClusterName, TopicName, UpstreamPartition
from mesh.telemetry.metrics import Metrics
from mesh.telemetry.upstream_health import UpstreamHealth
from mesh.upstream.engine import Unopenable
from mesh.upstream.problems import CONNECTION, UpstreamProblem, name_of
from mesh.wire.errors import ErrorCode

_OF_GROUPS = (UpstreamProblem.NOT_AUTHORIZED, UpstreamProblem.FENCED, UpstreamProblem.ASSIGNOR)
"""Problems that end together when a group accepts this process."""
_READING = "reading"
_OPENING = "opening"
MOST_NAMES = 5
"""The most partitions that are named in the reason of a problem."""
FAILURES_IN_A_ROW = 2
"""The number of consecutive upstream commits that must fail to make a problem. A single failure happens at each change
of a coordinator."""


class ProblemWatch:
    """Watches the problems that the engines of one virtual cluster report."""

    def __init__(self, virtual_cluster: str, upstream_health: UpstreamHealth, metrics: Metrics) -> None:
        self._name = virtual_cluster
        self._upstream_health = upstream_health
        self._metrics = metrics
        self._failures: dict[tuple[GroupId, ClusterName], int] = {}
        self._unopened: dict[tuple[GroupId, ClusterName, UpstreamProblem], frozenset[UpstreamPartition]] = {}

    def source_down(self, group: GroupId, cluster: ClusterName, problem: UpstreamProblem, reason: str) -> None:
        self._upstream_health.begin(problem, cluster, reason, virtual_cluster=self._name, group=group)

    def source_up(self, group: GroupId, cluster: ClusterName) -> None:
        self._end(UpstreamProblem.UNREACHABLE, group, cluster)  # this ends every problem of the connection

    def group_down(self, group: GroupId, cluster: ClusterName, problem: UpstreamProblem, reason: str) -> None:
        self._upstream_health.begin(problem, cluster, reason, virtual_cluster=self._name, group=group)

    def group_up(self, group: GroupId, cluster: ClusterName) -> None:
        for problem in _OF_GROUPS:
            self._end(problem, group, cluster)

    def reading_down(self, group: GroupId, cluster: ClusterName, problem: UpstreamProblem, reason: str) -> None:
        """Called when no records come, although the group works."""
        self.reading_up(group, cluster, but=problem)
        self._upstream_health.begin(problem, cluster, reason, virtual_cluster=self._name, group=group, part=_READING)

    def reading_up(self, group: GroupId, cluster: ClusterName, but: UpstreamProblem | None = None) -> None:
        for problem in (UpstreamProblem.UNREADABLE, UpstreamProblem.NOT_AUTHORIZED):
            if problem is not but:
                self._upstream_health.end(problem, cluster, virtual_cluster=self._name, group=group, part=_READING)

    def unopened(
        self, group: GroupId, cluster: ClusterName, partitions: Mapping[UpstreamPartition, Unopenable]
    ) -> None:
        """Takes the assigned partitions that cannot be opened. A failure that may soon pass is not reported."""
        for problem in (UpstreamProblem.UNREADABLE, UpstreamProblem.NOT_AUTHORIZED):
            lasting = {each: why.reason for each, why in partitions.items() if why.lasts and why.problem is problem}
            key = (group, cluster, problem)
            is_news = lasting.keys() != self._unopened.get(key, frozenset())
            if lasting:
                self._unopened[key] = frozenset(lasting)
                reason = _named(lasting)
                self._upstream_health.begin(
                    problem, cluster, reason, virtual_cluster=self._name, group=group, part=_OPENING, is_news=is_news
                )
            elif self._unopened.pop(key, None):
                self._upstream_health.end(problem, cluster, virtual_cluster=self._name, group=group, part=_OPENING)

    def assigned(self, group: GroupId, cluster: ClusterName) -> None:
        self.source_up(group, cluster)
        self.group_up(group, cluster)
        self._end(UpstreamProblem.ENGINE_FAILED, group, cluster)

    def committed(self, group: GroupId, cluster: ClusterName, errors: Mapping[UpstreamPartition, int]) -> None:
        """Called when an upstream commit has ended."""
        failed = {source: error for source, error in errors.items() if error}
        self._metrics.upstream_commit(cluster, stored=not failed)
        failed = {source: error for source, error in failed.items() if error != ErrorCode.REBALANCE_IN_PROGRESS}
        if not failed:
            self._failures.pop((group, cluster), None)
            if errors and not any(errors.values()):
                self._end(UpstreamProblem.COMMITS, group, cluster)
            return
        failures = self._failures[group, cluster] = self._failures.get((group, cluster), 0) + 1
        if failures >= FAILURES_IN_A_ROW and self._upstream_health.connection(cluster) is None:
            source, error = next(iter(failed.items()))
            reason = f"{name_of(error)} for {source}"
            self._upstream_health.begin(
                UpstreamProblem.COMMITS, cluster, reason, virtual_cluster=self._name, group=group
            )

    def engine_failed(self, group: GroupId, cluster: ClusterName, reason: str, traceback: str) -> None:
        self._metrics.engine_failed(cluster)
        self.reading_up(group, cluster)
        self.unopened(group, cluster, {})
        self.source_up(group, cluster)  # the next engine finds out again which problems there are
        self.group_up(group, cluster)
        self._upstream_health.begin(
            UpstreamProblem.ENGINE_FAILED, cluster, reason, virtual_cluster=self._name, group=group, traceback=traceback
        )

    def left(self, group: GroupId, cluster: ClusterName) -> None:
        """Forgets the problems of a group whose pool has left one cluster."""
        self._upstream_health.forget_group(self._name, group, cluster)
        self._failures.pop((group, cluster), None)
        for unopened in [key for key in self._unopened if key[:2] == (group, cluster)]:
            del self._unopened[unopened]

    def ended(self, group: GroupId) -> None:
        """Forgets the problems of a group whose pool has ended."""
        self._upstream_health.forget_group(self._name, group)
        for key in [key for key in self._failures if key[0] == group]:
            del self._failures[key]
        for unopened in [key for key in self._unopened if key[0] == group]:
            del self._unopened[unopened]

    def _end(self, problem: UpstreamProblem, group: GroupId, cluster: ClusterName) -> None:
        self._upstream_health.end(problem, cluster, virtual_cluster=self._name, group=group)


def _named(partitions: Mapping[UpstreamPartition, str]) -> str:
    """Names some of the partitions, with the reasons why they cannot be opened."""
    names = [f"{source}: {partitions[source]}" for source in sorted(partitions)]
    more = [f"and {len(names) - MOST_NAMES} partitions more"] if len(names) > MOST_NAMES else []
    return "; ".join([*names[:MOST_NAMES], *more])


def found(
    upstream_health: UpstreamHealth,
    cluster: ClusterName,
    topics: Collection[TopicName],
    configured: Iterable[TopicName],
) -> None:
    """Called when a cluster has reported its topics. Ends and begins problems with the configured topics. configured:
    topics that the cluster should have."""
    upstream_health.end(UpstreamProblem.UNREACHABLE, cluster)
    for topic in configured:
        if topic in topics:
            upstream_health.end(UpstreamProblem.TOPIC_MISSING, cluster, topic=topic)
        else:
            reason = f"{cluster} has no topic {topic}, or does not let kafka-mesh describe it"
            upstream_health.begin(UpstreamProblem.TOPIC_MISSING, cluster, reason, topic=topic)


def not_reached(upstream_health: UpstreamHealth, cluster: ClusterName, problem: UpstreamProblem, reason: str) -> None:
    """Called when a cluster could not be asked for its topics. Begins a problem."""
    upstream_health.begin(problem if problem in CONNECTION else UpstreamProblem.UNREACHABLE, cluster, reason)
