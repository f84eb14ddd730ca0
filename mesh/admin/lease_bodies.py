"""What is said over HTTP about leases, as pydantic models. docs/spark.md and the OpenAPI document explain them."""

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

_Name = Annotated[str, StringConstraints(min_length=1, max_length=249)]
_Holder = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_NAME, pattern=r"^[A-Za-z0-9._-]+$")]
_TopicId = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]
_Ttl = Annotated[float, Field(ge=1.0, le=LONGEST_TTL, description="Seconds until it ends by itself.")]
_Wait = Annotated[float, Field(ge=0.0, le=LONGEST_WAIT, description="Seconds to wait at most.")]
_BY_WHICH: Final = "The isolation level by which the group reads: ranges are to be read by the same."
_Offset = Annotated[int, Field(ge=0, le=LARGEST_OFFSET)]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RangeBody(Body):
    """A run of offsets of one upstream partition, both ends included."""

    cluster: _Name
    topic: _Name
    partition: Annotated[int, Field(ge=0, lt=1 << 31)]
    first: _Offset
    last: _Offset
    topic_id: _TopicId | None = Field(
        default=None,
        description="Of the upstream topic, if it is known: bring it with the range. It tells a topic that was deleted "
        "and made anew from the one before.",
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


class GroupBody(Body):
    virtual_cluster: _Name
    group: _Name


class HolderBody(GroupBody):
    holder: _Holder


class EndBody(Body):
    """An offset of an upstream partition."""

    cluster: _Name
    topic: _Name
    partition: Annotated[int, Field(ge=0, lt=1 << 31)]
    end: _Offset

    @property
    def place(self) -> UpstreamPartition:
        return UpstreamPartition(ClusterName(self.cluster), TopicName(self.topic), self.partition)


class CreateBody(HolderBody):
    """Hold what nobody holds, at most `max_records` offsets, which have about `max_bytes` bytes at most. The holder's
    leases end, but for `completed`."""

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
        default=None, description="Nothing at or above these, and nothing of other partitions."
    )


class ClaimBody(HolderBody):
    """Hold exactly these again, which were granted to this holder under this name before."""

    ranges: _Ranges
    ttl: _Ttl = 1_800.0
    wait: _Wait = 10.0


class RenewBody(HolderBody):
    ttl: _Ttl = 1_800.0


class AcknowledgeBody(HolderBody):
    """Process no more what lies in these ranges; all of the lease if there are none."""

    ranges: _Ranges | None = None
    bytes: Annotated[int, Field(ge=0, le=MOST_BYTES)] | None = Field(
        default=None, description="That the records in them had, if it is known: later leases are measured by it."
    )


class BacklogBody(GroupBody):
    """A question about what waits for a group. wait: join the group, and wait so many seconds until its partitions are
    assigned; 0 changes nothing."""

    topics: Annotated[tuple[_Name, ...], Field(min_length=1, max_length=1_000)]
    wait: _Wait = 0.0


class LeaseAnswer(Body):
    """A lease that was granted, or prolonged. ranges: empty when there was nothing to be had; then there is no
    lease."""

    lease: str
    deadline: float
    ranges: tuple[RangeBody, ...]
    bootstrap_servers: dict[str, str] = Field(description="Of each cluster that stands in `ranges`.")
    isolation: Isolation = Field(description=_BY_WHICH)


class SettledAnswer(Body):
    """What became of ranges that were claimed or acknowledged. done: of these it is true now, and stored. lost: held by
    others, or processed by them; or of a log that began anew, or was cut off, since. absent: their partitions are not
    assigned to this process of the mesh."""

    done: tuple[RangeBody, ...]
    lost: tuple[RangeBody, ...]
    absent: tuple[RangeBody, ...]


class HeldLease(Body):
    virtual_cluster: str
    group: str
    lease: str
    holder: str
    deadline: float
    ranges: tuple[RangeBody, ...]


class LeaseList(Body):
    leases: tuple[HeldLease, ...]


class PartitionAnswer(Body):
    """The backlog of one partition, in offsets. available: nobody holds these. leased: held by leases. lag: not
    acknowledged. end: last stable offset; with `read_uncommitted` the high watermark."""

    cluster: str
    topic: str
    partition: int
    available: int
    leased: int
    lag: int
    end: int


class BacklogAnswer(Body):
    active: bool = Field(description="Whether the group has anybody here; if not, nothing is known of its partitions.")
    partitions: tuple[PartitionAnswer, ...]
    isolation: Isolation = Field(description=_BY_WHICH)


class ErrorAnswer(Body):
    error: Literal[
        "invalid",
        "too_large",
        "unknown_virtual_cluster",
        "unknown_topic",
        "refused_group",
        "no_token_set",
        "unknown_lease",
        "not_stored",
        "no_room",
        "unavailable",
    ]
    detail: str
