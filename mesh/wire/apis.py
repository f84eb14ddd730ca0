"""The APIs this layer can read and write: their keys, versions and headers.

A request header is api_key, api_version, correlation_id, client_id; from the first flexible version of an API on
(KIP-482) tagged fields follow. A response header is the correlation id, and tagged fields in flexible versions, except
that of ApiVersions, which a client must be able to read before it knows any version (KIP-511).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple


class ApiKey(IntEnum):
    """A Kafka API, by its key."""

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
    SASL_AUTHENTICATE = 36
    DELETE_GROUPS = 42
    OFFSET_DELETE = 47
    DESCRIBE_CLUSTER = 60
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69


class Versions(NamedTuple):
    """The versions of one API, both ends included, and the first one in the flexible encoding."""

    lowest: int
    highest: int
    first_flexible: int

    def all(self) -> range:
        """Every version, lowest first."""
        return range(self.lowest, self.highest + 1)


APIS: Final[Mapping[ApiKey, Versions]] = MappingProxyType(
    {
        ApiKey.PRODUCE: Versions(3, 9, 9),
        ApiKey.FETCH: Versions(4, 17, 12),
        ApiKey.LIST_OFFSETS: Versions(1, 7, 6),
        ApiKey.METADATA: Versions(0, 12, 9),
        ApiKey.OFFSET_COMMIT: Versions(2, 9, 8),
        ApiKey.OFFSET_FETCH: Versions(1, 9, 6),
        ApiKey.FIND_COORDINATOR: Versions(0, 4, 3),
        ApiKey.JOIN_GROUP: Versions(0, 9, 6),
        ApiKey.HEARTBEAT: Versions(0, 4, 4),
        ApiKey.LEAVE_GROUP: Versions(0, 5, 4),
        ApiKey.SYNC_GROUP: Versions(0, 5, 4),
        ApiKey.DESCRIBE_GROUPS: Versions(0, 6, 5),
        ApiKey.LIST_GROUPS: Versions(0, 5, 3),
        ApiKey.SASL_HANDSHAKE: Versions(0, 1, 2),
        ApiKey.API_VERSIONS: Versions(0, 4, 3),
        ApiKey.SASL_AUTHENTICATE: Versions(0, 2, 2),
        ApiKey.DELETE_GROUPS: Versions(0, 2, 2),
        ApiKey.OFFSET_DELETE: Versions(0, 0, 1),
        ApiKey.DESCRIBE_CLUSTER: Versions(0, 2, 0),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: Versions(0, 1, 0),
        ApiKey.CONSUMER_GROUP_DESCRIBE: Versions(0, 1, 0),
    }
)
"""What can be read and written. What is served may be less: see `ServerConnection`."""


def is_flexible(api_key: ApiKey, version: int) -> bool:
    """Whether this version has compact lengths and tagged fields, in its body and in its request header."""
    return version >= APIS[api_key].first_flexible


def has_tagged_response_header(api_key: ApiKey, version: int) -> bool:
    """Whether the response header is v1, which ends with tagged fields, and not v0."""
    return api_key is not ApiKey.API_VERSIONS and is_flexible(api_key, version)
