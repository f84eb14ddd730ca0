"""Commits: what members acknowledged is stored in the upstream group, and only then is their commit answered.

What is acknowledged above the committed offset goes into the metadata of the upstream commit (`acknowledged`). One
commit per upstream cluster is under way at a time; what is acknowledged meanwhile goes with the next one. A commit that
is not stored in time is answered with COORDINATOR_LOAD_IN_PROGRESS, which clients retry; so is one that does not fit
into the metadata.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mesh.apis.answers import Ticket
from mesh.pool.common.effects import CommitUpstream
from mesh.pool.common.outbox import PoolParts
from mesh.pool.common.results import CommitResult, TopicPartition
from mesh.pool.common.timers import Timer
from mesh.pool.offsets.metadata import ForeignMetadata, Packed, Unpacked, pack, unpack
from mesh.pool.state.leases import StoredLease, stored_leases
from mesh.pool.state.ledger import Ledger
from mesh.pool.state.partition import Partition
from mesh.records.spans import ClusterName, CommitPosition, UpstreamPartition
from mesh.wire.errors import ErrorCode

RETRY_AFTER = 0.2
"""Seconds between a failed upstream commit and the next attempt."""
PASS_AFTER = 5.0
"""Seconds after which a committed offset moves past offsets without records, when nothing is acknowledged that would
take it along: as often as consumers commit by default."""

FULL = 0.75
"""The part of the metadata above which a partition delivers nothing new: the rest is for what was delivered already."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is being stored of a partition: one version of its ledger (a new assignment brings a new one)."""

    partition: Partition
    ledger: Ledger
    version: int
    position: CommitPosition
    covered: int | None

    def store(self) -> None:
        self.ledger.store(self.version, self.position, self.covered)


_Going: TypeAlias = dict[UpstreamPartition, Snapshot]


@dataclass(frozen=True, slots=True)
class Need:
    """A member has acknowledged offsets up to `offset` of a partition, and its ledger was at `version` then."""

    name: TopicPartition
    ledger: Ledger
    version: int
    offset: int

    @property
    def is_stored(self) -> bool:
        return self.ledger.is_stored(self.version, self.offset)


@dataclass(slots=True, eq=False)
class Pending:
    """A member's commit that waits until the upstream group has stored what it needs of each partition.

    lost: tells the member, if a partition goes elsewhere before that, and returns the error for it.
    """

    ticket: Ticket
    errors: dict[TopicPartition, ErrorCode]
    needed: dict[UpstreamPartition, Need]
    lost: Callable[[], ErrorCode]
    timer: Timer


