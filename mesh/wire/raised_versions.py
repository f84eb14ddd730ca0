"""The versions of APIs that the mesh serves in addition to a broker's, for topology descriptions (KIP-1331): with
brokers that have streams groups but no descriptions, that is, Kafka 4.2 and 4.3."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mesh.wire.apis import KNOWN_APIS, ApiKey, Versions

NEEDED: Final = ApiKey.STREAMS_GROUP_HEARTBEAT
ADDED: Final = ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE
_RAISED: Final[Mapping[ApiKey, int]] = MappingProxyType(
    {ApiKey.STREAMS_GROUP_HEARTBEAT: 1, ApiKey.STREAMS_GROUP_DESCRIBE: 1, ApiKey.DELETE_GROUPS: 3}
)


def raised(served: Mapping[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """Returns the lowest and highest version of each API with additional versions. served: the versions of the broker.
    The result is empty if the broker supports descriptions itself, or has no streams groups."""
    if ADDED in served or NEEDED not in served:
        return {}
    versions: dict[int, tuple[int, int]] = {
        key: (served[key][0], max(highest, served[key][1])) for key, highest in _RAISED.items() if key in served
    }
    return {**versions, ADDED: (0, 0)}


def raised_among(
    served: Mapping[ApiKey, Versions], advertised: Mapping[ApiKey, tuple[int, int]]
) -> Mapping[ApiKey, Versions]:
    """Returns the versions of a node, with the additional ones. advertised: the highest versions to include."""
    more = raised({int(key): (each.lowest, each.highest) for key, each in served.items()})
    added = {
        ApiKey(key): Versions(lowest, min(highest, advertised[ApiKey(key)][1]), KNOWN_APIS[ApiKey(key)].first_flexible)
        for key, (lowest, highest) in more.items()
        if ApiKey(key) in advertised
    }
    return {**served, **added}
