"""The versions of APIs about topology descriptions (KIP-1331) that are served over a broker that has streams groups and
does not know descriptions: Kafka 4.2 and 4.3."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mesh.wire.apis import ApiKey

NEEDED: Final = ApiKey.STREAMS_GROUP_HEARTBEAT
ADDED: Final = ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE
_RAISED: Final[Mapping[ApiKey, int]] = MappingProxyType(
    {ApiKey.STREAMS_GROUP_HEARTBEAT: 1, ApiKey.STREAMS_GROUP_DESCRIBE: 1, ApiKey.DELETE_GROUPS: 3}
)


def raised(served: Mapping[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """The lowest and the highest version of each API that is to be served so, by what a broker serves. Empty where it
    knows descriptions itself, or has no streams groups."""
    if ADDED in served or NEEDED not in served:
        return {}
    versions: dict[int, tuple[int, int]] = {
        key: (served[key][0], max(highest, served[key][1])) for key, highest in _RAISED.items() if key in served
    }
    return {**versions, ADDED: (0, 0)}
