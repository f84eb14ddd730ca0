"""What Kafka's entity types do not say: the fields that hold an entity although nobody declared it, and those that hold
none, each by its name, or by its place where the name alone does not say enough."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from mesh.wire.apis import ApiKey
from mesh.wire.entities.fields import Field
from mesh.wire.entities.kinds import Kind, Side

Place: TypeAlias = tuple[ApiKey, Side, str]
"""A field of every version in which it is, by the path of names that leads to it."""

_MUST_BE_CLASSIFIED: Final = frozenset({"int32", "string", "uuid", "bytes"})
"""Types in which an entity may hide; producer ids, the only ones in others, are all declared."""

_NAMES: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "cluster_id": Kind.CLUSTER_ID,
        "topic_id": Kind.TOPIC_ID,
        "subscribed_topic_regex": Kind.TOPIC_PATTERN,
        "source_topic_regex": Kind.TOPIC_PATTERN,
        "transactional_id_pattern": Kind.TRANSACTIONAL_ID_PATTERN,
        "coordinator_keys": Kind.KEY,
        "voter_id": Kind.NODE,
    }
)

_NUMBERS: Final = """
acceptable_recovery_lag assignment_epoch authorized_operations batch_index batch_size cluster_authorized_operations
committed_leader_epoch coordinator_epoch count current_leader_epoch endpoint_information_epoch epoch generation_id
generation_id_or_member_epoch group_epoch index iterations last_fetched_epoch last_sequence leader_epoch max_bytes
max_records member_epoch min_bytes num_partitions partition partition_id partition_index partition_indexes
partition_max_bytes partitions producer_epoch response_partition_limit session_epoch session_id share_session_epoch
subscription_id telemetry_max_bytes topic_authorized_operations topology_epoch
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
"""Of ACLs, which hold for names that begin so, or for all: no names of one entity."""

_NONE: Final = frozenset(f"{_NUMBERS} {_UUIDS} {_TEXTS} {_BYTES} {_PATTERNS}".split())
"""What holds no entity wherever it stands, if `PLACES` does not say otherwise."""

