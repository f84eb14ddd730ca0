"""What has passed through a relay, by node and API."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.relaying import RelayedRequest

_CODES: Final = range(-1, 1_000)
"""Those of Kafka, with room for more; others are counted as one, so that no broker fills the memory with them."""


@dataclass(slots=True, eq=False)
class Passed:
    """Requests of one API to one node that were answered. Sizes in bytes, with the four of their lengths. errors: how
    many of the answers began with each error code."""

    requests: int = 0
    request_bytes: int = 0
    answer_bytes: int = 0
    seconds: float = 0.0
    errors: dict[int, int] = field(default_factory=dict)


class NodeTraffic:
    """The requests and answers of one node, by API."""

    __slots__ = ("apis",)

    def __init__(self) -> None:
        self.apis: dict[ApiKey, Passed] = {}

    def add(self, request: RelayedRequest, now: float) -> None:
        if request.is_local:
            return
        passed = self.apis.get(request.api_key)
        if passed is None:
            passed = self.apis[request.api_key] = Passed()
        passed.requests += 1
        passed.request_bytes += request.size + 4
        if request.answer_size is not None:
            passed.answer_bytes += request.answer_size + 4
        passed.seconds += now - request.began
        if request.error:
            code = request.error if request.error in _CODES else ErrorCode.UNKNOWN_SERVER_ERROR
            passed.errors[code] = passed.errors.get(code, 0) + 1


class Traffic:
    """What has passed to all nodes of a relay, and which connections to them were lost."""

    def __init__(self) -> None:
        self._nodes: dict[int, NodeTraffic] = {}
        self.lost: dict[tuple[int, str], int] = {}
        """Legs that ended by themselves, by node and reason."""

    def of(self, node: int) -> NodeTraffic:
        return self._nodes.setdefault(node, NodeTraffic())

    def __iter__(self) -> Iterator[tuple[int, NodeTraffic]]:
        yield from sorted(self._nodes.items())

    def leg_lost(self, node: int, reason: str) -> None:
        self.lost[node, reason] = self.lost.get((node, reason), 0) + 1
