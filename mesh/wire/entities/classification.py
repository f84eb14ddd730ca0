"""Corrections of Kafka's entity types: fields that contain an undeclared entity, and fields that contain none. They are
listed by name, or by place if the name is ambiguous."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from mesh.wire.apis import ApiKey
from mesh.wire.entities.fields import Field
from mesh.wire.entities.kinds import Direction, EntityKind

FieldPath: TypeAlias = tuple[ApiKey, Direction, str]
"""A field in all versions that have it, with the path of field names to it."""

_MUST_BE_CLASSIFIED: Final = frozenset({"int32", "string", "uuid", "bytes"})
"""Wire types that may contain an entity. Producer ids, the only entities of another type, are all declared."""

_NAMES: Final[Mapping[str, EntityKind]] = MappingProxyType(
    {
        "cluster_id": EntityKind.CLUSTER_ID,
        "topic_id": EntityKind.TOPIC_ID,
        "subscribed_topic_regex": EntityKind.TOPIC_PATTERN,
        "source_topic_regex": EntityKind.TOPIC_PATTERN,
        "transactional_id_pattern": EntityKind.TRANSACTIONAL_ID_PATTERN,
        "coordinator_keys": EntityKind.KEY,
        "current_leader_epoch": EntityKind.LEADER_EPOCH,
        "last_fetched_epoch": EntityKind.RECORD_EPOCH,
        "voter_id": EntityKind.NODE,
        "partition": EntityKind.PARTITION,
        "partition_id": EntityKind.PARTITION,
        "partition_index": EntityKind.PARTITION,
        "partition_indexes": EntityKind.PARTITION,
        "partitions": EntityKind.PARTITION,
    }
)

_NUMBERS: Final = """
acceptable_recovery_lag assignment_epoch authorized_operations batch_index batch_size cluster_authorized_operations
committed_leader_epoch coordinator_epoch count endpoint_information_epoch epoch generation_id
generation_id_or_member_epoch group_epoch iterations last_sequence leader_epoch max_bytes
max_records member_epoch min_bytes num_partitions partition_max_bytes producer_epoch response_partition_limit
session_epoch session_id share_session_epoch subscription_id telemetry_max_bytes topic_authorized_operations
topology_epoch
"""
_UUIDS: Final = "client_instance_id replica_directory_id voter_directory_id"
_TEXTS: Final = """
acknowledge_error_message assignor_name batch_index_error_message client_host client_id client_software_name
client_software_version committed_metadata configuration_keys documentation entity_name entity_type error_message
feature group_instance_id group_state group_type instance_id log_dir match mechanism mechanisms member_id metadata
owner_principal_name owner_principal_type path principal principal_filter principal_name principal_type process_id
protocol_data protocol_name protocol_type rack rack_id reason requested_metrics server_assignor state_filters
states_filter status_detail stores subtopology_id successors token_id token_requester_principal_name
token_requester_principal_type transaction_state types_filter unknown_state_filters user value
"""
_BYTES: Final = "auth_bytes hmac metrics salt salted_password"
_PATTERNS: Final = "host_filter resource_name_filter"
"""Filters of ACLs for prefixes or all names: they do not name one entity."""

_NONE: Final = frozenset(f"{_NUMBERS} {_UUIDS} {_TEXTS} {_BYTES} {_PATTERNS}".split())
"""Names of fields that contain no entity anywhere, unless `PLACES` has another kind."""

_REQUESTS: Final = (
    (EntityKind.KEY, ApiKey.FIND_COORDINATOR, "key"),
    (EntityKind.KEY_TYPE, ApiKey.FIND_COORDINATOR, "key_type"),
    (EntityKind.SUBSCRIPTION, ApiKey.JOIN_GROUP, "protocols.metadata"),
    (EntityKind.ASSIGNMENT, ApiKey.SYNC_GROUP, "assignments.assignment"),
    (EntityKind.RESOURCE_TYPE, ApiKey.DESCRIBE_CONFIGS, "resources.resource_type"),
    (EntityKind.RESOURCE_NAME, ApiKey.DESCRIBE_CONFIGS, "resources.resource_name"),
    (EntityKind.RESOURCE_TYPE, ApiKey.ALTER_CONFIGS, "resources.resource_type"),
    (EntityKind.RESOURCE_NAME, ApiKey.ALTER_CONFIGS, "resources.resource_name"),
    (EntityKind.RESOURCE_TYPE, ApiKey.INCREMENTAL_ALTER_CONFIGS, "resources.resource_type"),
    (EntityKind.RESOURCE_NAME, ApiKey.INCREMENTAL_ALTER_CONFIGS, "resources.resource_name"),
    (EntityKind.NONE, ApiKey.JOIN_GROUP, "protocols.name"),
    (EntityKind.NONE, ApiKey.CREATE_TOPICS, "topics.configs.name"),
    (EntityKind.NONE, ApiKey.CREATE_ACLS, "creations.host creations.resource_name"),
    (EntityKind.NONE, ApiKey.ALTER_CONFIGS, "resources.configs.name"),
    (EntityKind.NONE, ApiKey.INCREMENTAL_ALTER_CONFIGS, "resources.configs.name"),
    (EntityKind.NONE, ApiKey.ALTER_CLIENT_QUOTAS, "entries.ops.key"),
    (EntityKind.NONE, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "users.name"),
    (EntityKind.NONE, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "deletions.name upsertions.name"),
    # Names of controllers.
    (EntityKind.NONE, ApiKey.ADD_RAFT_VOTER, "listeners.name listeners.host"),
    (EntityKind.PARTITION, ApiKey.PRODUCE, "topic_data.partition_data.index"),
    (EntityKind.RECORD_EPOCH, ApiKey.OFFSET_FOR_LEADER_EPOCH, "topics.partitions.leader_epoch"),
    (EntityKind.RECORD_EPOCH, ApiKey.OFFSET_COMMIT, "topics.partitions.committed_leader_epoch"),
    (EntityKind.RECORD_EPOCH, ApiKey.TXN_OFFSET_COMMIT, "topics.partitions.committed_leader_epoch"),
    # Names that the application chooses.
    (EntityKind.NONE, ApiKey.STREAMS_GROUP_HEARTBEAT, "client_tags.key user_endpoint.host"),
    # Names of tasks, which belong to no single topic, and partition counts.
    (
        EntityKind.NONE,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        "active_tasks.partitions standby_tasks.partitions warmup_tasks.partitions"
        " task_offsets.partition task_end_offsets.partition"
        " topology.subtopologies.state_changelog_topics.partitions"
        " topology.subtopologies.repartition_source_topics.partitions",
    ),
    (
        EntityKind.NONE,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        "topology.subtopologies.repartition_source_topics.topic_configs.key",
    ),
    (
        EntityKind.NONE,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        "topology.subtopologies.state_changelog_topics.topic_configs.key",
    ),
    (
        EntityKind.NONE,
        ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
        "topology_description.subtopologies.nodes.name topology_description.global_stores.source.name"
        " topology_description.global_stores.processor.name",
    ),
)
_RESPONSES: Final = (
    (EntityKind.HOST, ApiKey.PRODUCE, "node_endpoints.host"),
    (EntityKind.PORT, ApiKey.PRODUCE, "node_endpoints.port"),
    (EntityKind.HOST, ApiKey.FETCH, "node_endpoints.host"),
    (EntityKind.PORT, ApiKey.FETCH, "node_endpoints.port"),
    (EntityKind.HOST, ApiKey.METADATA, "brokers.host"),
    (EntityKind.PORT, ApiKey.METADATA, "brokers.port"),
    (EntityKind.HOST, ApiKey.FIND_COORDINATOR, "host coordinators.host"),
    (EntityKind.PORT, ApiKey.FIND_COORDINATOR, "port coordinators.port"),
    (EntityKind.HOST, ApiKey.DESCRIBE_CLUSTER, "brokers.host"),
    (EntityKind.PORT, ApiKey.DESCRIBE_CLUSTER, "brokers.port"),
    (EntityKind.HOST, ApiKey.SHARE_FETCH, "node_endpoints.host"),
    (EntityKind.PORT, ApiKey.SHARE_FETCH, "node_endpoints.port"),
    (EntityKind.HOST, ApiKey.SHARE_ACKNOWLEDGE, "node_endpoints.host"),
    (EntityKind.PORT, ApiKey.SHARE_ACKNOWLEDGE, "node_endpoints.port"),
    (EntityKind.ENDPOINT_TYPE, ApiKey.DESCRIBE_CLUSTER, "endpoint_type"),
    (EntityKind.COORDINATOR_KEY, ApiKey.FIND_COORDINATOR, "coordinators.key"),
    (EntityKind.COORDINATOR_ERROR, ApiKey.FIND_COORDINATOR, "error_code coordinators.error_code"),
    (EntityKind.NODE, ApiKey.SHARE_FETCH, "responses.partitions.current_leader.leader_id"),
    (EntityKind.NODE, ApiKey.SHARE_ACKNOWLEDGE, "responses.partitions.current_leader.leader_id"),
    (EntityKind.SUBSCRIPTION, ApiKey.JOIN_GROUP, "members.metadata"),
    (EntityKind.SUBSCRIPTION, ApiKey.DESCRIBE_GROUPS, "groups.members.member_metadata"),
    (EntityKind.ASSIGNMENT, ApiKey.SYNC_GROUP, "assignment"),
    (EntityKind.ASSIGNMENT, ApiKey.DESCRIBE_GROUPS, "groups.members.member_assignment"),
    (EntityKind.RESOURCE_TYPE, ApiKey.DESCRIBE_CONFIGS, "results.resource_type"),
    (EntityKind.RESOURCE_NAME, ApiKey.DESCRIBE_CONFIGS, "results.resource_name"),
    (EntityKind.RESOURCE_TYPE, ApiKey.ALTER_CONFIGS, "responses.resource_type"),
    (EntityKind.RESOURCE_NAME, ApiKey.ALTER_CONFIGS, "responses.resource_name"),
    (EntityKind.RESOURCE_TYPE, ApiKey.INCREMENTAL_ALTER_CONFIGS, "responses.resource_type"),
    (EntityKind.RESOURCE_NAME, ApiKey.INCREMENTAL_ALTER_CONFIGS, "responses.resource_name"),
    (EntityKind.RESOURCE_TYPE, ApiKey.LIST_CONFIG_RESOURCES, "config_resources.resource_type"),
    (EntityKind.RESOURCE_NAME, ApiKey.LIST_CONFIG_RESOURCES, "config_resources.resource_name"),
    # A member id.
    (EntityKind.NONE, ApiKey.JOIN_GROUP, "leader"),
    (EntityKind.NONE, ApiKey.API_VERSIONS, "finalized_features.name supported_features.name"),
    (EntityKind.NONE, ApiKey.CREATE_TOPICS, "topics.configs.name"),
    (EntityKind.NONE, ApiKey.DESCRIBE_ACLS, "resources.resource_name resources.acls.host"),
    (
        EntityKind.NONE,
        ApiKey.DELETE_ACLS,
        "filter_results.matching_acls.resource_name filter_results.matching_acls.host",
    ),
    (EntityKind.NONE, ApiKey.DESCRIBE_CONFIGS, "results.configs.name results.configs.synonyms.name"),
    (EntityKind.NONE, ApiKey.DESCRIBE_CLIENT_QUOTAS, "entries.values.key"),
    # Names of controllers.
    (EntityKind.NONE, ApiKey.DESCRIBE_QUORUM, "nodes.listeners.name nodes.listeners.host"),
    (EntityKind.PARTITION, ApiKey.PRODUCE, "responses.partition_responses.index"),
    (EntityKind.LEADER_EPOCH, ApiKey.PRODUCE, "responses.partition_responses.current_leader.leader_epoch"),
    (EntityKind.LEADER_EPOCH, ApiKey.FETCH, "responses.partitions.current_leader.leader_epoch"),
    (EntityKind.LEADER_EPOCH, ApiKey.SHARE_FETCH, "responses.partitions.current_leader.leader_epoch"),
    (EntityKind.LEADER_EPOCH, ApiKey.SHARE_ACKNOWLEDGE, "responses.partitions.current_leader.leader_epoch"),
    (EntityKind.LEADER_EPOCH, ApiKey.METADATA, "topics.partitions.leader_epoch"),
    (EntityKind.LEADER_EPOCH, ApiKey.DESCRIBE_TOPIC_PARTITIONS, "topics.partitions.leader_epoch"),
    (EntityKind.END_EPOCH, ApiKey.OFFSET_FOR_LEADER_EPOCH, "topics.partitions.leader_epoch"),
    (EntityKind.END_OFFSET, ApiKey.OFFSET_FOR_LEADER_EPOCH, "topics.partitions.end_offset"),
    # Names that the application chooses.
    (EntityKind.NONE, ApiKey.STREAMS_GROUP_HEARTBEAT, "partitions_by_user_endpoint.user_endpoint.host"),
    # Names of tasks, which belong to no single topic, and partition counts.
    (
        EntityKind.NONE,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        "active_tasks.partitions standby_tasks.partitions warmup_tasks.partitions",
    ),
    (
        EntityKind.NONE,
        ApiKey.STREAMS_GROUP_DESCRIBE,
        "groups.members.assignment.active_tasks.partitions groups.members.assignment.standby_tasks.partitions"
        " groups.members.assignment.warmup_tasks.partitions groups.members.target_assignment.active_tasks.partitions"
        " groups.members.target_assignment.standby_tasks.partitions"
        " groups.members.target_assignment.warmup_tasks.partitions"
        " groups.members.task_offsets.partition groups.members.task_end_offsets.partition"
        " groups.topology.subtopologies.state_changelog_topics.partitions"
        " groups.topology.subtopologies.repartition_source_topics.partitions",
    ),
    (
        EntityKind.NONE,
        ApiKey.STREAMS_GROUP_DESCRIBE,
        "groups.members.user_endpoint.host groups.members.client_tags.key",
    ),
    (
        EntityKind.NONE,
        ApiKey.STREAMS_GROUP_DESCRIBE,
        "groups.topology.subtopologies.repartition_source_topics.topic_configs.key"
        " groups.topology.subtopologies.state_changelog_topics.topic_configs.key"
        " groups.topology_description.subtopologies.nodes.name"
        " groups.topology_description.global_stores.source.name"
        " groups.topology_description.global_stores.processor.name",
    ),
)

PLACES: Final[Mapping[FieldPath, EntityKind]] = MappingProxyType(
    {
        (api_key, side, path): kind
        for side, rows in ((Direction.REQUEST, _REQUESTS), (Direction.RESPONSE, _RESPONSES))
        for kind, api_key, paths in rows
        for path in paths.split()
    }
)
"""The kinds of fields whose names do not determine them."""


def kind_of(place: FieldPath, field: Field) -> EntityKind | None:
    """Returns the kind of a field; None if it is unknown."""
    if field.kind is not None:
        return field.kind
    if (kind := PLACES.get(place)) is not None:
        return kind
    if field.wire_type not in _MUST_BE_CLASSIFIED or field.name in _NONE:
        return EntityKind.NONE
    return _NAMES.get(field.name)
