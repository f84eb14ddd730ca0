"""The guards of all APIs that a union serves, modelled on Kafka's KafkaApis and ControllerApis. A guard has the
permissions for a whole request and for each element, and the function that adapts the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from mesh.routing.guards import answers, elements, request_checks
from mesh.routing.guards.answers import Answer
from mesh.routing.guards.elements import ElementCheck, named
from mesh.routing.guards.request_checks import RequestCheck, both, on_cluster, on_group, on_transaction
from mesh.security.rules import Operation
from mesh.wire.apis import ApiKey

__all__ = ["GUARDS", "Guard"]


@dataclass(frozen=True, slots=True)
class Guard:
    """The guard of an API. request_check: checks the whole request; None if that needs no permission. element_checks:
    check the elements of its first array, and of inner arrays; empty if they are not checked. answer: adapts the answer
    to the client."""

    request_check: RequestCheck | None = None
    element_checks: tuple[ElementCheck, ...] = ()
    answer: Answer | None = None


_READ, _WRITE, _DESCRIBE = named(Operation.READ), named(Operation.WRITE), named(Operation.DESCRIBE)
_READS_GROUP: Final = Guard(on_group(Operation.READ))
_IN_TRANSACTION: Final = both(on_transaction, on_group(Operation.READ))
_ALTERS_CLUSTER: Final = Guard(on_cluster(Operation.ALTER))
_DESCRIBES_CLUSTER: Final = Guard(on_cluster(Operation.DESCRIBE))
_ALTERS_CONFIGS: Final = Guard(element_checks=(elements.resource(Operation.ALTER_CONFIGS),))
_GROUPS: Final = Guard(element_checks=(_DESCRIBE,), answer=answers.described_groups)
_OPEN: Final = Guard()

GUARDS: Final[Mapping[ApiKey, Guard]] = MappingProxyType(
    {
        ApiKey.PRODUCE: Guard(on_transaction, (_WRITE,)),
        ApiKey.FETCH: Guard(request_checks.fetch, (elements.fetched,)),
        ApiKey.LIST_OFFSETS: Guard(element_checks=(_DESCRIBE,)),
        ApiKey.METADATA: _OPEN,  # see `mesh.routing.guards.metadata`
        ApiKey.OFFSET_COMMIT: Guard(on_group(Operation.READ), (_READ,)),
        ApiKey.OFFSET_FETCH: Guard(on_group(Operation.DESCRIBE), (_DESCRIBE, _DESCRIBE), answers.fetched_offsets),
        ApiKey.FIND_COORDINATOR: Guard(request_checks.find_coordinator, (elements.coordinator_key,)),
        ApiKey.JOIN_GROUP: _READS_GROUP,
        ApiKey.HEARTBEAT: _READS_GROUP,
        ApiKey.LEAVE_GROUP: _READS_GROUP,
        ApiKey.SYNC_GROUP: _READS_GROUP,
        ApiKey.DESCRIBE_GROUPS: Guard(element_checks=(_DESCRIBE,), answer=answers.described_classic_groups),
        ApiKey.LIST_GROUPS: Guard(answer=answers.listed_groups),
        ApiKey.SASL_HANDSHAKE: _OPEN,
        ApiKey.API_VERSIONS: _OPEN,
        ApiKey.CREATE_TOPICS: Guard(
            element_checks=(elements.unless_in_cluster(Operation.CREATE, Operation.CREATE),),
            answer=answers.created_topics,
        ),
        ApiKey.DELETE_TOPICS: Guard(element_checks=(elements.unless_in_cluster(Operation.DELETE, Operation.DELETE),)),
        ApiKey.DELETE_RECORDS: Guard(element_checks=(named(Operation.DELETE),)),
        ApiKey.INIT_PRODUCER_ID: Guard(request_checks.init_producer_id),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: Guard(
            element_checks=(elements.unless_in_cluster(Operation.CLUSTER_ACTION, Operation.DESCRIBE),)
        ),
        ApiKey.ADD_PARTITIONS_TO_TXN: Guard(on_transaction, (_WRITE,)),
        ApiKey.ADD_OFFSETS_TO_TXN: Guard(_IN_TRANSACTION),
        ApiKey.END_TXN: Guard(on_transaction),
        ApiKey.WRITE_TXN_MARKERS: Guard(request_checks.write_markers),
        ApiKey.TXN_OFFSET_COMMIT: Guard(_IN_TRANSACTION, (_READ,)),
        ApiKey.DESCRIBE_CONFIGS: Guard(element_checks=(elements.resource(Operation.DESCRIBE_CONFIGS),)),
        ApiKey.ALTER_CONFIGS: _ALTERS_CONFIGS,
        ApiKey.ALTER_REPLICA_LOG_DIRS: _ALTERS_CLUSTER,
        ApiKey.DESCRIBE_LOG_DIRS: _DESCRIBES_CLUSTER,
        ApiKey.SASL_AUTHENTICATE: _OPEN,
        ApiKey.CREATE_PARTITIONS: Guard(element_checks=(named(Operation.ALTER),)),
        ApiKey.DELETE_GROUPS: Guard(element_checks=(named(Operation.DELETE),)),
        ApiKey.ELECT_LEADERS: _ALTERS_CLUSTER,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: _ALTERS_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: _ALTERS_CLUSTER,
        ApiKey.LIST_PARTITION_REASSIGNMENTS: _DESCRIBES_CLUSTER,
        ApiKey.OFFSET_DELETE: Guard(on_group(Operation.DELETE), (_READ,)),
        ApiKey.DESCRIBE_QUORUM: _DESCRIBES_CLUSTER,
        ApiKey.DESCRIBE_CLUSTER: Guard(answer=answers.described_cluster),
        ApiKey.DESCRIBE_PRODUCERS: Guard(element_checks=(_READ,)),
        ApiKey.DESCRIBE_TRANSACTIONS: Guard(element_checks=(_DESCRIBE,), answer=answers.described_transactions),
        ApiKey.LIST_TRANSACTIONS: Guard(answer=answers.listed_transactions),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: Guard(request_checks.heartbeat),
        ApiKey.CONSUMER_GROUP_DESCRIBE: _GROUPS,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: _OPEN,
        ApiKey.PUSH_TELEMETRY: _OPEN,
        ApiKey.LIST_CONFIG_RESOURCES: Guard(on_cluster(Operation.DESCRIBE_CONFIGS)),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: Guard(element_checks=(_DESCRIBE,), answer=answers.described_topics),
        ApiKey.SHARE_GROUP_HEARTBEAT: Guard(request_checks.heartbeat),
        ApiKey.SHARE_GROUP_DESCRIBE: _GROUPS,
        ApiKey.SHARE_FETCH: Guard(on_group(Operation.READ), (_READ,)),
        ApiKey.SHARE_ACKNOWLEDGE: Guard(on_group(Operation.READ), (_READ,)),
        ApiKey.STREAMS_GROUP_HEARTBEAT: Guard(request_checks.streams_heartbeat),
        ApiKey.STREAMS_GROUP_DESCRIBE: _GROUPS,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Guard(
            element_checks=(_DESCRIBE, _DESCRIBE), answer=answers.fetched_offsets
        ),
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: Guard(on_group(Operation.READ), (_READ,)),
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: Guard(on_group(Operation.DELETE), (_READ,)),
        ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: _READS_GROUP,
    }
)
"""The guards by API. Under rules, APIs without a guard are not advertised."""
