"""Is it a tool or a consumer that asks for offsets? The one rule.

Consumers are answered in virtual offsets, tools in upstream ones, and nothing in OffsetFetch, ListOffsets or
OffsetCommit says which one asks: a consumer that assigns itself partitions joins no group either. A client is a tool if

* its client.id is that of one (`TOOL_CLIENT_IDS`), or it has asked, less than `REMEMBERED` seconds ago, for what only
  tools ask: to list or describe groups, the offsets of all topics, or to delete something;
* and this connection has neither joined a group nor fetched.

"A client" is a client.id of a principal on a host: tools ask the coordinator about groups on one connection, and the
broker about ends of logs on another. docs/decisions/0015-tools-see-upstream-offsets.md.
"""

from __future__ import annotations

import fnmatch
from typing import Final

from mesh.pool.common.client import ClientIdentity
from mesh.pool.identity.connections import Connection

TOOL_CLIENT_IDS: Final = ("adminclient-*", "GetOffsetShell")
"""Patterns: what Kafka's admin client and tools call themselves unless they are told otherwise."""
REMEMBERED: Final = 60.0
"""Seconds."""
MOST_REMEMBERED: Final = 1_000
"""Clients; peers choose the names."""


class Tools:
    """Clients that have lately asked for what only tools ask."""

    def __init__(self) -> None:
        self._asked: dict[ClientIdentity, float] = {}
        """When a client last asked for what only tools ask; oldest first."""

    def noticed(self, client: ClientIdentity, now: float) -> None:
        """It has just asked for what only tools ask."""
        self._asked.pop(client, None)
        self._asked[client] = now
        if len(self._asked) > MOST_REMEMBERED:
            del self._asked[next(iter(self._asked))]

    def is_tool(self, state: Connection, client: ClientIdentity, now: float) -> bool:
        if state.members:
            return False
        if any(fnmatch.fnmatchcase(client.id, pattern) for pattern in TOOL_CLIENT_IDS):
            return True
        asked = self._asked.get(client)
        return asked is not None and now - asked < REMEMBERED
