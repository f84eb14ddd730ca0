"""How much the engines may bring: backlogs are bounded in bytes per partition and per pool.

Engines stop asking when a budget is used up. An engine cannot leave out one partition without losing what it has
prefetched of it, so a partition is paused only while its full backlog would keep others from bringing what somebody
waits for; it is resumed when half of it is gone.
"""

from __future__ import annotations

from collections.abc import Iterable

from mesh.memory import MemoryBudget
from mesh.pool.common.effects import ConsumeUpstream, PauseUpstream, ResumeUpstream
from mesh.pool.common.outbox import PoolParts
from mesh.pool.state.partition import Partition
from mesh.records.spans import ClusterName


class Backpressure:
    """Tells engines to bring more, to wait, or to pause a partition."""

    def __init__(self, parts: PoolParts, shared: MemoryBudget) -> None:
        self._group = parts.group
        self._settings = parts.settings
        self._shared = shared
        self._outbox = parts.outbox
        self._consuming: dict[ClusterName, bool] = {}
        self._backlogged: set[Partition] = set()
        """Partitions with a backlog that are not paused."""
        self._full: set[Partition] = set()
        """Those of them that have used up their budget."""
        self._paused: set[Partition] = set()
        self._told = 0
        self.is_stopped = False
        """Whether nothing is wanted at all."""
        self.withheld: set[ClusterName] = set()
        """Of which nothing is wanted."""

    def add_cluster(self, cluster: ClusterName) -> None:
        self._consuming.setdefault(cluster, True)

    def forget(self, partition: Partition) -> None:
        """A new assignment: no partition is paused in it."""
        for known in (self._paused, self._backlogged, self._full):
            known.discard(partition)

    def begin_anew(self, partition: Partition) -> None:
        """Its offsets begin anew in the same assignment: the engine still has it paused."""
        if partition in self._paused:
            self._resume(partition)

    def leave(self) -> None:
        """The engines are gone, and with them what they were told."""
        self._consuming.clear()
        self._paused.clear()

    def leave_cluster(self, cluster: ClusterName) -> None:
        """The same for the engine of one cluster."""
        self._consuming.pop(cluster, None)
        self._paused -= {partition for partition in self._paused if partition.source.cluster == cluster}

    def close(self) -> None:
        """The pool has ended, and keeps nothing any more."""
        self._shared.used -= self._told
        self._told = 0

    def update(self, touched: Iterable[Partition], backlog: int, kept: int, hungry: bool, idle: bool = False) -> None:
        """Decide again. backlog: bytes that wait in the pool; kept: bytes of what was sent or collected; hungry:
        whether some Fetch waits for records; idle: nobody is there who would take any."""
        self._shared.used += backlog + kept - self._told
        self._told = backlog + kept
        over = backlog >= self._settings.pool_budget or self._shared.is_used_up
        self._note(touched, over)
        full = self._backlogged if over else self._full
        if hungry:
            # Somebody waits for records of another partition: only what is full must stop.
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
        """What is to be looked at in every step is known by then: a pool may have hundreds of partitions."""
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
