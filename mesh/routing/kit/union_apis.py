"""Which APIs a union of clusters serves, and which of its clusters have a part in a request.

Closed: each API that a relay passes on has its row here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType
from typing import Final

from mesh.wire.apis import ApiKey, Versions
from mesh.wire.relayed_apis import RELAYED_APIS

__all__ = ["SERVED_BY_UNIONS", "UNION_APIS", "UnionApi", "Way"]


class Way(Enum):
    """Which leaves a request goes to.

    OWN_NODE: that of the node which the client has connected to. COORDINATOR: the home of each group or transaction.
    OFFSETS: the home of each group, and the owners of the topics whose offsets it is about. OWNER: that of each topic
    or resource. ALL: every one. DEFAULT: that of what has no name. TERMINATED: none, the mesh answers. NOT_SERVED:
    none, it is not advertised.
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
    """A row. highest: the last version that is served; None: the last one that is relayed.

    reason: why it is not served, or in no later version.
    """

    way: Way
    highest: int | None = None
    reason: str = ""


def _not_served(reason: str) -> UnionApi:
    return UnionApi(Way.NOT_SERVED, reason=reason)


_OWN_NODE: Final = UnionApi(Way.OWN_NODE)
_COORDINATOR: Final = UnionApi(Way.COORDINATOR)
_OFFSETS: Final = UnionApi(Way.OFFSETS)
_OWNER: Final = UnionApi(Way.OWNER)
_ALL: Final = UnionApi(Way.ALL)
_TERMINATED: Final = UnionApi(Way.TERMINATED)
_ACLS: Final = _not_served("the patterns of an ACL hold for names of several clusters")
_TOKENS: Final = _not_served("a delegation token would be one of the mesh's own principal, in one cluster")
_QUOTAS: Final = _not_served("each cluster has quotas of its own, and no answer says of which one they are")
_SCRAM: Final = _not_served("users log in at the mesh, not at the clusters")
_CLUSTER: Final = _not_served("it changes one cluster, and no request says which one")

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
            Way.COORDINATOR, 5, "v6 prepares transactions of two phases, which end in one cluster"
        ),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: _OWN_NODE,
        ApiKey.ADD_PARTITIONS_TO_TXN: UnionApi(
            Way.COORDINATOR, 3, "later versions are those of brokers, with several transactions"
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
        ApiKey.DESCRIBE_QUORUM: UnionApi(Way.DEFAULT),
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
        if row.way is not Way.NOT_SERVED:
            served[api_key] = versions if row.highest is None else versions._replace(highest=row.highest)
    return served


SERVED_BY_UNIONS: Final[Mapping[ApiKey, Versions]] = MappingProxyType(_served())
"""Each API of a union in the versions that it has at most; its clusters may have fewer."""
