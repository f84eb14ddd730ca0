"""The brokers that get a request, where clients see one node.

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


class BrokerDestination(Enum):
    """The brokers that get a request.

    FETCH: the leaders of its partitions; `fetch_join` joins their answers. LEADERS: the leaders of its partitions.
    GROUP, TRANSACTION: the coordinators of its groups or transactional ids. EVERY: all brokers. CONTROLLER: the
    controller. ANY: one broker, the same each time for one client. TERMINATED: no broker; the mesh answers. NOT_SERVED:
    no broker; the API is not advertised.
    """

    FETCH = auto()
    LEADERS = auto()
    GROUP = auto()
    TRANSACTION = auto()
    EVERY = auto()
    CONTROLLER = auto()
    ANY = auto()
    TERMINATED = auto()
    NOT_SERVED = auto()


@dataclass(frozen=True, slots=True)
class OneNodeApi:
    """A row of the table. highest: the highest served version; None for the highest relayed one. reason: why the API,
    or a higher version of it, is not served."""

    destination: BrokerDestination
    highest: int | None = None
    reason: str = ""


def _all(destination: BrokerDestination, *apis: ApiKey) -> Mapping[ApiKey, OneNodeApi]:
    return dict.fromkeys(apis, OneNodeApi(destination))


def _not_served(reason: str, *apis: ApiKey) -> Mapping[ApiKey, OneNodeApi]:
    return dict.fromkeys(apis, OneNodeApi(BrokerDestination.NOT_SERVED, reason=reason))


ONE_NODE_APIS: Final[Mapping[ApiKey, OneNodeApi]] = MappingProxyType(
    {
        ApiKey.FETCH: OneNodeApi(BrokerDestination.FETCH),
        ApiKey.ADD_PARTITIONS_TO_TXN: OneNodeApi(BrokerDestination.TRANSACTION, 3, "later versions are for brokers"),
        **_all(
            BrokerDestination.LEADERS,
            ApiKey.PRODUCE,
            ApiKey.LIST_OFFSETS,
            ApiKey.DELETE_RECORDS,
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            ApiKey.WRITE_TXN_MARKERS,
            ApiKey.DESCRIBE_PRODUCERS,
        ),
        **_all(
            BrokerDestination.GROUP,
            ApiKey.OFFSET_COMMIT,
            ApiKey.OFFSET_FETCH,
            ApiKey.JOIN_GROUP,
            ApiKey.HEARTBEAT,
            ApiKey.LEAVE_GROUP,
            ApiKey.SYNC_GROUP,
            ApiKey.DESCRIBE_GROUPS,
            ApiKey.TXN_OFFSET_COMMIT,
            ApiKey.DELETE_GROUPS,
            ApiKey.OFFSET_DELETE,
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            ApiKey.SHARE_GROUP_DESCRIBE,
            ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
            ApiKey.ALTER_SHARE_GROUP_OFFSETS,
            ApiKey.DELETE_SHARE_GROUP_OFFSETS,
            ApiKey.STREAMS_GROUP_HEARTBEAT,
            ApiKey.STREAMS_GROUP_DESCRIBE,
            ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
        ),
        **_all(
            BrokerDestination.TRANSACTION,
            ApiKey.INIT_PRODUCER_ID,
            ApiKey.ADD_OFFSETS_TO_TXN,
            ApiKey.END_TXN,
            ApiKey.DESCRIBE_TRANSACTIONS,
        ),
        **_all(BrokerDestination.EVERY, ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS, ApiKey.DESCRIBE_LOG_DIRS),
        **_all(
            BrokerDestination.CONTROLLER,
            ApiKey.CREATE_TOPICS,
            ApiKey.DELETE_TOPICS,
            ApiKey.CREATE_PARTITIONS,
            ApiKey.CREATE_ACLS,
            ApiKey.DELETE_ACLS,
            ApiKey.ALTER_CONFIGS,
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            ApiKey.CREATE_DELEGATION_TOKEN,
            ApiKey.RENEW_DELEGATION_TOKEN,
            ApiKey.EXPIRE_DELEGATION_TOKEN,
            ApiKey.ELECT_LEADERS,
            ApiKey.ALTER_CLIENT_QUOTAS,
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            ApiKey.UPDATE_FEATURES,
        ),
        **_all(
            BrokerDestination.ANY,
            ApiKey.METADATA,
            ApiKey.FIND_COORDINATOR,
            ApiKey.DESCRIBE_ACLS,
            ApiKey.DESCRIBE_CONFIGS,
            ApiKey.DESCRIBE_DELEGATION_TOKEN,
            ApiKey.DESCRIBE_CLIENT_QUOTAS,
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
            ApiKey.DESCRIBE_QUORUM,
            ApiKey.DESCRIBE_CLUSTER,
            ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
            ApiKey.PUSH_TELEMETRY,
            ApiKey.LIST_CONFIG_RESOURCES,
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ),
        **_all(BrokerDestination.TERMINATED, ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE),
        **_not_served(
            "a share session is one broker's, and no request says which",
            ApiKey.SHARE_GROUP_HEARTBEAT,
            ApiKey.SHARE_FETCH,
            ApiKey.SHARE_ACKNOWLEDGE,
        ),
        **_not_served(
            "it names brokers, which clients do not see",
            ApiKey.ALTER_REPLICA_LOG_DIRS,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
            ApiKey.UNREGISTER_BROKER,
            ApiKey.ADD_RAFT_VOTER,
            ApiKey.REMOVE_RAFT_VOTER,
            ApiKey.UNREGISTER_CONTROLLER,
        ),
    }
)


def _served() -> Mapping[ApiKey, tuple[int, int]]:
    served = {}
    for api_key, row in ONE_NODE_APIS.items():
        versions: Versions = RELAYED_APIS[api_key]
        if row.destination is not BrokerDestination.NOT_SERVED:
            served[api_key] = versions.lowest, versions.highest if row.highest is None else row.highest
    return served


SERVED_BY_ONE_NODE: Final[Mapping[ApiKey, tuple[int, int]]] = MappingProxyType(_served())
"""The versions of each API that can be served; the brokers may support fewer."""
