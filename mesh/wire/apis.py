"""Kafka's APIs: their keys, versions and headers, and the versions that this package can decode and encode.

A request header contains api_key, api_version, correlation_id and client_id; in flexible versions (KIP-482) tagged
fields follow. A response header contains the correlation id, and in flexible versions tagged fields. The response
header of ApiVersions has none, because a client must be able to read it before it knows any version (KIP-511).

The header of a request can be read for every known API, its body only for the APIs in `APIS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple


class ApiKey(IntEnum):
    """A Kafka API, by its key.

    Keys 4 to 7 are missing: they were requests between brokers and the controller with ZooKeeper, and Kafka 4 has no
    version of them.
    """

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = 93
    UNREGISTER_CONTROLLER = 94


class Versions(NamedTuple):
    """The lowest and highest version of one API, and its first version in the flexible encoding: the version after the
    highest if none is flexible."""

    lowest: int
    highest: int
    first_flexible: int

    def all(self) -> range:
        """Returns all versions, lowest first."""
        return range(self.lowest, self.highest + 1)


KNOWN_APIS: Final[Mapping[ApiKey, Versions]] = MappingProxyType(
    {
        ApiKey.PRODUCE: Versions(3, 13, 9),
        ApiKey.FETCH: Versions(4, 18, 12),
        ApiKey.LIST_OFFSETS: Versions(1, 11, 6),
        ApiKey.METADATA: Versions(0, 13, 9),
        ApiKey.OFFSET_COMMIT: Versions(2, 10, 8),
        ApiKey.OFFSET_FETCH: Versions(1, 10, 6),
        ApiKey.FIND_COORDINATOR: Versions(0, 6, 3),
        ApiKey.JOIN_GROUP: Versions(0, 9, 6),
        ApiKey.HEARTBEAT: Versions(0, 4, 4),
        ApiKey.LEAVE_GROUP: Versions(0, 5, 4),
        ApiKey.SYNC_GROUP: Versions(0, 5, 4),
        ApiKey.DESCRIBE_GROUPS: Versions(0, 6, 5),
        ApiKey.LIST_GROUPS: Versions(0, 5, 3),
        ApiKey.SASL_HANDSHAKE: Versions(0, 1, 2),
        ApiKey.API_VERSIONS: Versions(0, 5, 3),
        ApiKey.CREATE_TOPICS: Versions(2, 7, 5),
        ApiKey.DELETE_TOPICS: Versions(1, 6, 4),
        ApiKey.DELETE_RECORDS: Versions(0, 2, 2),
        ApiKey.INIT_PRODUCER_ID: Versions(0, 6, 2),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: Versions(2, 4, 4),
        ApiKey.ADD_PARTITIONS_TO_TXN: Versions(0, 5, 3),
        ApiKey.ADD_OFFSETS_TO_TXN: Versions(0, 4, 3),
        ApiKey.END_TXN: Versions(0, 5, 3),
        ApiKey.WRITE_TXN_MARKERS: Versions(1, 2, 1),
        ApiKey.TXN_OFFSET_COMMIT: Versions(0, 6, 3),
        ApiKey.DESCRIBE_ACLS: Versions(1, 3, 2),
        ApiKey.CREATE_ACLS: Versions(1, 3, 2),
        ApiKey.DELETE_ACLS: Versions(1, 3, 2),
        ApiKey.DESCRIBE_CONFIGS: Versions(1, 4, 4),
        ApiKey.ALTER_CONFIGS: Versions(0, 2, 2),
        ApiKey.ALTER_REPLICA_LOG_DIRS: Versions(1, 2, 2),
        ApiKey.DESCRIBE_LOG_DIRS: Versions(1, 5, 2),
        ApiKey.SASL_AUTHENTICATE: Versions(0, 2, 2),
        ApiKey.CREATE_PARTITIONS: Versions(0, 3, 2),
        ApiKey.CREATE_DELEGATION_TOKEN: Versions(1, 3, 2),
        ApiKey.RENEW_DELEGATION_TOKEN: Versions(1, 2, 2),
        ApiKey.EXPIRE_DELEGATION_TOKEN: Versions(1, 2, 2),
        ApiKey.DESCRIBE_DELEGATION_TOKEN: Versions(1, 3, 2),
        ApiKey.DELETE_GROUPS: Versions(0, 3, 2),
        ApiKey.ELECT_LEADERS: Versions(0, 2, 2),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: Versions(0, 1, 1),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: Versions(0, 1, 0),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: Versions(0, 0, 0),
        ApiKey.OFFSET_DELETE: Versions(0, 0, 1),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: Versions(0, 1, 1),
        ApiKey.ALTER_CLIENT_QUOTAS: Versions(0, 1, 1),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Versions(0, 0, 0),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Versions(0, 0, 0),
        ApiKey.VOTE: Versions(0, 2, 0),
        ApiKey.BEGIN_QUORUM_EPOCH: Versions(0, 1, 1),
        ApiKey.END_QUORUM_EPOCH: Versions(0, 1, 1),
        ApiKey.DESCRIBE_QUORUM: Versions(0, 2, 0),
        ApiKey.ALTER_PARTITION: Versions(2, 3, 0),
        ApiKey.UPDATE_FEATURES: Versions(0, 2, 0),
        ApiKey.ENVELOPE: Versions(0, 0, 0),
        ApiKey.FETCH_SNAPSHOT: Versions(0, 1, 0),
        ApiKey.DESCRIBE_CLUSTER: Versions(0, 2, 0),
        ApiKey.DESCRIBE_PRODUCERS: Versions(0, 0, 0),
        ApiKey.BROKER_REGISTRATION: Versions(0, 4, 0),
        ApiKey.BROKER_HEARTBEAT: Versions(0, 2, 0),
        ApiKey.UNREGISTER_BROKER: Versions(0, 0, 0),
        ApiKey.DESCRIBE_TRANSACTIONS: Versions(0, 0, 0),
        ApiKey.LIST_TRANSACTIONS: Versions(0, 2, 0),
        ApiKey.ALLOCATE_PRODUCER_IDS: Versions(0, 0, 0),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: Versions(0, 1, 0),
        ApiKey.CONSUMER_GROUP_DESCRIBE: Versions(0, 1, 0),
        ApiKey.CONTROLLER_REGISTRATION: Versions(0, 0, 0),
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: Versions(0, 0, 0),
        ApiKey.PUSH_TELEMETRY: Versions(0, 0, 0),
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: Versions(0, 0, 0),
        ApiKey.LIST_CONFIG_RESOURCES: Versions(0, 1, 0),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: Versions(0, 0, 0),
        ApiKey.SHARE_GROUP_HEARTBEAT: Versions(1, 1, 0),
        ApiKey.SHARE_GROUP_DESCRIBE: Versions(1, 1, 0),
        ApiKey.SHARE_FETCH: Versions(1, 2, 0),
        ApiKey.SHARE_ACKNOWLEDGE: Versions(1, 2, 0),
        ApiKey.ADD_RAFT_VOTER: Versions(0, 1, 0),
        ApiKey.REMOVE_RAFT_VOTER: Versions(0, 0, 0),
        ApiKey.UPDATE_RAFT_VOTER: Versions(0, 0, 0),
        ApiKey.INITIALIZE_SHARE_GROUP_STATE: Versions(0, 0, 0),
        ApiKey.READ_SHARE_GROUP_STATE: Versions(0, 0, 0),
        ApiKey.WRITE_SHARE_GROUP_STATE: Versions(0, 1, 0),
        ApiKey.DELETE_SHARE_GROUP_STATE: Versions(0, 0, 0),
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: Versions(0, 1, 0),
        ApiKey.STREAMS_GROUP_HEARTBEAT: Versions(0, 1, 0),
        ApiKey.STREAMS_GROUP_DESCRIBE: Versions(0, 1, 0),
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Versions(0, 1, 0),
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: Versions(0, 0, 0),
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: Versions(0, 0, 0),
        ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: Versions(0, 0, 0),
        ApiKey.UNREGISTER_CONTROLLER: Versions(0, 0, 0),
    }
)
"""All APIs of Apache Kafka 4.4, of brokers and of controllers (clients/src/main/resources/common/message).

