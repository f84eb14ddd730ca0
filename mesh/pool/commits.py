"""Commits: what members acknowledged is stored in the upstream group, and only then is their commit answered.

One commit per upstream cluster is under way at a time; what is acknowledged meanwhile goes with the next one. A commit
that is not stored in time is answered with COORDINATOR_LOAD_IN_PROGRESS, which clients retry.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from mesh.pool.effects import Answer, CommitUpstream, Effect, GroupId, Report, Ticket
from mesh.pool.ledger import Ledger
from mesh.pool.partition import Partition
from mesh.pool.results import CommitResult, TopicPartition
from mesh.pool.timers import Timer, Timers
from mesh.records.spans import ClusterName, UpstreamPartition
from mesh.wire.errors import ErrorCode

RETRY_AFTER = 0.2
"""Seconds between a failed upstream commit and the next attempt."""


_Going: TypeAlias = dict[UpstreamPartition, tuple[Partition, Ledger, int]]
"""What is being stored: the partition, its ledger at that time (a new assignment brings a new one), the offset."""


@dataclass(slots=True, eq=False)
class Pending:
    """A member's commit that waits until the upstream group has stored `needed` (exclusive offset) per partition."""

    ticket: Ticket
    errors: dict[TopicPartition, ErrorCode]
    needed: dict[UpstreamPartition, tuple[TopicPartition, int]]
    timer: Timer


class Commits:
    def __init__(self, group: GroupId, timers: Timers, timeout: float, effects: list[Effect]) -> None:
        self._group = group
        self._timers = timers
        self._timeout = timeout
        self._effects = effects
        self._tokens = itertools.count(1)
        self._dirty: dict[ClusterName, dict[UpstreamPartition, Partition]] = {}
        self._under_way: dict[ClusterName, tuple[int, _Going]] = {}
        self._retrying: set[ClusterName] = set()
        self._pending: set[Pending] = set()
        self._down: set[ClusterName] = set()
        self.stored = 0
        self.failed = 0

    @property
    def waiting(self) -> int:
        """How many members' commits wait to be stored."""
        return len(self._pending)

    def changed(self, partition: Partition) -> None:
        """Its committable offset may have moved: store it with the next commit of its cluster."""
        if partition.is_active and partition.ledger.committable > partition.ledger.stored:
            self._dirty.setdefault(partition.source.cluster, {})[partition.source] = partition

    def await_stored(
        self,
        ticket: Ticket,
        errors: dict[TopicPartition, ErrorCode],
        needed: Mapping[UpstreamPartition, tuple[TopicPartition, Partition]],
        now: float,
    ) -> None:
        """Answer a member's commit when what can be stored of these partitions is stored.

        What a cluster cannot store because it is down is not waited for: some clients repeat a commit that failed for
        one partition until it succeeds, and take nothing meanwhile, also of the clusters that are up.
        """
        open_ones = {
            source: (name, partition.ledger.committable)
            for source, (name, partition) in needed.items()
            if partition.ledger.committable > partition.ledger.stored and source.cluster not in self._down
        }
        if not open_ones:
            self._effects.append(Answer(ticket, CommitResult(errors)))
            return
        timer = self._timers.at(now + self._timeout, lambda _: self._time_out(pending))
        pending = Pending(ticket, errors, open_ones, timer)
        self._pending.add(pending)

    def send(self) -> None:
        """Store what is dirty on every cluster where nothing is under way."""
        for cluster in [cluster for cluster in self._dirty if cluster not in self._under_way]:
            if cluster in self._retrying:
                continue
            partitions = self._dirty.pop(cluster)
            going = {
                source: (partition, partition.ledger, partition.ledger.committable)
                for source, partition in partitions.items()
                if partition.is_active and partition.ledger.committable > partition.ledger.stored
            }
            if going:
                token = next(self._tokens)
                self._under_way[cluster] = (token, going)
                offsets = {source: offset for source, (_, _, offset) in going.items()}
                self._effects.append(CommitUpstream(self._group, cluster, token, offsets))

    def committed(self, cluster: ClusterName, token: int, errors: Mapping[UpstreamPartition, int], now: float) -> None:
        """An upstream commit ended; `errors` holds 0 or a Kafka error code for each of its partitions."""
        under_way = self._under_way.get(cluster)
        if under_way is None or under_way[0] != token:
            return
        del self._under_way[cluster]
        failed: dict[UpstreamPartition, int] = {}
        for source, (partition, ledger, offset) in under_way[1].items():
            error = errors.get(source, ErrorCode.UNKNOWN_SERVER_ERROR.value)
            if error == 0:
                ledger.stored = max(ledger.stored, offset)
            else:
                # One that is suspended may come back: then it is touched, and stored again from there.
                self.changed(partition)
                failed[source] = error
        self._stored(under_way[1])
        if failed:
            self._retrying.add(cluster)
            self._timers.at(now + RETRY_AFTER, lambda _: self._retry(cluster))
        if set(failed.values()) - {ErrorCode.REBALANCE_IN_PROGRESS.value}:
            self.failed += 1
            fields = {"group": self._group, "cluster": cluster, "errors": {str(k): v for k, v in failed.items()}}
            self._effects.append(Report("an upstream commit failed and is tried again", fields, "warning"))
        else:
            self.stored += 1

    def source_down(self, cluster: ClusterName) -> None:
        """An upstream cluster stores nothing now; what is acknowledged there is kept until it does."""
        self._down.add(cluster)
        for pending in list(self._pending):
            for source in [source for source in pending.needed if source.cluster == cluster]:
                del pending.needed[source]
            self._answer_if_done(pending)

    def source_up(self, cluster: ClusterName) -> None:
        self._down.discard(cluster)

    def gone(self, sources: Iterable[UpstreamPartition]) -> None:
        """These partitions went to another process: their commits will not be stored by us."""
        gone = set(sources)
        for pending in list(self._pending) if gone else ():
            for source in gone & pending.needed.keys():
                name, _ = pending.needed.pop(source)
                pending.errors[name] = ErrorCode.REBALANCE_IN_PROGRESS
            self._answer_if_done(pending)
        for source in gone:
            self._dirty.get(source.cluster, {}).pop(source, None)

    def close(self, error: ErrorCode) -> None:
        """Answer everything that still waits."""
        for pending in list(self._pending):
            for name, _ in pending.needed.values():
                pending.errors[name] = error
            pending.needed.clear()
            self._answer_if_done(pending)

    def _retry(self, cluster: ClusterName) -> None:
        self._retrying.discard(cluster)

    def _stored(self, going: _Going) -> None:
        for pending in list(self._pending):
            for source in going.keys() & pending.needed.keys():
                if pending.needed[source][1] <= going[source][1].stored:
                    del pending.needed[source]
            self._answer_if_done(pending)

    def _time_out(self, pending: Pending) -> None:
        for name, _ in pending.needed.values():
            pending.errors[name] = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        pending.needed.clear()
        self._answer_if_done(pending)

    def _answer_if_done(self, pending: Pending) -> None:
        if not pending.needed and pending in self._pending:
            self._pending.discard(pending)
            pending.timer.cancel()
            self._effects.append(Answer(pending.ticket, CommitResult(pending.errors)))
