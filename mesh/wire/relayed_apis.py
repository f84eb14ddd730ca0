"""The APIs that a relay passes on: those of clients and of administrators.

A broker's listener advertises more APIs, those of share coordinators (83-87), which only brokers use. An API or version
that is not listed here is never advertised: an unknown version may contain an address or a topic id, and clients fall
back to a known version (KIP-511).
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
"""The versions in which every field is known (`mesh.wire.entities`)."""

ADVERTISED_APIS: Final[Mapping[ApiKey, tuple[int, int]]] = MappingProxyType(
    {api_key: (versions.lowest, versions.highest) for api_key, versions in RELAYED_APIS.items()}
    | {ApiKey.PRODUCE: (0, RELAYED_APIS[ApiKey.PRODUCE].highest)}
)
"""The lowest and highest versions in ApiVersions. Produce is advertised from v0, for librdkafka, although no broker
serves it below v3 (KAFKA-18659)."""