class Commits:
    """Upstream commits of one pool: when they are sent, and which requests wait until they are stored."""

    def __init__(self, parts: PoolParts) -> None:
        self._group = parts.group
        self._timers = parts.timers
        self._timeout = parts.settings.commit_timeout
        self._metadata_limit = parts.settings.metadata_limit
        self._epoch = parts.settings.epoch
        self._metadata_limits: dict[ClusterName, int] = {}
        """Of clusters whose brokers allow less."""
        self._outbox = parts.outbox
        self._tokens = itertools.count(1)
        self._dirty: dict[ClusterName, dict[UpstreamPartition, Partition]] = {}
        self._under_way: dict[ClusterName, tuple[int, _Going]] = {}
        self._retrying: set[ClusterName] = set()
        self._pending: set[Pending] = set()
        self._behind: set[Partition] = set()
        """Partitions of which all is settled, with offsets without records behind what is stored."""
        self._down: set[ClusterName] = set()
        self._refused: set[ClusterName] = set()
        """Clusters whose group refuses us."""

    def metadata_limit(self, cluster: ClusterName) -> int:
        """Characters that a commit on this cluster may carry."""
        return self._metadata_limits.get(cluster, self._metadata_limit)

    @property
    def waiting(self) -> int:
        """How many members' commits wait to be stored."""
        return len(self._pending)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to store, and nothing being stored."""
        return not (self._pending or self._under_way or any(self._dirty.values()))

    def is_idle_on(self, cluster: ClusterName) -> bool:
        """The same for one cluster."""
        waited_for = (source for pending in self._pending for source in pending.needed)
        return not (
            cluster in self._under_way
            or self._dirty.get(cluster)
            or any(source.cluster == cluster for source in waited_for)
        )

    def changed(self, partition: Partition, now: float) -> None:
        """Something of it may have been settled: store that with the next commit of its cluster."""
        if not partition.is_active:
            return
        if partition.ledger.needs_storing:
            self._mark(partition)
        elif partition.ledger.is_behind:
            if not self._behind:
                self._timers.at(now + PASS_AFTER, self._pass)
            self._behind.add(partition)

    def await_stored(
        self,
        ticket: Ticket,
        errors: dict[TopicPartition, ErrorCode],
        needs: Mapping[UpstreamPartition, Need],
        lost: Callable[[], ErrorCode],
        now: float,
    ) -> None:
        """Answer a member's commit when what it needs is stored. lost: as in `Pending`.

        What a cluster cannot store because it is down is not waited for: some clients repeat a commit that failed for
        one partition until it succeeds, and take nothing meanwhile, also of the clusters that are up.
        """
        open_ones = {
            source: need for source, need in needs.items() if not need.is_stored and source.cluster not in self._down
        }
        if not open_ones:
            self._outbox.answer(ticket, CommitResult(errors))
            return
        timer = self._timers.at(now + self._timeout, lambda _: self._time_out(pending))
        pending = Pending(ticket, errors, open_ones, lost, timer)
        self._pending.add(pending)

    def send(self) -> list[Partition]:
        """Store what is dirty on every cluster where nothing is under way.

        Returns the partitions that may deliver new records again, since their acknowledgements have shrunk.
        """
        relieved: list[Partition] = []
        for cluster in [cluster for cluster in self._dirty if cluster not in self._under_way]:
            if cluster in self._retrying:
                continue
            partitions = self._dirty.pop(cluster)
            going = self._snapshots(partitions.values(), relieved)
            for source in [source for source, each in going.items() if each.position == each.ledger.stored]:
                # What is new does not fit, or was known: a commit would say the same again.
                going.pop(source).store()
            if going:
                token = next(self._tokens)
                self._under_way[cluster] = (token, going)
                positions = {source: snapshot.position for source, snapshot in going.items()}
                self._outbox.put(CommitUpstream(self._group, cluster, token, positions))
        return relieved

    def unstored(self, partitions: Iterable[Partition]) -> dict[UpstreamPartition, CommitPosition]:
        """What is to be committed a last time."""
        return {source: snapshot.position for source, snapshot in self._snapshots(partitions, []).items()}

    def committed(self, cluster: ClusterName, token: int, errors: Mapping[UpstreamPartition, int], now: float) -> None:
        """An upstream commit ended; `errors` holds 0 or a Kafka error code for each of its partitions."""
        under_way = self._under_way.get(cluster)
        if under_way is None or under_way[0] != token:
            return
        del self._under_way[cluster]
        failed: dict[UpstreamPartition, int] = {}
        for source, snapshot in under_way[1].items():
            error = errors.get(source, ErrorCode.UNKNOWN_SERVER_ERROR.value)
            if error == 0:
                snapshot.store()
            else:
                # One that is suspended may come back: then it is touched, and stored again from there.
                self.changed(snapshot.partition, now)
                failed[source] = error
        too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE.value
        if refused := [under_way[1][source] for source, error in failed.items() if error == too_large]:
            self._allow_less(cluster, refused)
        self._stored(under_way[1])
        if failed:
            self._retrying.add(cluster)
            self._timers.at(now + RETRY_AFTER, lambda _: self._retry(cluster))

    def engine_failed(self, cluster: ClusterName) -> None:
        """Nobody will tell how the commit that is under way ends; another engine is made."""
        self._under_way.pop(cluster, None)
        self._down.discard(cluster)
        self._refused.discard(cluster)

    def forget(self) -> None:
        """Every engine is gone, after a last commit; nobody will tell how those before it ended."""
        self._under_way.clear()
        self._dirty.clear()
        self._down.clear()
        self._refused.clear()

    def forget_cluster(self, cluster: ClusterName) -> None:
        """The same for the engine of one cluster."""
        self._under_way.pop(cluster, None)
        self._dirty.pop(cluster, None)
        self._down.discard(cluster)
        self._refused.discard(cluster)

    def is_down(self, cluster: ClusterName) -> bool:
        """Whether an upstream cluster is known to store nothing now."""
        return cluster in self._down or cluster in self._refused

    def waits_in_vain_for(self, cluster: ClusterName) -> bool:
        """Whether nobody is to wait until something is stored there."""
        return cluster in self._down

    def source_down(self, cluster: ClusterName) -> None:
        """An upstream cluster stores nothing now; what is acknowledged there is kept until it does."""
        self._down.add(cluster)
        for pending in list(self._pending):
            for source in [source for source in pending.needed if source.cluster == cluster]:
                del pending.needed[source]
            self._answer_if_done(pending)

    def source_up(self, cluster: ClusterName) -> None:
        self._down.discard(cluster)

    def group_down(self, cluster: ClusterName) -> None:
        """The group refuses us there. What it stores is waited for all the same: the coordinator answers, and what is
        assigned is lost soon, which answers what waits."""
        self._refused.add(cluster)

    def group_up(self, cluster: ClusterName) -> None:
        self._refused.discard(cluster)

    def gone(self, sources: Iterable[UpstreamPartition]) -> None:
        """These partitions went to another process: their commits will not be stored by us."""
        gone = set(sources)
        for pending in list(self._pending) if gone else ():
            for source in gone & pending.needed.keys():
                pending.errors[pending.needed.pop(source).name] = pending.lost()
            self._answer_if_done(pending)
        for source in gone:
            self._dirty.get(source.cluster, {}).pop(source, None)

    def close(self, error: ErrorCode) -> None:
        """Answer everything that still waits."""
        for pending in list(self._pending):
            for need in pending.needed.values():
                pending.errors[need.name] = error
            pending.needed.clear()
            self._answer_if_done(pending)

    def _snapshots(self, partitions: Iterable[Partition], relieved: list[Partition]) -> _Going:
        """Of those that have something to store, and room for it."""
        wanted = [
            each for each in partitions if each.is_active and (each.ledger.needs_storing or each.ledger.is_behind)
        ]
        found = {partition.source: self._snapshot(partition, relieved) for partition in wanted}
        return {source: snapshot for source, snapshot in found.items() if snapshot is not None}

    def _mark(self, partition: Partition) -> None:
        self._dirty.setdefault(partition.source.cluster, {})[partition.source] = partition

    def _pass(self, now: float) -> None:
        """Store where those stand that no acknowledgement has taken along."""
        behind, self._behind = self._behind, set()
        for partition in behind:
            if partition.is_active and partition.ledger.is_behind:
                self._mark(partition)

    def _snapshot(self, partition: Partition, relieved: list[Partition]) -> Snapshot | None:
        """None when no commit could hold what is stored already: then the older one stays until its lowest runs are
        one with the offset."""
        ledger = partition.ledger
        limit = self.metadata_limit(partition.source.cluster)
        leases = stored_leases(partition.leased.values(), ledger.committable, self._epoch)
        runs = ledger.acknowledged
        packed = pack(partition.source, ledger.committable, runs, limit, leases, ledger.counts, int(FULL * limit))
        is_full = packed.covered is not None or packed.used > FULL * limit
        if partition.is_full and not is_full:
            relieved.append(partition)
        elif is_full and not partition.is_full:
            fields = {"partition": str(partition.source), "offset": ledger.committable}
            self._outbox.report("a partition waits for its lowest record to be acknowledged", fields, "warning")
        partition.is_full = is_full
        kept = packed if packed.covered is None else _keep_stored(partition, packed, leases, limit)
        if kept is None:
            return None
        position = CommitPosition(ledger.committable, kept.text, is_read=ledger.has_read(partition.highest_leased))
        return Snapshot(partition, ledger, ledger.version, position, kept.covered)

    def _allow_less(self, cluster: ClusterName, going: Iterable[Snapshot]) -> None:
        """Its brokers are set to less (offset.metadata.max.bytes), and do not say how much; what they stored before may
        still be allowed."""
        longest = max(len(snapshot.position.metadata) for snapshot in going)
        before = max(len(snapshot.ledger.stored.metadata) for snapshot in going)
        limit = longest // 2 if before >= longest else max(longest // 2, before)
        self._metadata_limits[cluster] = limit
        fields = {"cluster": cluster, "limit": limit}
        self._outbox.report("an upstream cluster allows less commit metadata", fields, "warning")

    def _retry(self, cluster: ClusterName) -> None:
        self._retrying.discard(cluster)

    def _stored(self, going: _Going) -> None:
        for pending in list(self._pending):
            for source in going.keys() & pending.needed.keys():
                if pending.needed[source].is_stored:
                    del pending.needed[source]
            self._answer_if_done(pending)

    def _time_out(self, pending: Pending) -> None:
        for need in pending.needed.values():
            pending.errors[need.name] = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        pending.needed.clear()
        self._answer_if_done(pending)

    def _answer_if_done(self, pending: Pending) -> None:
        if not pending.needed and pending in self._pending:
            self._pending.discard(pending)
            pending.timer.cancel()
            self._outbox.answer(pending.ticket, CommitResult(pending.errors))


def _keep_stored(partition: Partition, packed: Packed, leases: Sequence[StoredLease], limit: int) -> Packed | None:
    """Not all fits. What is stored goes before what is new, and that is answered as not stored; None if not even what
    is stored fits, because the brokers allow less than they did."""
    ledger, covered = partition.ledger, packed.covered
    assert covered is not None
    stored = _stored(partition)
    runs = [run for run in stored.runs if run.first >= ledger.committable and ledger.is_all_settled(run)]
    ids = {lease.id for lease in leases}
    if not (runs and runs[-1].last >= covered) and not (covered < 0 and any(each.id in ids for each in stored.leases)):
        return packed
    again = pack(partition.source, ledger.committable, runs, limit, leases)
    if again.covered is not None:
        return None
    told = Ledger(ledger.committable, settled=runs)
    new = (part for run in ledger.acknowledged for part in told.unsettled(run.first, run.last))
    return Packed(again.text, next(new).first, packed.used)


def _stored(partition: Partition) -> Unpacked:
    """What the commit that is stored upstream says."""
    stored = partition.ledger.stored
    try:
        return unpack(partition.source, stored.offset, stored.metadata)
    except ForeignMetadata:
        return Unpacked()