_REQUESTS: Final = (
    (Kind.KEY, ApiKey.FIND_COORDINATOR, "key"),
    (Kind.KEY_TYPE, ApiKey.FIND_COORDINATOR, "key_type"),
    (Kind.SUBSCRIPTION, ApiKey.JOIN_GROUP, "protocols.metadata"),
    (Kind.ASSIGNMENT, ApiKey.SYNC_GROUP, "assignments.assignment"),
    (Kind.RESOURCE_TYPE, ApiKey.DESCRIBE_CONFIGS, "resources.resource_type"),
    (Kind.RESOURCE_NAME, ApiKey.DESCRIBE_CONFIGS, "resources.resource_name"),
    (Kind.RESOURCE_TYPE, ApiKey.ALTER_CONFIGS, "resources.resource_type"),
    (Kind.RESOURCE_NAME, ApiKey.ALTER_CONFIGS, "resources.resource_name"),
    (Kind.RESOURCE_TYPE, ApiKey.INCREMENTAL_ALTER_CONFIGS, "resources.resource_type"),
    (Kind.RESOURCE_NAME, ApiKey.INCREMENTAL_ALTER_CONFIGS, "resources.resource_name"),
    (Kind.NONE, ApiKey.JOIN_GROUP, "protocols.name"),
    (Kind.NONE, ApiKey.CREATE_TOPICS, "topics.configs.name"),
    (Kind.NONE, ApiKey.CREATE_ACLS, "creations.host creations.resource_name"),
    (Kind.NONE, ApiKey.ALTER_CONFIGS, "resources.configs.name"),
    (Kind.NONE, ApiKey.INCREMENTAL_ALTER_CONFIGS, "resources.configs.name"),
    (Kind.NONE, ApiKey.ALTER_CLIENT_QUOTAS, "entries.ops.key"),
    (Kind.NONE, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "users.name"),
    (Kind.NONE, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "deletions.name upsertions.name"),
    # A controller's own.
    (Kind.NONE, ApiKey.ADD_RAFT_VOTER, "listeners.name listeners.host"),
    # The application's own.
    (Kind.NONE, ApiKey.STREAMS_GROUP_HEARTBEAT, "client_tags.key user_endpoint.host"),
    (Kind.NONE, ApiKey.STREAMS_GROUP_HEARTBEAT, "topology.subtopologies.repartition_source_topics.topic_configs.key"),
    (Kind.NONE, ApiKey.STREAMS_GROUP_HEARTBEAT, "topology.subtopologies.state_changelog_topics.topic_configs.key"),
    (
        Kind.NONE,
        ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
        "topology_description.subtopologies.nodes.name topology_description.global_stores.source.name"
        " topology_description.global_stores.processor.name",
    ),
)
_RESPONSES: Final = (
    (Kind.HOST, ApiKey.PRODUCE, "node_endpoints.host"),
    (Kind.PORT, ApiKey.PRODUCE, "node_endpoints.port"),
    (Kind.HOST, ApiKey.FETCH, "node_endpoints.host"),
    (Kind.PORT, ApiKey.FETCH, "node_endpoints.port"),
    (Kind.HOST, ApiKey.METADATA, "brokers.host"),
    (Kind.PORT, ApiKey.METADATA, "brokers.port"),
    (Kind.HOST, ApiKey.FIND_COORDINATOR, "host coordinators.host"),
    (Kind.PORT, ApiKey.FIND_COORDINATOR, "port coordinators.port"),
    (Kind.HOST, ApiKey.DESCRIBE_CLUSTER, "brokers.host"),
    (Kind.PORT, ApiKey.DESCRIBE_CLUSTER, "brokers.port"),
    (Kind.HOST, ApiKey.SHARE_FETCH, "node_endpoints.host"),
    (Kind.PORT, ApiKey.SHARE_FETCH, "node_endpoints.port"),
    (Kind.HOST, ApiKey.SHARE_ACKNOWLEDGE, "node_endpoints.host"),
    (Kind.PORT, ApiKey.SHARE_ACKNOWLEDGE, "node_endpoints.port"),
    (Kind.ENDPOINT_TYPE, ApiKey.DESCRIBE_CLUSTER, "endpoint_type"),
    (Kind.COORDINATOR_KEY, ApiKey.FIND_COORDINATOR, "coordinators.key"),
    (Kind.COORDINATOR_ERROR, ApiKey.FIND_COORDINATOR, "error_code coordinators.error_code"),
    (Kind.NODE, ApiKey.SHARE_FETCH, "responses.partitions.current_leader.leader_id"),
    (Kind.NODE, ApiKey.SHARE_ACKNOWLEDGE, "responses.partitions.current_leader.leader_id"),
    (Kind.SUBSCRIPTION, ApiKey.JOIN_GROUP, "members.metadata"),
    (Kind.SUBSCRIPTION, ApiKey.DESCRIBE_GROUPS, "groups.members.member_metadata"),
    (Kind.ASSIGNMENT, ApiKey.SYNC_GROUP, "assignment"),
    (Kind.ASSIGNMENT, ApiKey.DESCRIBE_GROUPS, "groups.members.member_assignment"),
    (Kind.RESOURCE_TYPE, ApiKey.DESCRIBE_CONFIGS, "results.resource_type"),
    (Kind.RESOURCE_NAME, ApiKey.DESCRIBE_CONFIGS, "results.resource_name"),
    (Kind.RESOURCE_TYPE, ApiKey.ALTER_CONFIGS, "responses.resource_type"),
    (Kind.RESOURCE_NAME, ApiKey.ALTER_CONFIGS, "responses.resource_name"),
    (Kind.RESOURCE_TYPE, ApiKey.INCREMENTAL_ALTER_CONFIGS, "responses.resource_type"),
    (Kind.RESOURCE_NAME, ApiKey.INCREMENTAL_ALTER_CONFIGS, "responses.resource_name"),
    (Kind.RESOURCE_TYPE, ApiKey.LIST_CONFIG_RESOURCES, "config_resources.resource_type"),
    (Kind.RESOURCE_NAME, ApiKey.LIST_CONFIG_RESOURCES, "config_resources.resource_name"),
    # A member id.
    (Kind.NONE, ApiKey.JOIN_GROUP, "leader"),
    (Kind.NONE, ApiKey.API_VERSIONS, "finalized_features.name supported_features.name"),
    (Kind.NONE, ApiKey.CREATE_TOPICS, "topics.configs.name"),
    (Kind.NONE, ApiKey.DESCRIBE_ACLS, "resources.resource_name resources.acls.host"),
    (Kind.NONE, ApiKey.DELETE_ACLS, "filter_results.matching_acls.resource_name filter_results.matching_acls.host"),
    (Kind.NONE, ApiKey.DESCRIBE_CONFIGS, "results.configs.name results.configs.synonyms.name"),
    (Kind.NONE, ApiKey.DESCRIBE_CLIENT_QUOTAS, "entries.values.key"),
    # Controllers' own.
    (Kind.NONE, ApiKey.DESCRIBE_QUORUM, "nodes.listeners.name nodes.listeners.host"),
    # The application's own.
    (Kind.NONE, ApiKey.STREAMS_GROUP_HEARTBEAT, "partitions_by_user_endpoint.user_endpoint.host"),
    (Kind.NONE, ApiKey.STREAMS_GROUP_DESCRIBE, "groups.members.user_endpoint.host groups.members.client_tags.key"),
    (
        Kind.NONE,
        ApiKey.STREAMS_GROUP_DESCRIBE,
        "groups.topology.subtopologies.repartition_source_topics.topic_configs.key"
        " groups.topology.subtopologies.state_changelog_topics.topic_configs.key"
        " groups.topology_description.subtopologies.nodes.name"
        " groups.topology_description.global_stores.source.name"
        " groups.topology_description.global_stores.processor.name",
    ),
)

PLACES: Final[Mapping[Place, Kind]] = MappingProxyType(
    {
        (api_key, side, path): kind
        for side, rows in ((Side.REQUEST, _REQUESTS), (Side.RESPONSE, _RESPONSES))
        for kind, api_key, paths in rows
        for path in paths.split()
    }
)
"""What fields hold whose names do not say it; each of them is in some version."""


def kind_of(place: Place, field: Field) -> Kind | None:
    """What a field holds; None: nobody has said."""
    if field.kind is not None:
        return field.kind
    if (kind := PLACES.get(place)) is not None:
        return kind
    if field.wire_type not in _MUST_BE_CLASSIFIED or field.name in _NONE:
        return Kind.NONE
    return _NAMES.get(field.name)
