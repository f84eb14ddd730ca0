"""How much the engines may bring: backlogs are bounded in bytes per partition and per pool.

Engines stop asking when a budget is used up. An engine cannot leave out one partition without losing what it has
prefetched of it, so a partition is paused only while its full backlog would keep others from bringing what somebody
waits for; it is resumed when half of it is gone.
"""

from __future__ import annotations

from collections.abc import Iterable

from mesh.pool.effects import ConsumeUpstream, Effect, GroupId, PauseUpstream, ResumeUpstream
from mesh.pool.partition import Partition
from mesh.pool.settings import PoolSettings
from mesh.records.spans import ClusterName


class Demand:
    def __init__(self, group: GroupId, settings: PoolSettings, effects: list[Effect]) -> None:
        self._group = group
        self._settings = settings
        self._effects = effects
        self._consuming: dict[ClusterName, bool] = {}
        self._paused: set[Partition] = set()
        self._clogged: set[Partition] = set()

    def add_cluster(self, cluster: ClusterName) -> None:
        self._consuming.setdefault(cluster, True)

    def forget(self, partition: Partition) -> None:
        """A new assignment: no partition is paused in it."""
        self._paused.discard(partition)
        self._clogged.discard(partition)

    def update(self, touched: Iterable[Partition], total: int, hungry: bool) -> None:
        """Decide again. total: bytes of backlog in the pool; hungry: whether some Fetch waits for records."""
        budget = self._settings.partition_budget
        for partition in touched:
            if partition.backlog_bytes >= budget:
                self._clogged.add(partition)
            elif partition.backlog_bytes * 2 <= budget:
                self._clogged.discard(partition)
                if partition in self._paused:
                    self._resume(partition)
        over = total >= self._settings.pool_budget
        if hungry and (self._clogged - self._paused):
            for partition in self._clogged - self._paused:
                self._pause(partition)
        stop = (over and not hungry) or bool(self._clogged - self._paused)
        restart = total * 2 <= self._settings.pool_budget or hungry
        for cluster, consuming in self._consuming.items():
            if consuming and stop:
                self._set(cluster, False)
            elif not consuming and not stop and restart:
                self._set(cluster, True)

    def _set(self, cluster: ClusterName, consuming: bool) -> None:
        self._consuming[cluster] = consuming
        self._effects.append(ConsumeUpstream(self._group, cluster, consuming))

    def _pause(self, partition: Partition) -> None:
        self._paused.add(partition)
        self._effects.append(PauseUpstream(self._group, partition.source))

    def _resume(self, partition: Partition) -> None:
        self._paused.discard(partition)
        self._effects.append(ResumeUpstream(self._group, partition.source))
