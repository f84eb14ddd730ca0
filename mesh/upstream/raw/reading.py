"""How far one partition is read, and what a Fetch answer says about it. No IO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias
from uuid import UUID

from mesh.records.batch import Batch
from mesh.records.fetched import cut_batches
from mesh.records.spans import UpstreamPartition
from mesh.wire.client.fetch import Fetched
from mesh.wire.errors import ErrorCode

REST: Final = 0.1
"""Seconds until a partition is tried again whose leader is not ready for it."""
REFUSED_REST: Final = 1.0
REPLICA_FOR: Final = 300.0
"""Seconds for which a preferred replica is read until the leader is asked again, as other clients do."""
NO_LEADER: Final = -1


@dataclass(slots=True, eq=False)
class Reading:
    """One partition that is read. position: the next upstream offset to fetch. last_epoch: of the batch in front of it,
    -1 if that is not known. leader: node id. epoch: the leader's (KIP-320). replica: the node that the leader wants to
    be read instead of it, until `replica_until`. flight: the request it is in, if any.

    log_epoch: no record that was read, or is stored as settled, is of a later one; -1 if that is not known. unchecked:
    it is to be asked first whether the log is still the one that this epoch speaks of.

    revoked: a rebalance goes on, and it may come back. suspended: it is asked where its log goes on. anew: since it is
    another topic than before.
    resting_until: in the loop's time. served: when it last brought something; who waits longest stands first in the
    next request, since a broker fills an answer from the front.
    told_end: the last end that was told.
    """

    source: UpstreamPartition
    position: int
    topic_id: UUID | None = None
    leader: int = NO_LEADER
    epoch: int = -1
    last_epoch: int = -1
    replica: int = NO_LEADER
    replica_until: float = 0.0
    flight: object | None = None
    paused: bool = False
    revoked: bool = False
    suspended: bool = False
    anew: bool = False
    delegated: bool = False
    resting_until: float = 0.0
    served: int = 0
    told_end: int = -1
    log_epoch: int = -1
    unchecked: bool = False

    def node(self, now: float) -> int:
        """Whom to ask; NO_LEADER while that is not known."""
        if self.replica == NO_LEADER or self.leader == NO_LEADER:
            return self.leader
        if now >= self.replica_until:
            self.replica = NO_LEADER
            return self.leader
        return self.replica

    def is_wanted(self, now: float) -> bool:
        return self.flight is None and self.is_asked_for and now >= self.resting_until

    @property
    def is_behind(self) -> bool:
        """Whether its log may hold more."""
        return self.position != self.told_end

    @property
    def is_asked_for(self) -> bool:
        return not (self.paused or self.is_stopped or self.delegated or self.unchecked)

    @property
    def is_stopped(self) -> bool:
        """What answers bring of it does not count."""
        return self.revoked or self.suspended

    def again(self, position: int) -> Reading:
        """It goes on there, and nothing counts that was asked before. That its topic is another one by now will be
        noticed by the id."""
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
    """Batches, the position behind them, the end if that is it, and the leader epoch of the last one."""

    batches: tuple[Batch, ...]
    position: int
    end: int | None
    epoch: int


@dataclass(frozen=True, slots=True)
class OldFormat:
    """What comes next is of magic 0 or 1."""

    before: Progress


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """The log does not have the position."""


@dataclass(frozen=True, slots=True)
class NotTheLeader:
    """Or not the topic: ask who is. newer: who is, node id and epoch, if the broker knows."""

    newer: tuple[int, int] | None = None
    is_missing: bool = False


@dataclass(frozen=True, slots=True)
class ReadElsewhere:
    """The leader wants this node to be read instead (KIP-392)."""

    node_id: int


@dataclass(frozen=True, slots=True)
class TruncationFound:
    """The leader's log has something else in front of the position; both go the same way up to `end`."""

    end: int


@dataclass(frozen=True, slots=True)
class NotNow:
    """Try again after `rest` seconds; error: a code that is worth telling, 0 if it is not."""

    rest: float
    error: int = 0


Outcome: TypeAlias = Progress | OldFormat | OutOfRange | NotTheLeader | ReadElsewhere | TruncationFound | NotNow

_ELSEWHERE: Final = frozenset(
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
PASSING: Final = _ELSEWHERE | _NOT_YET
"""What a broker answers that is not the leader, or not ready yet."""


def says_nothing(fetched: Fetched, reading: Reading, read_committed: bool) -> bool:
    """Whether the log still ends where it was told to end, which is so of most partitions of most answers."""
    end = fetched.last_stable_offset if read_committed else fetched.high_watermark
    is_usual = not fetched.error_code and fetched.diverging is None and fetched.preferred_replica < 0
    return is_usual and not fetched.records and end == reading.position == reading.told_end


def outcome_of(fetched: Fetched, position: int, read_committed: bool, copied: bool) -> Outcome:
    """What a partition's part of an answer leads to. Raises CorruptBatch."""
    error = fetched.error_code
    if error == ErrorCode.OFFSET_OUT_OF_RANGE:
        return OutOfRange()
    if error in _ELSEWHERE:
        return NotTheLeader(fetched.leader, error in _MISSING)
    if error in _NOT_YET:
        return NotNow(REST)
    if error:
        return NotNow(REFUSED_REST, error)
    if fetched.diverging is not None:
        return TruncationFound(fetched.diverging)
    if fetched.preferred_replica >= 0:
        return ReadElsewhere(fetched.preferred_replica)
    aborted = [(each.producer_id, each.first_offset) for each in fetched.aborted] if read_committed else []
    cut = cut_batches(fetched.records, position, aborted, copied=copied)
    end = fetched.last_stable_offset if read_committed else fetched.high_watermark
    # A leader that is new to its task does not know at first how far the log is committed (KIP-207): an end below the
    # position is none.
    progress = Progress(cut.batches, cut.position, cut.position if cut.position == end else None, cut.epoch)
    return OldFormat(progress) if cut.is_old_format else progress