The highest version of InitProducerId is not stable: brokers serve it only with unstable.api.versions.enable. Brokers
advertise Produce from v0 for librdkafka, but serve it from v3 (KAFKA-18659).
"""

APIS: Final[Mapping[ApiKey, Versions]] = MappingProxyType(
    {
        api_key: Versions(lowest, highest, KNOWN_APIS[api_key].first_flexible)
        for api_key, lowest, highest in (
            (ApiKey.PRODUCE, 3, 9),
            (ApiKey.FETCH, 4, 17),
            (ApiKey.LIST_OFFSETS, 1, 7),
            (ApiKey.METADATA, 0, 12),
            (ApiKey.OFFSET_COMMIT, 2, 9),
            (ApiKey.OFFSET_FETCH, 1, 9),
            (ApiKey.FIND_COORDINATOR, 0, 4),
            (ApiKey.JOIN_GROUP, 0, 9),
            (ApiKey.HEARTBEAT, 0, 4),
            (ApiKey.LEAVE_GROUP, 0, 5),
            (ApiKey.SYNC_GROUP, 0, 5),
            (ApiKey.DESCRIBE_GROUPS, 0, 6),
            (ApiKey.LIST_GROUPS, 0, 5),
            (ApiKey.SASL_HANDSHAKE, 0, 1),
            (ApiKey.API_VERSIONS, 0, 4),
            (ApiKey.DESCRIBE_CONFIGS, 1, 4),
            (ApiKey.SASL_AUTHENTICATE, 0, 2),
            (ApiKey.DELETE_GROUPS, 0, 2),
            (ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1),
            (ApiKey.OFFSET_DELETE, 0, 0),
            (ApiKey.DESCRIBE_CLUSTER, 0, 2),
            (ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1),
            (ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1),
            (ApiKey.LIST_CONFIG_RESOURCES, 0, 1),
            (ApiKey.SHARE_GROUP_HEARTBEAT, 1, 1),
            (ApiKey.SHARE_GROUP_DESCRIBE, 1, 1),
            (ApiKey.SHARE_FETCH, 1, 2),
            (ApiKey.SHARE_ACKNOWLEDGE, 1, 2),
            (ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, 1),
            (ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, 0),
            (ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, 0),
        )
    }
)
"""The APIs and versions that can be decoded and encoded as messages. A listener may serve fewer: see
`ServerConnection`."""


def is_flexible(api_key: ApiKey, version: int) -> bool:
    """Returns True if this version has compact lengths and tagged fields in its body, and a request header v2 instead
    of v1."""
    return version >= KNOWN_APIS[api_key].first_flexible


def has_tagged_response_header(api_key: ApiKey, version: int) -> bool:
    """Returns True if the response header is v1, which ends with tagged fields, and not v0."""
    return api_key is not ApiKey.API_VERSIONS and is_flexible(api_key, version)
