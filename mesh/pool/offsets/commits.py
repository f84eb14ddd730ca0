"""Stores acknowledgements in the upstream group, and answers the members' commits after that.

Acknowledgements above the committed offset go into the metadata of the upstream commit (`metadata`). One commit for
each upstream cluster is in flight at a time; later acknowledgements go into the next one. A commit that is not stored
in time, or does not fit into the metadata, is answered with COORDINATOR_LOAD_IN_PROGRESS, which clients retry.
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
from mesh.pool.offsets.metadata import Packed, Unpacked, pack, unpack
from mesh.pool.offsets.payload import ForeignMetadata
from mesh.pool.state.leases import StoredLease, stored_leases
from mesh.pool.state.ledger import Ledger
from mesh.pool.state.partition import Partition
from mesh.records.spans import ClusterName, CommitPosition, UpstreamPartition
from mesh.wire.errors import ErrorCode

RETRY_AFTER = 0.2
"""Seconds between a failed upstream commit and the next attempt."""
PASS_AFTER = 5.0
"""Seconds after which the committed offset moves past offsets without records, without a commit of a member: the
default interval of consumers' commits."""

FULL = 0.75
"""The part of the metadata beyond which a partition delivers no new records. The rest is for records that are delivered
already."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A version of a partition's ledger that is being stored. A new assignment brings a new ledger."""

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
    """The offsets up to `offset` of a partition that a member has acknowledged. version: the version of the ledger
    then."""

    name: TopicPartition
    ledger: Ledger
    version: int
    offset: int

    @property
    def is_stored(self) -> bool:
        return self.ledger.is_stored(self.version, self.offset)


@dataclass(slots=True, eq=False)
class Pending:
    """A member's commit that waits until the upstream group has stored its part of each partition.

    lost: called if a partition moves before that. It tells the member, and returns the error.
    """

    ticket: Ticket
    errors: dict[TopicPartition, ErrorCode]
    needed: dict[UpstreamPartition, Need]
    lost: Callable[[], ErrorCode]
    timer: Timer


