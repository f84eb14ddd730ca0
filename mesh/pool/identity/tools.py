"""Decides whether a client that asks for offsets is a tool or a consumer.

Consumers are answered with virtual offsets, tools with upstream ones. Nothing in OffsetFetch, ListOffsets or
OffsetCommit shows which of them asks: a consumer that assigns itself partitions joins no group either. A client is a
tool if

* its client.id is that of a tool (`TOOL_CLIENT_IDS`), or it has sent, less than `REMEMBERED` seconds ago, a request
  that only tools send: to list or describe groups, to fetch the offsets of all topics, or to delete something;
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
"""Patterns of the default client ids of Kafka's admin client and tools."""
REMEMBERED: Final = 60.0
"""Seconds for which a tool is remembered."""
MOST_REMEMBERED: Final = 1_000
"""The most clients that are remembered. Clients choose their names, so their number needs a limit."""


class Tools:
    """Clients that have lately sent requests that only tools send."""

    def __init__(self) -> None:
        self._last_requests: dict[ClientIdentity, float] = {}
        """The time of each client's last request that only tools send, oldest first."""

    def noticed(self, client: ClientIdentity, now: float) -> None:
        """Notes that a client has sent a request that only tools send."""
        self._last_requests.pop(client, None)
        self._last_requests[client] = now
        if len(self._last_requests) > MOST_REMEMBERED:
            del self._last_requests[next(iter(self._last_requests))]

    def is_tool(self, state: Connection, client: ClientIdentity, now: float) -> bool:
        if state.members:
            return False
        if any(fnmatch.fnmatchcase(client.id, pattern) for pattern in TOOL_CLIENT_IDS):
            return True
        asked = self._last_requests.get(client)
        return asked is not None and now - asked < REMEMBERED
