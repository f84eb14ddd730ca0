"""Backpressure on the engines: bounds the bytes of backlogs, for each partition and each pool.

Engines stop fetching when a budget is used up. An engine that pauses a partition loses the records that it has
prefetched of it. So a partition is paused only while its full backlog would keep the engine from bringing records that
members wait for. It is resumed when half of its backlog is gone.
"""

from __future__ import annotations

from collections.abc import Iterable

from mesh.memory import MemoryBudget
from mesh.pool.common.effects import ConsumeUpstream, PauseUpstream, ResumeUpstream
from mesh.pool.common.outbox import PoolParts
from mesh.pool.state.partition import Partition
from mesh.records.spans import ClusterName


class Backpressure:
    """Makes engines fetch more, stop, or pause a partition."""

    def __init__(self, parts: PoolParts, memory: MemoryBudget) -> None:
        self._group = parts.group
        self._settings = parts.settings
        self._memory = memory
        self._outbox = parts.outbox
        self._consuming: dict[ClusterName, bool] = {}
        self._backlogged: set[Partition] = set()
        """Partitions with a backlog that are not paused."""
        self._full: set[Partition] = set()
        """Partitions of `_backlogged` that have used up their budget."""
        self._paused: set[Partition] = set()
        self._reported_bytes = 0
        self.is_stopped = False
        """True if no records are wanted at all."""
        self.withheld: set[ClusterName] = set()
        """Clusters from which no records are wanted."""

    def add_cluster(self, cluster: ClusterName) -> None:
        self._consuming.setdefault(cluster, True)

    def forget(self, partition: Partition) -> None:
        """Forgets a partition of a new assignment, in which no partition is paused."""
        for known in (self._paused, self._backlogged, self._full):
            known.discard(partition)

    def begin_anew(self, partition: Partition) -> None:
        """Resumes a partition whose offsets start again in the same assignment, since the engine still has it
        paused."""
        if partition in self._paused:
            self._resume(partition)

    def leave(self) -> None:
        """Forgets all clusters and pauses, because the engines are gone."""
        self._consuming.clear()
        self._paused.clear()

    def leave_cluster(self, cluster: ClusterName) -> None:
        """Forgets one cluster and its pauses, because its engine is gone."""
        self._consuming.pop(cluster, None)
        self._paused -= {partition for partition in self._paused if partition.source.cluster == cluster}

    def close(self) -> None:
        """Releases the memory of a pool that has ended."""
        self._memory.used -= self._reported_bytes
        self._reported_bytes = 0

    def update(self, touched: Iterable[Partition], backlog: int, kept: int, hungry: bool, idle: bool = False) -> None:
        """Pauses and resumes partitions and engines.

        * backlog: the bytes in the pool's backlogs. kept: bytes that were sent or collected.
        * hungry: whether a Fetch waits for records. idle: whether no member would take any.
        """
        self._memory.used += backlog + kept - self._reported_bytes
        self._reported_bytes = backlog + kept
        over = backlog >= self._settings.pool_budget or self._memory.is_used_up
        self._note(touched, over)
        full = self._backlogged if over else self._full
        if hungry:
            # A member waits for records of another partition: pause only the full ones.
            for partition in list(full):
                self._pause(partition)
        stop = idle or self.is_stopped or bool(full)
        restart = hungry or backlog * 2 <= self._settings.pool_budget
        for cluster, consuming in self._consuming.items():
            is_withheld = cluster in self.withheld
            if consuming and (stop or is_withheld):
                self._set(cluster, False)
            elif not consuming and not stop and restart and not is_withheld:
                self._set(cluster, True)

    def _note(self, touched: Iterable[Partition], over: bool) -> None:
        for partition in touched:
            drained = not over and partition.backlog_bytes * 2 <= self._settings.partition_budget
            if partition in self._paused and (drained or not partition.backlog_bytes):
                self._resume(partition)
            self._sort(partition)

    def _sort(self, partition: Partition) -> None:
        """Sorts a partition into its sets, so that a step checks only those that matter: a pool may have hundreds of
        partitions."""
        size = 0 if partition in self._paused else partition.backlog_bytes
        (self._backlogged.add if size else self._backlogged.discard)(partition)
        is_full = size >= self._settings.partition_budget
        (self._full.add if is_full else self._full.discard)(partition)

    def _set(self, cluster: ClusterName, consuming: bool) -> None:
        self._consuming[cluster] = consuming
        self._outbox.put(ConsumeUpstream(self._group, cluster, consuming))

    def _pause(self, partition: Partition) -> None:
        self._paused.add(partition)
        self._sort(partition)
        self._outbox.put(PauseUpstream(self._group, partition.source))

    def _resume(self, partition: Partition) -> None:
        self._paused.discard(partition)
        self._outbox.put(ResumeUpstream(self._group, partition.source))
