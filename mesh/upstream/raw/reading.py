"""The reading of one partition: its position, and the effect of a Fetch answer on it. No IO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias
from uuid import UUID

from mesh.records.batch import RecordBatch
from mesh.records.fetched import split_into_runs
from mesh.records.spans import UpstreamPartition
from mesh.wire.client.fetch import Fetched
from mesh.wire.errors import ErrorCode

RETRY_DELAY: Final = 0.1
"""Seconds until a partition whose leader is not ready is tried again."""
REFUSED_RETRY_DELAY: Final = 1.0
REPLICA_FOR: Final = 300.0
"""Seconds for which a preferred replica is read before the leader is asked again, as in other clients."""
NO_NODE: Final = -1


@dataclass(slots=True, eq=False)
class Reading:
    """One partition that is read.

    position: the next upstream offset to fetch.
    last_epoch: the epoch of the batch before it, -1 if unknown.
    leader: the leader's node id. epoch: the leader's epoch (KIP-320).
    replica: the node that the leader prefers to be read (KIP-392), NO_NODE for none. It is left after `replica_until`.
    request: the request that it is in, if any.
    paused: the pool has paused it. revoked: a rebalance is in progress, and it may come back.
    suspended: the position from which to continue is being looked up. recreated: whether that is because its topic was
        created again.
    delegated: librdkafka reads it.
    resting_until: not read before this time, which is in the loop's time.
    last_served: the sequence number of its last records. The partition that waited longest is first in the next
        request, since a broker fills an answer from the front.
    reported_end: the end of the log that was last reported (`EndReached`); -1 before.
    log_epoch: no record that was read, or is stored as settled, has a later epoch; -1 if unknown.
    unchecked: before reading, the log must be compared with `log_epoch`.
    """

    source: UpstreamPartition
    position: int
    topic_id: UUID | None = None
    leader: int = NO_NODE
    epoch: int = -1
    last_epoch: int = -1
    replica: int = NO_NODE
    replica_until: float = 0.0
    request: object | None = None
    paused: bool = False
    revoked: bool = False
    suspended: bool = False
    recreated: bool = False
    delegated: bool = False
    resting_until: float = 0.0
    last_served: int = 0
    reported_end: int = -1
    log_epoch: int = -1
    unchecked: bool = False

    @property
    def node(self) -> int:
        """Returns the node to read from; NO_NODE while that is unknown."""
        return self.leader if self.replica == NO_NODE or self.leader == NO_NODE else self.replica

    def is_wanted(self, now: float) -> bool:
        return self.request is None and self.is_asked_for and now >= self.resting_until

    @property
    def is_behind(self) -> bool:
        """Returns whether its log may hold more."""
        return self.position != self.reported_end

    @property
    def is_asked_for(self) -> bool:
        return not (self.paused or self.is_stopped or self.delegated or self.unchecked)

    @property
    def is_stopped(self) -> bool:
        """Returns whether answers about it do not count."""
        return self.revoked or self.suspended

    def continued_at(self, position: int) -> Reading:
        """Returns a reading that continues at this position; earlier requests are void. A new topic will be noticed by
        its id."""
        return Reading(
            self.source,
            position,
            self.topic_id,
            last_epoch=self.last_epoch if position == self.position else -1,
            log_epoch=self.log_epoch,
            unchecked=self.unchecked,
        )


@dataclass(frozen=True, slots=True)
class Progress:
    """Batches, the position after them, the end of the log if the position is there, and the leader epoch of the last
    batch."""

    batches: tuple[RecordBatch, ...]
    position: int
    end: int | None
    epoch: int


@dataclass(frozen=True, slots=True)
class OldFormatFound:
    """The outcome that the next batch has magic 0 or 1. before: the batches before it."""

    before: Progress


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """The outcome that the log does not have the position."""


@dataclass(frozen=True, slots=True)
class NotTheLeader:
    """The outcome that the leader must be looked up again. newer: the leader's node id and epoch,
    if the node knows them. is_missing: whether it does not know the topic."""

    newer: tuple[int, int] | None = None
    is_missing: bool = False


@dataclass(frozen=True, slots=True)
class ReadElsewhere:
    """The outcome that the leader prefers this node to be read (KIP-392)."""

    node_id: int


@dataclass(frozen=True, slots=True)
class TruncationFound:
    """The outcome that the leader's log differs before the position; both logs agree up to `end`."""

    end: int


@dataclass(frozen=True, slots=True)
class RetryLater:
    """The outcome that the partition must be tried again after `delay` seconds. error: a code to report, 0 for none."""

    delay: float
    error: int = 0


Outcome: TypeAlias = (
    Progress | OldFormatFound | OutOfRange | NotTheLeader | ReadElsewhere | TruncationFound | RetryLater
)

_LEADER_UNKNOWN: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        9,  # REPLICA_NOT_AVAILABLE
    }
)
_MISSING: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
_NOT_YET: Final = frozenset({ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.OFFSET_NOT_AVAILABLE})
PASSING: Final = _LEADER_UNKNOWN | _NOT_YET
"""Errors of a broker that is not the leader, or not ready yet."""


def is_unchanged(fetched: Fetched, reading: Reading, read_committed: bool) -> bool:
    """Returns whether the log still ends at its last reported end, as for most partitions of most answers."""
    end = fetched.last_stable_offset if read_committed else fetched.high_watermark
    is_usual = not fetched.error_code and fetched.diverging is None and fetched.preferred_replica < 0
    return is_usual and not fetched.records and end == reading.position == reading.reported_end


def outcome_of(fetched: Fetched, position: int, read_committed: bool, copied: bool) -> Outcome:
    """Returns the outcome of a partition's part of an answer. Raises CorruptBatch."""
    error = fetched.error_code
    if error == ErrorCode.OFFSET_OUT_OF_RANGE:
        return OutOfRange()
    if error in _LEADER_UNKNOWN:
        return NotTheLeader(fetched.leader, error in _MISSING)
    if error in _NOT_YET:
        return RetryLater(RETRY_DELAY)
    if error:
        return RetryLater(REFUSED_RETRY_DELAY, error)
    if fetched.diverging is not None:
        return TruncationFound(fetched.diverging)
    if fetched.preferred_replica >= 0:
        return ReadElsewhere(fetched.preferred_replica)
    aborted = [(each.producer_id, each.first_offset) for each in fetched.aborted] if read_committed else []
    cut = split_into_runs(fetched.records, position, aborted, copied=copied)
    end = fetched.last_stable_offset if read_committed else fetched.high_watermark
    # A new leader does not know at first how far the log is committed (KIP-207): an end below the position is not real.
    progress = Progress(cut.batches, cut.position, cut.position if cut.position == end else None, cut.epoch)
    return OldFormatFound(progress) if cut.is_old_format else progress
