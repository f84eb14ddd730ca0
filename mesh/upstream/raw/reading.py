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
NO_LEADER: Final = -1


@dataclass(slots=True, eq=False)
class Reading:
    """position: the next upstream offset to fetch. leader: node id. epoch: the leader's (KIP-320).

    suspended: revoked, and may come back. resting_until: in the loop's time. served: when it last brought something;
    who waits longest stands first in the next request, since a broker fills an answer from the front.
    told_end: the last end that was told.
    """

    source: UpstreamPartition
    position: int
    topic_id: UUID | None = None
    leader: int = NO_LEADER
    epoch: int = -1
    in_flight: bool = False
    paused: bool = False
    suspended: bool = False
    delegated: bool = False
    resting_until: float = 0.0
    served: int = 0
    told_end: int = -1

    def is_wanted(self, now: float) -> bool:
        held_up = self.in_flight or self.paused or self.suspended or self.delegated
        return not held_up and self.leader != NO_LEADER and now >= self.resting_until


@dataclass(frozen=True, slots=True)
class Progress:
    """Batches, the position behind them, and the end if that is it."""

    batches: tuple[Batch, ...]
    position: int
    end: int | None


@dataclass(frozen=True, slots=True)
class OldFormat:
    """What comes next is of magic 0 or 1."""

    before: Progress


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """The log does not have the position."""


@dataclass(frozen=True, slots=True)
class NotTheLeader:
    """Or not the topic: ask who is."""


@dataclass(frozen=True, slots=True)
class NotNow:
    """Try again after `rest` seconds; error: a code that is worth telling, 0 if it is not."""

    rest: float
    error: int = 0


Outcome: TypeAlias = Progress | OldFormat | OutOfRange | NotTheLeader | NotNow

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
_NOT_YET: Final = frozenset({ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.OFFSET_NOT_AVAILABLE})


def outcome_of(fetched: Fetched, position: int, read_committed: bool, copied: bool) -> Outcome:
    """What a partition's part of an answer leads to. Raises CorruptBatch."""
    error = fetched.error_code
    if error == ErrorCode.OFFSET_OUT_OF_RANGE:
        return OutOfRange()
    if error in _ELSEWHERE:
        return NotTheLeader()
    if error in _NOT_YET:
        return NotNow(REST)
    if error:
        return NotNow(REFUSED_REST, error)
    aborted = [(each.producer_id, each.first_offset) for each in fetched.aborted] if read_committed else []
    cut = cut_batches(fetched.records, position, aborted, copied=copied)
    end = fetched.last_stable_offset if read_committed else fetched.high_watermark
    # A leader that is new to its task does not know at first how far the log is committed (KIP-207): an end below the
    # position is none.
    progress = Progress(cut.batches, cut.position, cut.position if cut.position == end else None)
    return OldFormat(progress) if cut.is_old_format else progress
