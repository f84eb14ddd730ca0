"""Messages about topics and their records: Metadata, ListOffsets, Fetch, Produce.

The partitions of Fetch are tuples: a frozen dataclass takes two to three times as long to create, and there are tens of
thousands of them in a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias
from uuid import UUID

from mesh.wire.errors import ErrorCode

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Bytes to send. A memoryview has one dimension and single bytes as elements, so its `len` is its size in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataTopic:
    """A topic in a Metadata request: by name, or since v10 by id, when the name is None."""

    name: str | None
    topic_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRequest:
    """A Metadata request. topics: None asks for all topics, an empty tuple for none."""

    topics: tuple[MetadataTopic, ...] | None
    allow_auto_topic_creation: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataBroker:
    node_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataPartitionResponse:
    partition_index: int
    error_code: ErrorCode = ErrorCode.NONE
    leader_id: int
    leader_epoch: int = -1
    replica_nodes: tuple[int, ...] = ()
    isr_nodes: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataTopicResponse:
    """A topic in the response of Metadata. name: None for a requested id that is unknown; encoded as an empty string
    before v12."""

    name: str | None
    topic_id: UUID | None = None
    error_code: ErrorCode = ErrorCode.NONE
    is_internal: bool = False
    partitions: tuple[MetadataPartitionResponse, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataResponse:
    throttle_time_ms: int = 0
    brokers: tuple[MetadataBroker, ...]
    cluster_id: str | None = None
    controller_id: int = -1
    topics: tuple[MetadataTopicResponse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsPartition:
    """A partition in a ListOffsets request. timestamp: -1 for the latest offset, -2 for the earliest, -3 for the
    largest timestamp; otherwise milliseconds since the epoch."""

    partition_index: int
    timestamp: int
    current_leader_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsTopic:
    name: str
    partitions: tuple[ListOffsetsPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsRequest:
    """A ListOffsets request. isolation_level: 0 for read_uncommitted, 1 for read_committed."""

    isolation_level: int = 0
    topics: tuple[ListOffsetsTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsPartitionResponse:
    partition_index: int
    error_code: ErrorCode = ErrorCode.NONE
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsTopicResponse:
    name: str
    partitions: tuple[ListOffsetsPartitionResponse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsResponse:
    throttle_time_ms: int = 0
    topics: tuple[ListOffsetsTopicResponse, ...]


class FetchPartition(NamedTuple):
    partition: int
    fetch_offset: int
    partition_max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchTopic:
    """A topic in a Fetch request: by name up to v12, by id since v13. The other one is None; both are None if the id is
    the zero UUID."""

    name: str | None
    topic_id: UUID | None
    partitions: tuple[FetchPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenTopic:
    """A topic that is removed from an incremental Fetch session (KIP-227); by name or id like `FetchTopic`."""

    name: str | None
    topic_id: UUID | None
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """A Fetch request. isolation_level: 0 for read_uncommitted, 1 for read_committed. session_epoch: -1 for no session,
    0 asks for a new session."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    topics: tuple[FetchTopic, ...]
    forgotten_topics: tuple[ForgottenTopic, ...] = ()
    rack_id: str = ""


class FetchPartitionResponse(NamedTuple):
    """A partition in the response of Fetch. records: whole batches, in any number of buffers that are sent one after
    the other; empty if there are none."""

    partition: int
    error_code: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: tuple[Buffer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchTopicResponse:
    """A topic in the response of Fetch, with the name (up to v12) or id (since v13) of the request."""

    name: str | None
    topic_id: UUID | None
    partitions: tuple[FetchPartitionResponse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse:
    """The response of Fetch. session_id: 0 for no session."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.NONE
    session_id: int = 0
    topics: tuple[FetchTopicResponse, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducePartition:
    """A partition in a Produce request. Its records are skipped: a pool does not accept them."""

    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceTopic:
    name: str
    partition_data: tuple[ProducePartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRequest:
    """A Produce request. acks: 0 if the client expects no answer."""

    transactional_id: str | None = None
    acks: int
    timeout_ms: int
    topic_data: tuple[ProduceTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRecordError:
    batch_index: int
    batch_index_error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducePartitionResponse:
    index: int
    error_code: ErrorCode = ErrorCode.NONE
    base_offset: int = -1
    record_errors: tuple[ProduceRecordError, ...] = ()
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceTopicResponse:
    name: str
    partition_responses: tuple[ProducePartitionResponse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceResponse:
    responses: tuple[ProduceTopicResponse, ...]
    throttle_time_ms: int = 0
