"""What has passed through a relay, by node and API."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.relaying import RelayedRequest

_LENGTH: Final = 4
_CODES: Final = range(-1, 1_000)
"""Those of Kafka, with room for more; others are counted as one, so that no broker fills the memory with them."""

Unanswered: TypeAlias = Literal["unreachable", "timeout", "bad_answer"]


@dataclass(slots=True, eq=False)
class Passed:
    """Requests of one API to one node that were answered. Sizes in bytes, with the four of their lengths. errors: how
    many of the answers began with each error code."""

    requests: int = 0
    request_bytes: int = 0
    answer_bytes: int = 0
    seconds: float = 0.0
    errors: dict[int, int] = field(default_factory=dict)

    def add(self, other: Passed) -> None:
        self.requests += other.requests
        self.request_bytes += other.request_bytes
        self.answer_bytes += other.answer_bytes
        self.seconds += other.seconds
        for code, count in other.errors.items():
            self.errors[code] = self.errors.get(code, 0) + count


class NodeTraffic:
    """The requests and answers of one node, by API."""

    __slots__ = ("apis",)

    def __init__(self) -> None:
        self.apis: dict[ApiKey, Passed] = {}

    def add(self, request: RelayedRequest, now: float) -> None:
        if not request.is_local:
            answer_size = 0 if request.answer_size is None else request.answer_size + _LENGTH
            self.answered(request.api_key, request.size + _LENGTH, answer_size, now - request.began, request.error)

    def answered(self, api_key: ApiKey, size: int, answer_size: int, seconds: float, error: int) -> None:
        """size, answer_size: bytes with their lengths; no answer: 0. error: as `mesh.wire.first_errors` says."""
        passed = self.apis.get(api_key)
        if passed is None:
            passed = self.apis[api_key] = Passed()
        passed.requests += 1
        passed.request_bytes += size
        passed.answer_bytes += answer_size
        passed.seconds += seconds
        if error:
            code = error if error in _CODES else ErrorCode.UNKNOWN_SERVER_ERROR
            passed.errors[code] = passed.errors.get(code, 0) + 1


class Traffic:
    """What has passed to all nodes of a relay, and which connections to them were lost."""

    def __init__(self) -> None:
        self._nodes: dict[int, NodeTraffic] = {}
        self.lost: dict[tuple[int, str], int] = {}
        """Legs that ended by themselves, by node and reason."""
        self.unanswered: dict[tuple[ApiKey, Unanswered], int] = {}
        """Requests of the mesh's own connections that no node answered, or not in time."""

    def of(self, node: int) -> NodeTraffic:
        return self._nodes.setdefault(node, NodeTraffic())

    def __iter__(self) -> Iterator[tuple[int, NodeTraffic]]:
        yield from sorted(self._nodes.items())

    def not_answered(self, api_key: ApiKey, reason: Unanswered) -> None:
        self.unanswered[api_key, reason] = self.unanswered.get((api_key, reason), 0) + 1

    def leg_lost(self, node: int, reason: str) -> None:
        self.lost[node, reason] = self.lost.get((node, reason), 0) + 1
