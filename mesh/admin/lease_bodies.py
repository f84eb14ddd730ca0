"""Bodies of the lease API, as pydantic models. docs/spark.md and the OpenAPI document explain them."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from mesh.pool.state.leases import LONGEST_NAME, LONGEST_TTL, Range
from mesh.records.spans import ClusterName, Span, TopicName, UpstreamPartition
from mesh.upstream.engine import Isolation

LONGEST_WAIT: Final = 30.0
MOST_RECORDS: Final = 100_000_000
MOST_BYTES: Final = 1 << 50
USUAL_BYTES: Final = 256 << 20
MOST_RANGES: Final = 10_000
LARGEST_OFFSET: Final = (1 << 63) - 1

LeaseError = Literal[
    "invalid",
    "too_large",
    "unknown_virtual_cluster",
    "unknown_topic",
    "refused_group",
    "no_token_set",
    "intercepted_topic",
    "unknown_lease",
    "not_stored",
    "no_room",
    "end_unknown",
    "unavailable",
]
"""The errors of the API. Clients decide by them; the details are for people."""

_Name = Annotated[str, StringConstraints(min_length=1, max_length=249)]
_Holder = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_NAME, pattern=r"^[A-Za-z0-9._-]+$")]
_TopicId = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]
_Ttl = Annotated[float, Field(ge=1.0, le=LONGEST_TTL, description="Seconds until the lease ends by itself.")]
_Wait = Annotated[float, Field(ge=0.0, le=LONGEST_WAIT, description="Seconds to wait at most.")]
_BY_WHICH: Final = "The isolation level of the group: read ranges with the same."
_Offset = Annotated[int, Field(ge=0, le=LARGEST_OFFSET)]


class LeaseBody(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RangeBody(LeaseBody):
    """A run of offsets of one upstream partition, first and last included."""

    cluster: _Name
    topic: _Name
    partition: Annotated[int, Field(ge=0, lt=1 << 31)]
    first: _Offset
    last: _Offset
    topic_id: _TopicId | None = Field(
        default=None,
        description="The id of the upstream topic, if it is known: send it with the range. It distinguishes a topic "
        "that was created again from its predecessor.",
    )

    @model_validator(mode="after")
    def _is_in_order(self) -> RangeBody:
        if self.first > self.last:
            raise ValueError("first must not be above last")
        return self

    def to_range(self) -> Range:
        place = UpstreamPartition(ClusterName(self.cluster), TopicName(self.topic), self.partition)
        return Range(place, Span(self.first, self.last), self.topic_id)


_Ranges = Annotated[tuple[RangeBody, ...], Field(max_length=MOST_RANGES)]


class GroupBody(LeaseBody):
    virtual_cluster: _Name
    group: _Name


class HolderBody(GroupBody):
    holder: _Holder


class EndBody(LeaseBody):
    """An offset at which a lease must end in an upstream partition."""

    cluster: _Name
    topic: _Name
    partition: Annotated[int, Field(ge=0, lt=1 << 31)]
    end: _Offset

    @property
    def place(self) -> UpstreamPartition:
        return UpstreamPartition(ClusterName(self.cluster), TopicName(self.topic), self.partition)


class CreateBody(HolderBody):
    """A request to lease free records: at most `max_records` offsets, with about `max_bytes` bytes at most. It ends the
    holder's other leases, except `completed`."""

    topics: Annotated[tuple[_Name, ...], Field(min_length=1, max_length=1_000)]
    max_records: Annotated[int, Field(ge=1, le=MOST_RECORDS)] = 100_000
    max_bytes: Annotated[int, Field(ge=1, le=MOST_BYTES)] | None = Field(
        default=USUAL_BYTES,
        description="As they lie in the log, by the mean of the records that were read last; null for no such limit.",
    )
    ttl: _Ttl = 1_800.0
    completed: _Holder | None = None
    wait: _Wait = 0.0
    ends: Annotated[tuple[EndBody, ...], Field(max_length=MOST_RANGES)] | None = Field(
        default=None, description="Lease no offsets at or above these, and no other partitions."
    )


class ClaimBody(HolderBody):
    """A request to hold exactly these ranges again, which were granted to this holder under this lease before."""

    ranges: _Ranges
    ttl: _Ttl = 1_800.0
    wait: _Wait = 10.0


class RenewBody(HolderBody):
    ttl: _Ttl = 1_800.0


class AcknowledgeBody(HolderBody):
    """A request to acknowledge these ranges; without ranges, the whole lease."""

    ranges: _Ranges | None = None
    bytes: Annotated[int, Field(ge=0, le=MOST_BYTES)] | None = Field(
        default=None, description="Bytes of the records in them, if known: later leases are measured by it."
    )


class BacklogBody(GroupBody):
    """A request for the backlog of a group. wait: join the group, and wait up to this many seconds for its partitions
    and for the ends of their logs; 0 changes nothing. ends_within: without `wait`, wait up to this many seconds for the
    ends of the logs of partitions that are assigned already. The ends are asked for after the request has come."""

    topics: Annotated[tuple[_Name, ...], Field(min_length=1, max_length=1_000)]
    wait: _Wait = 0.0
    ends_within: _Wait = 0.0


class LeaseAnswer(LeaseBody):
    """A lease that was granted or renewed. ranges: empty if there were no free records; then there is no lease."""

    lease: str
    deadline: float
    ranges: tuple[RangeBody, ...]
    bootstrap_servers: dict[str, str] = Field(description="Bootstrap servers of each cluster in `ranges`.")
    isolation: Isolation = Field(description=_BY_WHICH)


class SettledAnswer(LeaseBody):
    """The answer to a claim or an acknowledgement, by ranges. done: true and stored. lost: held or processed by
    others, or of a log that was created again or truncated since. absent: in partitions that are not assigned to
    this process."""

    done: tuple[RangeBody, ...]
    lost: tuple[RangeBody, ...]
    absent: tuple[RangeBody, ...]


class HeldLease(LeaseBody):
    virtual_cluster: str
    group: str
    lease: str
    holder: str
    deadline: float
    ranges: tuple[RangeBody, ...]


class LeaseList(LeaseBody):
    leases: tuple[HeldLease, ...]


class PartitionAnswer(LeaseBody):
    """The backlog of one partition, in offsets. available: free. leased: held by leases. lag: not acknowledged. end:
    the last stable offset; with `read_uncommitted` the high watermark."""

    cluster: str
    topic: str
    partition: int
    available: int
    leased: int
    lag: int
    end: int


class BacklogAnswer(LeaseBody):
    active: bool = Field(
        description="Whether the group has members or leases here; if not, its partitions are unknown."
    )
    partitions: tuple[PartitionAnswer, ...]
    isolation: Isolation = Field(description=_BY_WHICH)


class ErrorAnswer(LeaseBody):
    error: LeaseError
    detail: str
