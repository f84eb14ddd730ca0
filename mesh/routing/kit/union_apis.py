"""The APIs that a union serves, and the clusters that get a request.

The table is complete: each API that a relay passes on has a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType
from typing import Final

from mesh.wire.apis import ApiKey, Versions
from mesh.wire.relayed_apis import RELAYED_APIS

__all__ = ["SERVED_BY_UNIONS", "UNION_APIS", "LeafDestination", "UnionApi"]


class LeafDestination(Enum):
    """The leaves that get a request.

    OWN_NODE: the leaf of the node to which the client connected. COORDINATOR: the home of each group or transaction.
    OFFSETS: the home of each group, and the owners of the topics with the offsets. OWNER: the leaf of each topic or
    resource. ALL: every leaf. DEFAULT: the home of requests without names. TERMINATED: no leaf; the mesh answers.
    NOT_SERVED: no leaf; the API is not advertised.
    """

    OWN_NODE = auto()
    COORDINATOR = auto()
    OFFSETS = auto()
    OWNER = auto()
    ALL = auto()
    DEFAULT = auto()
    TERMINATED = auto()
    NOT_SERVED = auto()


@dataclass(frozen=True, slots=True)
class UnionApi:
    """A row of the table. highest: the highest served version; None for the highest relayed one.

    reason: why the API, or a higher version of it, is not served.
    """

    destination: LeafDestination
    highest: int | None = None
    reason: str = ""


def _not_served(reason: str) -> UnionApi:
    return UnionApi(LeafDestination.NOT_SERVED, reason=reason)


_OWN_NODE: Final = UnionApi(LeafDestination.OWN_NODE)
_COORDINATOR: Final = UnionApi(LeafDestination.COORDINATOR)
_OFFSETS: Final = UnionApi(LeafDestination.OFFSETS)
_OWNER: Final = UnionApi(LeafDestination.OWNER)
_ALL: Final = UnionApi(LeafDestination.ALL)
_TERMINATED: Final = UnionApi(LeafDestination.TERMINATED)
_ACLS: Final = _not_served("the pattern of an ACL may match names in several clusters")
_TOKENS: Final = _not_served("a delegation token would belong to the mesh's own principal, in one cluster")
_QUOTAS: Final = _not_served("each cluster has its own quotas, and no answer says which cluster they belong to")
_SCRAM: Final = _not_served("users log in at the mesh, not at the clusters")
_CLUSTER: Final = _not_served("the request changes one cluster, and does not say which one")

UNION_APIS: Final[Mapping[ApiKey, UnionApi]] = MappingProxyType(
    {
        ApiKey.PRODUCE: _OWN_NODE,
        ApiKey.FETCH: _OWN_NODE,
        ApiKey.LIST_OFFSETS: _OWN_NODE,
        ApiKey.METADATA: _ALL,
        ApiKey.OFFSET_COMMIT: _OFFSETS,
        ApiKey.OFFSET_FETCH: _OFFSETS,
        ApiKey.FIND_COORDINATOR: _COORDINATOR,
        ApiKey.JOIN_GROUP: _COORDINATOR,
        ApiKey.HEARTBEAT: _COORDINATOR,
        ApiKey.LEAVE_GROUP: _COORDINATOR,
        ApiKey.SYNC_GROUP: _COORDINATOR,
        ApiKey.DESCRIBE_GROUPS: _COORDINATOR,
        ApiKey.LIST_GROUPS: _OWN_NODE,
        ApiKey.SASL_HANDSHAKE: _TERMINATED,
        ApiKey.API_VERSIONS: _TERMINATED,
        ApiKey.CREATE_TOPICS: _OWNER,
        ApiKey.DELETE_TOPICS: _OWNER,
        ApiKey.DELETE_RECORDS: _OWN_NODE,
        ApiKey.INIT_PRODUCER_ID: UnionApi(
            LeafDestination.COORDINATOR, 5, "v6 prepares two-phase transactions, which end in one cluster"
        ),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: _OWN_NODE,
        ApiKey.ADD_PARTITIONS_TO_TXN: UnionApi(
            LeafDestination.COORDINATOR, 3, "later versions are for brokers, with several transactions"
        ),
        ApiKey.ADD_OFFSETS_TO_TXN: _COORDINATOR,
        ApiKey.END_TXN: _COORDINATOR,
        ApiKey.WRITE_TXN_MARKERS: _OWN_NODE,
        ApiKey.TXN_OFFSET_COMMIT: _COORDINATOR,
        ApiKey.DESCRIBE_ACLS: _ACLS,
        ApiKey.CREATE_ACLS: _ACLS,
        ApiKey.DELETE_ACLS: _ACLS,
        ApiKey.DESCRIBE_CONFIGS: _OWNER,
        ApiKey.ALTER_CONFIGS: _OWNER,
        ApiKey.ALTER_REPLICA_LOG_DIRS: _OWN_NODE,
        ApiKey.DESCRIBE_LOG_DIRS: _OWN_NODE,
        ApiKey.SASL_AUTHENTICATE: _TERMINATED,
        ApiKey.CREATE_PARTITIONS: _OWNER,
        ApiKey.CREATE_DELEGATION_TOKEN: _TOKENS,
        ApiKey.RENEW_DELEGATION_TOKEN: _TOKENS,
        ApiKey.EXPIRE_DELEGATION_TOKEN: _TOKENS,
        ApiKey.DESCRIBE_DELEGATION_TOKEN: _TOKENS,
        ApiKey.DELETE_GROUPS: _COORDINATOR,
        ApiKey.ELECT_LEADERS: _OWNER,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: _OWNER,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: _OWNER,
        ApiKey.LIST_PARTITION_REASSIGNMENTS: _OWNER,
        ApiKey.OFFSET_DELETE: _OFFSETS,
        ApiKey.DESCRIBE_CLIENT_QUOTAS: _QUOTAS,
        ApiKey.ALTER_CLIENT_QUOTAS: _QUOTAS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _SCRAM,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _SCRAM,
        ApiKey.DESCRIBE_QUORUM: UnionApi(LeafDestination.DEFAULT),
        ApiKey.UPDATE_FEATURES: _CLUSTER,
        ApiKey.DESCRIBE_CLUSTER: _ALL,
        ApiKey.DESCRIBE_PRODUCERS: _OWN_NODE,
        ApiKey.UNREGISTER_BROKER: _CLUSTER,
        ApiKey.DESCRIBE_TRANSACTIONS: _COORDINATOR,
        ApiKey.LIST_TRANSACTIONS: _OWN_NODE,
        ApiKey.CONSUMER_GROUP_HEARTBEAT: _COORDINATOR,
        ApiKey.CONSUMER_GROUP_DESCRIBE: _COORDINATOR,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: _OWN_NODE,
        ApiKey.PUSH_TELEMETRY: _OWN_NODE,
        ApiKey.LIST_CONFIG_RESOURCES: _ALL,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: _OWNER,
        ApiKey.SHARE_GROUP_HEARTBEAT: _COORDINATOR,
        ApiKey.SHARE_GROUP_DESCRIBE: _COORDINATOR,
        ApiKey.SHARE_FETCH: _OWN_NODE,
        ApiKey.SHARE_ACKNOWLEDGE: _OWN_NODE,
        ApiKey.ADD_RAFT_VOTER: _CLUSTER,
        ApiKey.REMOVE_RAFT_VOTER: _CLUSTER,
        ApiKey.STREAMS_GROUP_HEARTBEAT: _COORDINATOR,
        ApiKey.STREAMS_GROUP_DESCRIBE: _COORDINATOR,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _OFFSETS,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: _OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: _OFFSETS,
        ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: _COORDINATOR,
        ApiKey.UNREGISTER_CONTROLLER: _CLUSTER,
    }
)


def _served() -> Mapping[ApiKey, Versions]:
    served = {}
    for api_key, row in UNION_APIS.items():
        versions = RELAYED_APIS[api_key]
        if row.destination is not LeafDestination.NOT_SERVED:
            served[api_key] = versions if row.highest is None else versions._replace(highest=row.highest)
    return served


SERVED_BY_UNIONS: Final[Mapping[ApiKey, Versions]] = MappingProxyType(_served())
"""The lowest and highest versions of the APIs that a union serves; its clusters may support fewer."""
