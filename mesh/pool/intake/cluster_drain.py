"""The drain of one upstream cluster. The pool leaves the cluster and goes on with the others; it may come back. If it
only needs another connection there, it comes back at once.

As in the drain of a pool (`drain`), no record of that cluster is delivered any more, and members commit the records
that they hold of it. When they hold none, or their time is over, the pool commits for the last time and leaves the
group there. That commit has the acknowledged runs above the lowest unsettled record, too. Records that are still held
are released.
"""

from __future__ import annotations

from collections.abc import Iterable

from mesh.pool.common.effects import LeaveUpstream
from mesh.pool.common.outbox import PoolParts
from mesh.pool.common.timers import Timer
from mesh.pool.fetch.serving import Serving
from mesh.pool.intake.backpressure import Backpressure
from mesh.pool.intake.intake import Intake
from mesh.pool.offsets.commits import Commits
from mesh.pool.state.member import Member
from mesh.pool.state.partition import Partition
from mesh.records.spans import ClusterName


class ClusterDrain:
    """Leaves one upstream cluster while the pool goes on. members: the living members."""

    def __init__(
        self,
        parts: PoolParts,
        serving: Serving,
        commits: Commits,
        intake: Intake,
        backpressure: Backpressure,
        members: Iterable[Member],
    ) -> None:
        self._group = parts.group
        self._timers = parts.timers
        self._serving = serving
        self._commits = commits
        self._intake = intake
        self._backpressure = backpressure
        self._members = members
        self._outbox = parts.outbox
        self.deadlines: dict[ClusterName, Timer] = {}
        """The deadlines of the clusters that this pool is leaving."""
        self._renewed: set[ClusterName] = set()
        """Those of them that the pool joins again at once."""

    def begin(self, cluster: ClusterName, grace: float, now: float) -> None:
        """Stops delivering records of a cluster. Members have `grace` seconds to commit the records that they hold of
        it."""
        self._renewed.discard(cluster)
        if cluster in self.deadlines:
            return
        distribution = self._serving.distribution
        distribution.withheld.add(cluster)
        self._backpressure.withheld.add(cluster)
        for partition in self._partitions(cluster):
            distribution.suspend(partition)
        for fetch in self._serving.fetches:
            if fetch.has_records:
                self._serving.answer(fetch, now)
        self.deadlines[cluster] = self._timers.at(now + grace, lambda now: self._leave(cluster, now))

    def renew(self, cluster: ClusterName, grace: float, now: float) -> None:
        """Leaves a cluster as `begin` does, and joins it again at once. Does nothing if the pool is leaving it, or does
        not consume it."""
        if cluster not in self.deadlines and self._intake.is_subscribed(cluster):
            self.begin(cluster, grace, now)
            self._renewed.add(cluster)

    def go_on(self, now: float) -> None:
        """Leaves the cluster if nothing is left to wait for. Called at the end of each step."""
        for cluster in [cluster for cluster in self.deadlines if self._commits.is_idle_on(cluster)]:
            if not self._held(cluster) and not any(partition.dead_lettering for partition in self._partitions(cluster)):
                self._leave(cluster, now)

    def rejoin(self, cluster: ClusterName, now: float) -> None:
        """Consumes the wanted topics of a cluster again, even if the pool has not left it yet."""
        if (deadline := self.deadlines.pop(cluster, None)) is not None:
            deadline.cancel()
        self._renewed.discard(cluster)
        distribution = self._serving.distribution
        distribution.withheld.discard(cluster)
        self._backpressure.withheld.discard(cluster)
        self._intake.rejoin_cluster(cluster)
        for partition in self._partitions(cluster):
            distribution.touched.add(partition)
            if partition.is_active:
                self._serving.activate(partition, now)

    def _leave(self, cluster: ClusterName, now: float) -> None:
        deadline = self.deadlines.pop(cluster, None)
        if deadline is None:
            return
        deadline.cancel()
        fenced = self._held(cluster)
        positions = self._commits.unstored(self._partitions(cluster))
        comes_back = cluster in self._renewed
        self._outbox.put(LeaveUpstream(self._group, positions, cluster, comes_back))
        self._intake.leave_cluster(cluster)
        self._commits.forget_cluster(cluster)
        self._backpressure.leave_cluster(cluster)
        fields = {"cluster": cluster, "in_flight": fenced}
        self._outbox.report("upstream cluster left", fields, "warning" if fenced else "info")
        if comes_back:
            self.rejoin(cluster, now)

    def _partitions(self, cluster: ClusterName) -> list[Partition]:
        return [partition for source, partition in self._serving.partitions.items() if source.cluster == cluster]

    def _held(self, cluster: ClusterName) -> int:
        """Returns the number of offsets that members hold of the cluster."""
        return sum(
            window.held
            for member in self._members
            for source, window in member.windows.items()
            if source.cluster == cluster
        )
