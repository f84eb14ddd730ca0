"""The guard of each API that a union serves: what is needed for a request as a whole, and for each of its elements, and
what of its answer a client may see. After Kafka's KafkaApis and ControllerApis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from mesh.routing.guards import answers, elements
from mesh.routing.guards import whole as of_all
from mesh.routing.guards.answers import Answer
from mesh.routing.guards.elements import Each, named
from mesh.routing.guards.whole import Whole, both, on_cluster, on_group, on_transaction
from mesh.security.rules import Operation
from mesh.wire.apis import ApiKey

__all__ = ["GUARDS", "Guard"]


@dataclass(frozen=True, slots=True)
class Guard:
    """A row. whole: of the request; None: it needs nothing. each: of the elements of its first array, and of those
    within; empty: they are not looked at. answer: what is done to the answer."""

    whole: Whole | None = None
    each: tuple[Each, ...] = ()
    answer: Answer | None = None


_READ, _WRITE, _DESCRIBE = named(Operation.READ), named(Operation.WRITE), named(Operation.DESCRIBE)
_READS_GROUP: Final = Guard(on_group(Operation.READ))
_IN_TRANSACTION: Final = both(on_transaction, on_group(Operation.READ))
_ALTERS_CLUSTER: Final = Guard(on_cluster(Operation.ALTER))
_DESCRIBES_CLUSTER: Final = Guard(on_cluster(Operation.DESCRIBE))
_ALTERS_CONFIGS: Final = Guard(each=(elements.resource(Operation.ALTER_CONFIGS),))
_GROUPS: Final = Guard(each=(_DESCRIBE,), answer=answers.described_groups)
_OPEN: Final = Guard()

GUARDS: Final[Mapping[ApiKey, Guard]] = MappingProxyType(
    {
        ApiKey.PRODUCE: Guard(on_transaction, (_WRITE,)),
        ApiKey.FETCH: Guard(of_all.fetch, (elements.fetched,)),
        ApiKey.LIST_OFFSETS: Guard(each=(_DESCRIBE,)),
        ApiKey.METADATA: _OPEN,  # see `mesh.routing.guards.metadata`
        ApiKey.OFFSET_COMMIT: Guard(on_group(Operation.READ), (_READ,)),
        ApiKey.OFFSET_FETCH: Guard(on_group(Operation.DESCRIBE), (_DESCRIBE, _DESCRIBE), answers.fetched_offsets),
        ApiKey.FIND_COORDINATOR: Guard(of_all.find_coordinator, (elements.coordinator_key,)),
        ApiKey.JOIN_GROUP: _READS_GROUP,
        ApiKey.HEARTBEAT: _READS_GROUP,
        ApiKey.LEAVE_GROUP: _READS_GROUP,
        ApiKey.SYNC_GROUP: _READS_GROUP,
        ApiKey.DESCRIBE_GROUPS: Guard(each=(_DESCRIBE,), answer=answers.described_classic_groups),
        ApiKey.LIST_GROUPS: Guard(answer=answers.listed_groups),
        ApiKey.SASL_HANDSHAKE: _OPEN,
        ApiKey.API_VERSIONS: _OPEN,
        ApiKey.CREATE_TOPICS: Guard(
            each=(elements.unless_in_cluster(Operation.CREATE, Operation.CREATE),), answer=answers.created_topics
        ),
        ApiKey.DELETE_TOPICS: Guard(each=(elements.unless_in_cluster(Operation.DELETE, Operation.DELETE),)),
        ApiKey.DELETE_RECORDS: Guard(each=(named(Operation.DELETE),)),
        ApiKey.INIT_PRODUCER_ID: Guard(of_all.init_producer_id),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: Guard(
            each=(elements.unless_in_cluster(Operation.CLUSTER_ACTION, Operation.DESCRIBE),)
        ),
        ApiKey.ADD_PARTITIONS_TO_TXN: Guard(on_transaction, (_WRITE,)),
        ApiKey.ADD_OFFSETS_TO_TXN: Guard(_IN_TRANSACTION),
        ApiKey.END_TXN: Guard(on_transaction),
        ApiKey.WRITE_TXN_MARKERS: Guard(of_all.write_markers),
        ApiKey.TXN_OFFSET_COMMIT: Guard(_IN_TRANSACTION, (_READ,)),
        ApiKey.DESCRIBE_CONFIGS: Guard(each=(elements.resource(Operation.DESCRIBE_CONFIGS),)),
        ApiKey.ALTER_CONFIGS: _ALTERS_CONFIGS,
        ApiKey.ALTER_REPLICA_LOG_DIRS: _ALTERS_CLUSTER,
        ApiKey.DESCRIBE_LOG_DIRS: _DESCRIBES_CLUSTER,
        ApiKey.SASL_AUTHENTICATE: _OPEN,
        ApiKey.CREATE_PARTITIONS: Guard(each=(named(Operation.ALTER),)),
        ApiKey.DELETE_GROUPS: Guard(each=(named(Operation.DELETE),)),
        ApiKey.ELECT_LEADERS: _ALTERS_CLUSTER,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: _ALTERS_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: _ALTERS_CLUSTER,
        ApiKey.LIST_PARTITION_REASSIGNMENTS: _DESCRIBES_CLUSTER,
        ApiKey.OFFSET_DELETE: Guard(on_group(Operation.DELETE), (_READ,)),
        ApiKey.DESCRIBE_QUORUM: _DESCRIBES_CLUSTER,
        ApiKey.DESCRIBE_CLUSTER: Guard(answer=answers.described_cluster),
        ApiKey.DESCRIBE_PRODUCERS: Guard(each=(_READ,)),
        ApiKey.DESCRIBE_TRANSACTIONS: Guard(each=(_DESCRIBE,), answer=answers.described_transactions),
        ApiKey.LIST_TRANSACTIONS: Guard(answer=answers.listed_transactions),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: Guard(of_all.heartbeat),
        ApiKey.CONSUMER_GROUP_DESCRIBE: _GROUPS,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: _OPEN,
        ApiKey.PUSH_TELEMETRY: _OPEN,
        ApiKey.LIST_CONFIG_RESOURCES: Guard(on_cluster(Operation.DESCRIBE_CONFIGS)),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: Guard(each=(_DESCRIBE,), answer=answers.described_topics),
        ApiKey.SHARE_GROUP_HEARTBEAT: Guard(of_all.heartbeat),
        ApiKey.SHARE_GROUP_DESCRIBE: _GROUPS,
        ApiKey.SHARE_FETCH: Guard(on_group(Operation.READ), (_READ,)),
        ApiKey.SHARE_ACKNOWLEDGE: Guard(on_group(Operation.READ), (_READ,)),
        ApiKey.STREAMS_GROUP_HEARTBEAT: Guard(of_all.streams_heartbeat),
        ApiKey.STREAMS_GROUP_DESCRIBE: _GROUPS,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Guard(each=(_DESCRIBE, _DESCRIBE), answer=answers.fetched_offsets),
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: Guard(on_group(Operation.READ), (_READ,)),
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: Guard(on_group(Operation.DELETE), (_READ,)),
        ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: _READS_GROUP,
    }
)
"""No API is advertised under rules that has none."""
