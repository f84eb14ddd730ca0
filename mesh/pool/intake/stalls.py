"""Partitions for which members wait while nothing comes from upstream, although it should.

Whatever the reason is, an engine that stopped asking or an assignment that does not come, its members would only see
silence. So it is told, once, by name. Nothing here mends anything.
"""

from __future__ import annotations

from collections.abc import Mapping

from mesh.pool.common.outbox import PoolParts
from mesh.pool.offsets.commits import Commits
from mesh.pool.state.partition import Ownership, Partition
from mesh.records.spans import UpstreamPartition

STALLED = 30.0
"""Seconds. A rebalance with slow members upstream may take longer, and is worth a line, too."""
LOOK = 5.0
MOST_NAMES = 5
"""Members that a line names."""


class Stalls:
    """The partitions of one pool of which it was told that nothing comes. Clusters that are down are told elsewhere."""

    def __init__(
        self,
        parts: PoolParts,
        partitions: Mapping[UpstreamPartition, Partition],
        commits: Commits,
        now: float,
    ) -> None:
        self._partitions = partitions
        self._commits = commits
        self._timers = parts.timers
        self._outbox = parts.outbox
        self._since: dict[UpstreamPartition, tuple[tuple[Ownership, int], float]] = {}
        """How each partition that should bring something stood, and since when it stands like that."""
        self._told: set[UpstreamPartition] = set()
        parts.timers.at(now + LOOK, self._look)

    def __contains__(self, source: UpstreamPartition) -> bool:
        """Whether it has been told that nothing comes from this partition."""
        return source in self._told

    def _look(self, now: float) -> None:
        for source, partition in self._partitions.items():
            stand = (partition.ownership, partition.ledger.received)
            before, since = self._since.get(source, (stand, now))
            if stand != before or not self._should_bring(partition):
                self._since.pop(source, None)
                self._over(source)
                continue
            self._since[source] = (stand, since)
            if now - since >= STALLED and source not in self._told:
                self._tell(partition, now - since)
        self._timers.at(now + LOOK, self._look)

    def _should_bring(self, partition: Partition) -> bool:
        """Whether some member waits for what this partition is known, or may be found, to have."""
        if self._commits.is_down(partition.source.cluster):
            return False
        match partition.ownership:
            case Ownership.ASSIGNED:
                return bool(partition.waiting) and partition.ledger.received < partition.end
            case Ownership.REVOKED:
                return bool(partition.parked)
            case Ownership.UNASSIGNED:
                return bool(partition.parked) and partition.is_awaited

    def _tell(self, partition: Partition, seconds: float) -> None:
        self._told.add(partition.source)
        names = sorted({fetch.member.name for fetch in partition.parked})
        fields = {
            "partition": str(partition.source),
            "standing": partition.ownership.value,
            "received": partition.ledger.received,
            "end": partition.end,
            "seconds": round(seconds),
            "waiting": len(names),
            "members": names[:MOST_NAMES],
        }
        self._outbox.report("members wait, and nothing comes from upstream", fields, "warning")

    def _over(self, source: UpstreamPartition) -> None:
        if source in self._told:
            self._told.discard(source)
            fields = {"partition": str(source)}
            self._outbox.report("members wait for upstream no more", fields)