class Commits:
    """The upstream commits of one pool, and the members' requests that wait for them."""

    def __init__(self, parts: PoolParts) -> None:
        self._group = parts.group
        self._timers = parts.timers
        self._timeout = parts.settings.commit_timeout
        self._metadata_limit = parts.settings.metadata_limit
        self._epoch = parts.settings.epoch
        self._metadata_limits: dict[ClusterName, int] = {}
        """The limits of clusters whose brokers allow less than `_metadata_limit`."""
        self._outbox = parts.outbox
        self._tokens = itertools.count(1)
        self._dirty: dict[ClusterName, dict[UpstreamPartition, Partition]] = {}
        self._under_way: dict[ClusterName, tuple[int, _Going]] = {}
        self._retrying: set[ClusterName] = set()
        self._pending: set[Pending] = set()
        self._behind: set[Partition] = set()
        """Partitions in which all received offsets are settled, and whose committed offset lies below offsets without
        records."""
        self._down: set[ClusterName] = set()
        self.reports = 0
        """The number of reports from upstream that may let requests be answered: a commit has ended, or a cluster
        stores nothing."""
        self._refused: set[ClusterName] = set()
        """Clusters whose group refuses this process."""

    def metadata_limit(self, cluster: ClusterName) -> int:
        """Returns the most characters of metadata in a commit on this cluster."""
        return self._metadata_limits.get(cluster, self._metadata_limit)

    @property
    def waiting(self) -> int:
        """The number of members' commits that wait to be stored."""
        return len(self._pending)

    @property
    def is_idle(self) -> bool:
        """True if there is nothing to store, and no commit in flight."""
        return not (self._pending or self._under_way or any(self._dirty.values()))

    def is_idle_on(self, cluster: ClusterName) -> bool:
        """Returns whether there is nothing to store on one cluster, and no commit in flight there."""
        waited_for = (source for pending in self._pending for source in pending.needed)
        return not (
            cluster in self._under_way
            or self._dirty.get(cluster)
            or any(source.cluster == cluster for source in waited_for)
        )

    def changed(self, partition: Partition, now: float) -> None:
        """Stores the changes of a partition with the next commit of its cluster. Called when offsets of it may have
        been settled."""
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
        """Answers a member's commit when its part is stored. lost: as in `Pending`.

        A commit does not wait for a cluster that is down. Some clients repeat a commit that failed for one partition
        until it succeeds, and take no records meanwhile, not even of other clusters.
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
        """Sends commits to every cluster that has changes and no commit in flight.

        Returns the partitions that may deliver new records again, because their acknowledgements take less room now.
        """
        relieved: list[Partition] = []
        for cluster in [cluster for cluster in self._dirty if cluster not in self._under_way]:
            if cluster in self._retrying:
                continue
            partitions = self._dirty.pop(cluster)
            going = self._snapshots(partitions.values(), relieved)
            for source in [source for source, each in going.items() if each.position == each.ledger.stored]:
                # The new offsets do not fit, or are stored already: a commit would have the same content again.
                going.pop(source).store()
            if going:
                token = next(self._tokens)
                self._under_way[cluster] = (token, going)
                positions = {source: snapshot.position for source, snapshot in going.items()}
                self._outbox.put(CommitUpstream(self._group, cluster, token, positions))
        return relieved

    def unstored(self, partitions: Iterable[Partition]) -> dict[UpstreamPartition, CommitPosition]:
        """Returns the positions for a last commit of these partitions."""
        return {source: snapshot.position for source, snapshot in self._snapshots(partitions, []).items()}

    def committed(self, cluster: ClusterName, token: int, errors: Mapping[UpstreamPartition, int], now: float) -> None:
        """Handles the end of an upstream commit. errors: 0 or a Kafka error code for each of its partitions."""
        under_way = self._under_way.get(cluster)
        if under_way is None or under_way[0] != token:
            return
        del self._under_way[cluster]
        self.reports += 1
        failed: dict[UpstreamPartition, int] = {}
        for source, snapshot in under_way[1].items():
            error = errors.get(source, ErrorCode.UNKNOWN_SERVER_ERROR.value)
            if error == 0:
                snapshot.store()
            else:
                # This skips a suspended partition. If it comes back, it counts as changed, and its offsets are stored.
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
        """Forgets the commit in flight, since its end will not be reported. A new engine is made."""
        self._under_way.pop(cluster, None)
        self._down.discard(cluster)
        self._refused.discard(cluster)

    def forget(self) -> None:
        """Forgets all commits in flight, because every engine has left after a last commit."""
        self._under_way.clear()
        self._dirty.clear()
        self._down.clear()
        self._refused.clear()

    def forget_cluster(self, cluster: ClusterName) -> None:
        """Forgets the commits on one cluster, because its engine has left after a last commit."""
        self._under_way.pop(cluster, None)
        self._dirty.pop(cluster, None)
        self._down.discard(cluster)
        self._refused.discard(cluster)

    def is_down(self, cluster: ClusterName) -> bool:
        """Returns whether an upstream cluster is known to store nothing now."""
        return cluster in self._down or cluster in self._refused

    def does_not_wait_for(self, cluster: ClusterName) -> bool:
        """Returns whether requests must not wait for this cluster to store their acknowledgements."""
        return cluster in self._down

    def cluster_down(self, cluster: ClusterName) -> None:
        """Notes that an upstream cluster stores nothing now. Acknowledgements are kept until it does again."""
        self._down.add(cluster)
        self.reports += 1
        for pending in list(self._pending):
            for source in [source for source in pending.needed if source.cluster == cluster]:
                del pending.needed[source]
            self._answer_if_done(pending)

    def cluster_up(self, cluster: ClusterName) -> None:
        self._down.discard(cluster)

    def group_down(self, cluster: ClusterName) -> None:
        """Notes that the upstream group on a cluster refuses this process. Commits still wait for it: its coordinator
        answers, and the assignment is soon lost, which answers them."""
        self._refused.add(cluster)

    def group_up(self, cluster: ClusterName) -> None:
        self._refused.discard(cluster)

    def partitions_moved(self, sources: Iterable[UpstreamPartition]) -> None:
        """Notes that partitions moved to another process. This process will not store their commits any more."""
        gone = set(sources)
        for pending in list(self._pending) if gone else ():
            for source in gone & pending.needed.keys():
                pending.errors[pending.needed.pop(source).name] = pending.lost()
            self._answer_if_done(pending)
        for source in gone:
            self._dirty.get(source.cluster, {}).pop(source, None)

    def close(self, error: ErrorCode) -> None:
        """Answers every waiting commit with this error."""
        for pending in list(self._pending):
            for need in pending.needed.values():
                pending.errors[need.name] = error
            pending.needed.clear()
            self._answer_if_done(pending)

    def _snapshots(self, partitions: Iterable[Partition], relieved: list[Partition]) -> _Going:
        """Snapshots of the partitions that have changes to store, and room for them."""
        wanted = [
            each for each in partitions if each.is_active and (each.ledger.needs_storing or each.ledger.is_behind)
        ]
        found = {partition.source: self._snapshot(partition, relieved) for partition in wanted}
        return {source: snapshot for source, snapshot in found.items() if snapshot is not None}

    def _mark(self, partition: Partition) -> None:
        self._dirty.setdefault(partition.source.cluster, {})[partition.source] = partition

    def _pass(self, now: float) -> None:
        """Stores positions that have moved past offsets without records, if no commit has done so."""
        behind, self._behind = self._behind, set()
        for partition in behind:
            if partition.is_active and partition.ledger.is_behind:
                self._mark(partition)

    def _snapshot(self, partition: Partition, relieved: list[Partition]) -> Snapshot | None:
        """Returns the snapshot of a partition to store. None if no commit could hold the runs that are stored already.
        Then the older commit stays until its lowest runs join the committed offset."""
        ledger = partition.ledger
        limit = self.metadata_limit(partition.source.cluster)
        leases = stored_leases(partition.leased.values(), ledger.committable, self._epoch)
        runs = ledger.acknowledged
        counts, replay = ledger.counts, ledger.replayed.stored if ledger.replayed is not None else None
        packed = pack(partition.source, ledger.committable, runs, limit, leases, counts, int(FULL * limit), replay)
        is_full = packed.covered is not None or packed.used > FULL * limit
        if partition.is_full and not is_full:
            relieved.append(partition)
        elif is_full and not partition.is_full:
            fields = {"partition": str(partition.source), "offset": ledger.committable}
            self._outbox.report("partition waits for its lowest unacknowledged record", fields, "warning")
        partition.is_full = is_full
        kept = packed if packed.covered is None else _keep_stored(partition, packed, leases, limit)
        if kept is None:
            return None
        position = CommitPosition(ledger.committable, kept.text, is_read=ledger.has_read(partition.highest_leased))
        return Snapshot(partition, ledger, ledger.version, position, kept.covered)

    def _allow_less(self, cluster: ClusterName, going: Iterable[Snapshot]) -> None:
        """Lowers the limit of a cluster whose brokers allow less (offset.metadata.max.bytes), but do not say how much.
        Metadata that they stored before may still be allowed."""
        longest = max(len(snapshot.position.metadata) for snapshot in going)
        before = max(len(snapshot.ledger.stored.metadata) for snapshot in going)
        limit = longest // 2 if before >= longest else max(longest // 2, before)
        self._metadata_limits[cluster] = limit
        fields = {"cluster": cluster, "limit": limit}
        self._outbox.report("upstream cluster allows less commit metadata", fields, "warning")

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
    """Keeps stored runs in preference to new ones, which are answered as not stored. Returns None if not even the
    stored runs fit, because the brokers allow less than before."""
    ledger, covered = partition.ledger, packed.covered
    assert covered is not None
    stored = _stored(partition)
    runs = [run for run in stored.runs if run.first >= ledger.committable and ledger.is_all_settled(run)]
    ids = {lease.id for lease in leases}
    if not (runs and runs[-1].last >= covered) and not (covered < 0 and any(each.id in ids for each in stored.leases)):
        return packed
    replay = ledger.replayed.stored if ledger.replayed is not None else None
    again = pack(partition.source, ledger.committable, runs, limit, leases, replay=replay)
    if again.covered is not None:
        return None
    stored_ledger = Ledger(ledger.committable, settled=runs)
    new = (part for run in ledger.acknowledged for part in stored_ledger.unsettled(run.first, run.last))
    return Packed(again.text, next(new).first, packed.used)


def _stored(partition: Partition) -> Unpacked:
    """Returns the content of the commit that is stored upstream."""
    stored = partition.ledger.stored
    try:
        return unpack(partition.source, stored.offset, stored.metadata)
    except ForeignMetadata:
        return Unpacked()
