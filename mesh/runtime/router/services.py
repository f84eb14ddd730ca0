"""What the connections of a router share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from mesh.memory import RequestMemory
from mesh.runtime.router.leaves import Leaves
from mesh.runtime.router.requests import RouterRequests


@dataclass(frozen=True, slots=True)
class RouterServices:
    """What the connections of a router share. node_of: the node that a client named in its TLS handshake, as clients
    call it. memory: for requests that are taken as a whole; None: as much as they need."""

    leaves: Leaves
    requests: RouterRequests
    node_of: Callable[[asyncio.BaseTransport], int | None]
    memory: RequestMemory | None = None
