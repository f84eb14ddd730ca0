"""The rules of the mesh for requests about topology descriptions. The mesh answers these requests in front of a
union."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from mesh.routing.guards.judge import Judge
from mesh.security.rules import Operation, Refusal, ResourceType
from mesh.wire.apis import ApiKey
from mesh.wire.passing import RequestHead


class TopologyRules:
    """The rules for one client. Implements `mesh.runtime.topologies.requests.ClientRules`. on_refused: called for each
    refused request."""

    def __init__(self, judge: Judge, on_refused: Callable[[ApiKey, bytes, Sequence[Refusal]], None]) -> None:
        self._judge: Final = judge
        self._on_refused: Final = on_refused

    def allow(self, operation: Operation, group: str) -> bool:
        return self._judge.access.allows(operation, ResourceType.GROUP, group)

    def refused(self, head: RequestHead, frame: memoryview, operation: Operation, group: str) -> None:
        self._on_refused(ApiKey(head.api_key), bytes(frame), [Refusal(operation, ResourceType.GROUP, group)])
