"""Stalls: partitions for which members wait although the upstream cluster should deliver records.

The reason may be an engine that stopped fetching, or a missing assignment. Members would only see silence, so each
stall is reported once, by name. Nothing is repaired here.
"""

from __future__ import annotations

from collections.abc import Mapping

from mesh.pool.common.outbox import PoolParts
from mesh.pool.offsets.commits import Commits
from mesh.pool.state.partition import Ownership, Partition
from mesh.records.spans import UpstreamPartition

STALLED = 30.0
"""Seconds. A rebalance with slow upstream members may take longer, and deserves a log entry, too."""
LOOK = 5.0
MOST_NAMES = 5
"""The most members that a log entry names."""


class Stalls:
    """The stalls of one pool. Clusters that are down are reported elsewhere."""

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
        """The state of each partition that should deliver records, and since when it has been the same."""
        self._reported: set[UpstreamPartition] = set()
        parts.timers.at(now + LOOK, self._look)

    def __contains__(self, source: UpstreamPartition) -> bool:
        """Returns whether a stall of this partition has been reported."""
        return source in self._reported

    def _look(self, now: float) -> None:
        for source, partition in self._partitions.items():
            stand = (partition.ownership, partition.ledger.received)
            before, since = self._since.get(source, (stand, now))
            if stand != before or not self._should_bring(partition):
                self._since.pop(source, None)
                self._over(source)
                continue
            self._since[source] = (stand, since)
            if now - since >= STALLED and source not in self._reported:
                self._report(partition, now - since)
        self._timers.at(now + LOOK, self._look)

    def _should_bring(self, partition: Partition) -> bool:
        """Returns whether a member waits for records that this partition has, or may have."""
        if self._commits.is_down(partition.source.cluster):
            return False
        match partition.ownership:
            case Ownership.ASSIGNED:
                return bool(partition.waiting) and partition.ledger.received < partition.end
            case Ownership.REVOKED:
                return bool(partition.parked)
            case Ownership.UNASSIGNED:
                return bool(partition.parked) and partition.is_awaited

    def _report(self, partition: Partition, seconds: float) -> None:
        self._reported.add(partition.source)
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
        self._outbox.report("upstream partition stalled", fields, "warning")

    def _over(self, source: UpstreamPartition) -> None:
        if source in self._reported:
            self._reported.discard(source)
            fields = {"partition": str(source)}
            self._outbox.report("upstream partition resumed", fields)
