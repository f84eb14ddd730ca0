"""Requests of share members to a pool, and their results, independent of API versions."""

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
"""The epoch of a request that ends a session."""
LAST_EPOCH: Final = (1 << 31) - 1
"""The last epoch of a session before it starts again at 1."""


class AcknowledgeType(IntEnum):
    """The type of an acknowledgement of an offset. GAP: there is no record. REJECT: no member can process the record.
    RENEW: the member is still processing it."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class NamedPartition(NamedTuple):
    """A partition as share members name it: a topic id (None for the zero UUID) and a number."""

    topic_id: UUID | None
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRequest:
    """The common part of ShareFetch and ShareAcknowledge.

    * acknowledgements: by partition, in the order of the request.
    * may_renew: whether the request may acknowledge with RENEW.
    * may_read: returns whether its principal may read a topic.
    """

    epoch: int
    acknowledgements: Mapping[NamedPartition, Sequence[AcknowledgementBatch]]
    may_renew: bool = False
    may_read: Callable[[TopicName], bool] = lambda _: True


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFetch(SharedRequest):
    """A ShareFetch.

    * added, forgotten: partitions that its session gains and loses.
    * minimum, maximum (bytes), wait (seconds): as in `FetchParameters`.
    * most_records, longest_range, is_exact: as in `AcquireTerms`.
    * acquires: whether it wants any records.
    """

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
    """The result of a ShareFetch for one partition. error: the error of the fetch. acknowledge_error: the error of the
    acknowledgements in the same request."""

    partition: NamedPartition
    error: ErrorCode = ErrorCode.NONE
    acknowledge_error: ErrorCode = ErrorCode.NONE
    records: tuple[Buffer, ...] = ()
    acquired: tuple[AcquiredSpan, ...] = ()


@dataclass(frozen=True, slots=True)
class ShareFetchResult:
    """The result of a ShareFetch. error: for the whole request. lock: seconds for which the member holds acquired
    records."""

    error: ErrorCode
    lock: float = 0.0
    partitions: tuple[ShareFetchedPartition, ...] = ()
    delivered: Delivered | None = None


@dataclass(frozen=True, slots=True)
class ShareAcknowledgeResult:
    """The result of a ShareAcknowledge. error: for the whole request. settles: whether it settled any offsets."""

    error: ErrorCode
    lock: float = 0.0
    errors: Mapping[NamedPartition, ErrorCode] = field(default_factory=dict)
    settles: bool = False
