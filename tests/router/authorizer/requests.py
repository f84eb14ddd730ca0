"""Requests of any API in any version, about the topics, groups and transactions of a selection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.entities.fields import Field
from mesh.wire.entities.kinds import EntityKind
from mesh.wire.entities.layouts import layout
from mesh.wire.trees import ZERO_ID, Tree
from tests.relay.scripts.records import batch
from tests.router.authorizer.rules import MINE, MISSING, OTHER, PUBLIC, SECRET

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
"""Types of resources with a configuration."""


@dataclass(frozen=True)
class Selection:
    """The entities of a request: the first group and the first transaction only, if it has room for one. is_empty:
    whether all arrays are empty."""

    name: str
    topics: tuple[str, ...] = (MINE, SECRET, PUBLIC, MISSING)
    groups: tuple[str, ...] = (MINE, OTHER)
    transactions: tuple[str, ...] = (MINE, OTHER)
    more: Mapping[str, Any] = field(default_factory=dict)
    is_empty: bool = False


SELECTIONS: Final = (
    Selection("mine"),
    Selection("others", groups=(OTHER, MINE), transactions=(OTHER, MINE)),
    Selection("other group", groups=(OTHER,)),
    Selection("other transaction", transactions=(OTHER,)),
    Selection("known topics", topics=(MINE, PUBLIC)),
    Selection("hidden topics", topics=(SECRET,)),
    Selection("null", more={"is_null": True}),
    Selection("nothing", is_empty=True),
)

_WRITES: Final = frozenset({ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.WRITE_TXN_MARKERS})
"""APIs that change something in any form, here for missing topics."""
_NEW: Final = ("mine-new", "secret-new", "public.new")

_GIVEN: Final[Mapping[str, Any]] = {
    "validate_only": True,
    "include_authorized_operations": True,
    "include_cluster_authorized_operations": True,
    "include_topic_authorized_operations": True,
    "allow_auto_topic_creation": False,
    "replica_id": -1,
    "acks": -1,
    "timeout_ms": 5_000,
    "max_wait_ms": 0,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 20,
    "session_epoch": -1,
    "share_session_epoch": 0,
    "current_leader_epoch": -1,
    "timestamp": -2,
    "endpoint_type": 1,
    "num_partitions": 1,
    "replication_factor": 1,
    "count": 5,
    "protocol_type": "consumer",
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000,
    "member_epoch": 5,
    "transaction_timeout_ms": 10_000,
    "producer_id": 77,
    "producer_epoch": 0,
    "member_id": "nobody-knows",
    "group_instance_id": None,
    "instance_id": None,
    "cluster_id": None,
    "response_partition_limit": 100,
    "log_dir": "/nowhere",
    "path": "/nowhere",
    "assignments": None,
    "configs": [],
    "replicas": None,
    "states_filter": [],
    "state_filters": [],
    "types_filter": [],
    "producer_id_filters": [],
    "duration_filter": -1,
    "generation_id_or_member_epoch": -1,
    "generation_id": -1,
    "election_type": 0,
}
"""Values of any field with that name."""
_OF_API: Final[Mapping[ApiKey, Mapping[str, Any]]] = {
    ApiKey.INIT_PRODUCER_ID: {"producer_id": -1, "producer_epoch": -1},
    ApiKey.SHARE_FETCH: {"acknowledgement_batches": []},
    ApiKey.SYNC_GROUP: {"assignments": [], "protocol_name": "range"},
    ApiKey.CREATE_TOPICS: {"assignments": []},
    ApiKey.CONSUMER_GROUP_HEARTBEAT: {
        "topic_partitions": [],
        "instance_id": None,
        "server_assignor": None,
        "subscribed_topic_regex": None,
    },
    ApiKey.OFFSET_FETCH: {"member_id": None, "member_epoch": -1, "require_stable": False},
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: {"cursor": None},
    ApiKey.LIST_CONFIG_RESOURCES: {"resource_types": []},
    ApiKey.LIST_TRANSACTIONS: {"transactional_id_pattern": None},
    ApiKey.DESCRIBE_CONFIGS: {"configuration_keys": ["cleanup.policy"]},
    ApiKey.STREAMS_GROUP_HEARTBEAT: {
        "active_tasks": None,
        "standby_tasks": None,
        "warmup_tasks": None,
        "task_offsets": None,
        "task_end_offsets": None,
        "user_endpoint": None,
        "client_tags": None,
        "source_topic_regex": [],
        "repartition_sink_topics": [],
        "repartition_source_topics": [],
        "state_changelog_topics": [],
        "copartition_groups": [],
    },
    ApiKey.DESCRIBE_CLUSTER: {"include_fenced_brokers": False},
}
_NULLED: Final[Mapping[ApiKey, str]] = {
    ApiKey.METADATA: "topics",
    ApiKey.OFFSET_FETCH: "topics",
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: "topics",
    ApiKey.ELECT_LEADERS: "topic_partitions",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "topics",
    ApiKey.DESCRIBE_LOG_DIRS: "topics",
    ApiKey.INIT_PRODUCER_ID: "transactional_id",
}
"""Fields that may name nothing, and so mean all."""
_EMPTIED: Final = {ApiKey.DESCRIBE_TOPIC_PARTITIONS: "topics"}


@dataclass(frozen=True)
class Questions:
    """ids: of the existing topics."""

    ids: Mapping[str, UUID]

    def request(self, api_key: ApiKey, version: int, selection: Selection, unique: str) -> Tree | None:
        """None: this API has no such request. unique: a unique name, where two requests must not have the same."""
        if selection.more and api_key not in _NULLED and api_key not in _EMPTIED:
            return None
        if api_key is ApiKey.METADATA and version == 0 and selection.more:
            return None  # no name asks for all
        topics = _NEW if api_key in _WRITES else selection.topics
        return _Asking(self.ids, api_key, selection, topics, unique).struct(layout(api_key, version, Direction.REQUEST))


@dataclass(frozen=True)
class _Asking:
    ids: Mapping[str, UUID]
    api_key: ApiKey
    selection: Selection
    topics: Sequence[str]
    unique: str

    def struct(self, fields: Sequence[Field], topic: str | None = None, group: str | None = None) -> Tree:
        return {each.kafka_name: self._field(each, topic, group) for each in fields}

    def _field(self, field: Field, topic: str | None, group: str | None) -> Any:
        name, of_api = field.kafka_name, _OF_API.get(self.api_key, {})
        if self.selection.more and _NULLED.get(self.api_key) == name and (field.is_nullable or name == "topics"):
            return None
        if self.selection.more and _EMPTIED.get(self.api_key) == name:
            return []
        if name in of_api:
            return of_api[name]
        if field.is_array:
            return self._array(field, topic, group)
        if name in _GIVEN and not (name == "member_id" and field.wire_type != "string"):
            return _GIVEN[name]
        return self._value(field, topic, group)

    def _array(self, field: Field, topic: str | None, group: str | None) -> Any:
        if self.selection.is_empty:
            return []
        if field.kafka_name in _GIVEN:
            return _GIVEN[field.kafka_name]
        if not field.fields:
            return list(self._names(field))
        kinds = {each.kind for each in field.fields if not each.is_array}
        if EntityKind.RESOURCE_NAME in kinds:
            return [self._resource(field, *each) for each in self._resources()]
        if kinds & {EntityKind.TOPIC, EntityKind.TOPIC_ID} and topic is None:
            return [self.struct(field.fields, each, group) for each in self.topics]
        if EntityKind.GROUP in kinds:
            return [self.struct(field.fields, topic, each) for each in self.selection.groups]
        if field.name == "forgotten_topics_data":
            return []
        return [self.struct(field.fields, topic, group)]

    def _names(self, field: Field) -> Sequence[Any]:
        match field.kind:
            case EntityKind.TOPIC:
                return self.topics
            case EntityKind.GROUP:
                return self.selection.groups
            case EntityKind.TRANSACTIONAL_ID:
                return self.selection.transactions
            case EntityKind.KEY:
                return self.selection.groups
            case _:
                return [0] if field.wire_type.startswith("int") else []

    def _resources(self) -> Sequence[tuple[int, str]]:
        topics = [(TOPIC, name) for name in self.topics]
        groups = [(GROUP, name) for name in self.selection.groups]
        return [*topics, *groups, (BROKER, "1"), (CLIENT_METRICS, "some")]

    def _resource(self, field: Field, resource_type: int, name: str) -> Tree:
        made = self.struct(field.fields)
        return made | {"resource_type": resource_type, "resource_name": name}

    def _value(self, field: Field, topic: str | None, group: str | None) -> Any:
        match field.kind:
            case EntityKind.TOPIC:
                return topic if topic is not None else self.topics[0]
            case EntityKind.TOPIC_ID:
                return self._id(topic)
            case EntityKind.GROUP | EntityKind.KEY:
                return group if group is not None else self.selection.groups[0]
            case EntityKind.TRANSACTIONAL_ID:
                return None if self.api_key is ApiKey.PRODUCE else self.selection.transactions[0]
            case EntityKind.NODE:
                return -1
        if field.fields:
            return self.struct(field.fields, topic, group)
        return _EMPTY[field.wire_type](self) if field.wire_type in _EMPTY else 0

    def _id(self, topic: str | None) -> UUID:
        if self.api_key in (ApiKey.METADATA, ApiKey.DELETE_TOPICS):
            return ZERO_ID  # they are asked for by name
        return self.ids.get(topic or "", UUID(int=77))


_EMPTY: Final[Mapping[str, Callable[[_Asking], object]]] = {
    "string": lambda asking: asking.unique,
    "bytes": lambda asking: b"",
    "records": lambda asking: batch(b"x"),
    "uuid": lambda asking: UUID(int=78),
    "bool": lambda asking: False,
    "float64": lambda asking: 0.0,
}
