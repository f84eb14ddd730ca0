"""Messages about topics and their records: Metadata, ListOffsets, Fetch, Produce.

What Fetch has for each partition is a tuple: a frozen dataclass takes two to three times as long to make, and there are
tens of thousands of them in a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias
from uuid import UUID

from mesh.wire.errors import ErrorCode

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Bytes on their way out. A memoryview is one-dimensional, of single bytes: its `len` is its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataTopic:
    """By name, or from v10 by id (then the name is None)."""

    name: str | None
    topic_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRequest:
    """topics: None asks for all of them, an empty tuple for none."""

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
    """name: None if an unknown id was asked for; sent as an empty string before v12."""

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
    """timestamp: -1 latest, -2 earliest, -3 the largest timestamp, otherwise milliseconds since the epoch."""

    partition_index: int
    timestamp: int
    current_leader_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsTopic:
    name: str
    partitions: tuple[ListOffsetsPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsRequest:
    """isolation_level: 0 read_uncommitted, 1 read_committed."""

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
    """By name up to v12, by id from v13 on; the other one is None (both, if the id is the zero UUID)."""

    name: str | None
    topic_id: UUID | None
    partitions: tuple[FetchPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenTopic:
    """What an incremental Fetch session (KIP-227) drops; by name or by id like `FetchTopic`."""

    name: str | None
    topic_id: UUID | None
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """isolation_level: 0 read_uncommitted, 1 read_committed. session_epoch: -1 no session, 0 asks for a new one."""

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
    """records: whole batches, in any number of buffers, sent one after the other; empty where there are none."""

    partition: int
    error_code: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: tuple[Buffer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchTopicResponse:
    """Under the name (up to v12) or the id (from v13 on) that the request had."""

    name: str | None
    topic_id: UUID | None
    partitions: tuple[FetchPartitionResponse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse:
    """session_id: 0 says that there is no session."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.NONE
    session_id: int = 0
    topics: tuple[FetchTopicResponse, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducePartition:
    """The records themselves are skipped: nothing here takes them."""

    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceTopic:
    name: str
    partition_data: tuple[ProducePartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRequest:
    """acks: 0 means that the client expects no answer at all."""

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
