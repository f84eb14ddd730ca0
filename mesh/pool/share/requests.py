"""What share members ask of a pool, and what they are answered, free of API versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple
from uuid import UUID

from mesh.pool.state.fetch import AcquiredSpan, Delivered
from mesh.records.spans import TopicName
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import AcknowledgementBatch, Buffer

OPENING: Final = 0
"""The epoch of a request that opens a session."""
ENDING: Final = -1
"""The epoch of one that ends it."""
LAST_EPOCH: Final = (1 << 31) - 1
"""Behind it comes 1."""


class AcknowledgeType(IntEnum):
    """What a member says about an offset. GAP: there is no record. REJECT: nobody can process it. RENEW: it still works
    on it."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class NamedPartition(NamedTuple):
    """As share members name one: a topic id, None for the zero UUID, and a number."""

    topic_id: UUID | None
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRequest:
    """What ShareFetch and ShareAcknowledge have in common. acknowledgements: by partition, in the order of the request.
    may_renew: whether it may acknowledge with RENEW. may_read: whether its user may read a topic."""

    epoch: int
    acknowledgements: Mapping[NamedPartition, Sequence[AcknowledgementBatch]]
    may_renew: bool = False
    may_read: Callable[[TopicName], bool] = lambda _: True


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareFetchRequest(SharedRequest):
    """added, forgotten: partitions that its session has from now on, and has no more. most_records, minimum, maximum
    (bytes), wait (seconds), is_exact, longest_range: as in `FetchParameters` and `AcquireTerms`. acquires: whether it
    is to be given records at all."""

    added: Sequence[NamedPartition]
    forgotten: Sequence[NamedPartition]
    minimum: int
    maximum: int
    wait: float
    most_records: int
    longest_range: int
    is_exact: bool
    acquires: bool


class ShareFetchedPartition(NamedTuple):
    """error: of the fetch; acknowledge_error: of what was acknowledged in the same request."""

    partition: NamedPartition
    error: ErrorCode = ErrorCode.NONE
    acknowledge_error: ErrorCode = ErrorCode.NONE
    records: tuple[Buffer, ...] = ()
    acquired: tuple[AcquiredSpan, ...] = ()


@dataclass(frozen=True, slots=True)
class ShareFetchResult:
    """error: of the request as a whole. lock: seconds for which the member has what it acquires."""

    error: ErrorCode
    lock: float = 0.0
    partitions: tuple[ShareFetchedPartition, ...] = ()
    delivered: Delivered | None = None


@dataclass(frozen=True, slots=True)
class ShareAcknowledgeResult:
    """error: of the request as a whole."""

    error: ErrorCode
    lock: float = 0.0
    errors: Mapping[NamedPartition, ErrorCode] = field(default_factory=dict)
