"""How a pool leaves one upstream cluster while it goes on with the others: for good, or to come back to it anew.

As when a pool is drained (`drain`): no record of that cluster is given any more, and members commit what they hold
of it. When nothing is held any more, or the time that they were given is over, what is acknowledged is committed a last
time, with the runs above the lowest record that is not, and the group is left there. What is held then is released.
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
    """Leaves one upstream cluster while the pool goes on. members: all that live."""

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
        """Of the clusters that are being left just now."""

    def begin(self, cluster: ClusterName, grace: float, now: float) -> None:
        """Give nothing of a cluster any more; members have `grace` seconds to commit what they hold of it."""
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
        self.deadlines[cluster] = self._timers.at(now + grace, lambda _: self._leave(cluster))

    def go_on(self) -> None:
        """At the end of each step: leave as soon as there is nothing to wait for."""
        for cluster in [cluster for cluster in self.deadlines if self._commits.is_idle_on(cluster)]:
            if not self._held(cluster) and not any(partition.dead_lettering for partition in self._partitions(cluster)):
                self._leave(cluster)

    def come_back(self, cluster: ClusterName, now: float) -> None:
        """Consume what is wanted of it, if anything; also where it was not left yet."""
        if (deadline := self.deadlines.pop(cluster, None)) is not None:
            deadline.cancel()
        distribution = self._serving.distribution
        distribution.withheld.discard(cluster)
        self._backpressure.withheld.discard(cluster)
        self._intake.come_back_to(cluster)
        for partition in self._partitions(cluster):
            distribution.touched.add(partition)
            if partition.is_active:
                self._serving.activate(partition, now)

    def _leave(self, cluster: ClusterName) -> None:
        deadline = self.deadlines.pop(cluster, None)
        if deadline is None:
            return
        deadline.cancel()
        fenced = self._held(cluster)
        positions = self._commits.unstored(self._partitions(cluster))
        self._outbox.put(LeaveUpstream(self._group, positions, cluster))
        self._intake.leave(cluster)
        self._commits.forget_cluster(cluster)
        self._backpressure.leave_cluster(cluster)
        fields = {"cluster": cluster, "in_flight": fenced}
        self._outbox.report("an upstream cluster was left", fields, "warning" if fenced else "info")

    def _partitions(self, cluster: ClusterName) -> list[Partition]:
        return [partition for source, partition in self._serving.partitions.items() if source.cluster == cluster]

    def _held(self, cluster: ClusterName) -> int:
        """Offsets that members hold of it."""
        return sum(
            window.held
            for member in self._members
            for source, window in member.windows.items()
            if source.cluster == cluster
        )
