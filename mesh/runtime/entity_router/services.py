"""Services shared by the connections of a router."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from mesh.memory import RequestMemory
from mesh.runtime.entity_router.leaves import Leaves
from mesh.runtime.entity_router.requests import RouterRequests


@dataclass(frozen=True, slots=True)
class RouterServices:
    """The services that the connections of a router share. node_of: returns the node that a client named in its TLS
    handshake, as clients see it. memory: a limit for requests that are read as a whole; None for no limit."""

    leaves: Leaves
    requests: RouterRequests
    node_of: Callable[[asyncio.BaseTransport], int | None]
    memory: RequestMemory | None = None
