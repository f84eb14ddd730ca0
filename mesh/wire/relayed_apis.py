"""The APIs that a relay passes on: what clients, also those of administrators, ask of brokers.

A broker's listener advertises more: the APIs of share coordinators (83-87), which brokers ask each other. What is not
here is never advertised: a version that nobody has read may carry an address or a topic id somewhere, and clients fall
back to one that is known (KIP-511).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mesh.wire.apis import KNOWN_APIS, ApiKey, Versions

_BETWEEN_SERVERS: Final = frozenset(
    {
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.ALTER_PARTITION,
        ApiKey.ENVELOPE,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.UPDATE_RAFT_VOTER,
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE,
        ApiKey.WRITE_SHARE_GROUP_STATE,
        ApiKey.DELETE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    }
)

RELAYED_APIS: Final[Mapping[ApiKey, Versions]] = MappingProxyType(
    {api_key: versions for api_key, versions in KNOWN_APIS.items() if api_key not in _BETWEEN_SERVERS}
)
"""Each in the versions whose every field is known (`mesh.wire.entities`)."""

ADVERTISED_APIS: Final[Mapping[ApiKey, tuple[int, int]]] = MappingProxyType(
    {api_key: (versions.lowest, versions.highest) for api_key, versions in RELAYED_APIS.items()}
    | {ApiKey.PRODUCE: (0, RELAYED_APIS[ApiKey.PRODUCE].highest)}
)
"""The lowest and the highest version of each as ApiVersions says them: Produce from v0 on, for librdkafka, although no
broker serves it below v3 (KAFKA-18659)."""
