"""The traffic of a relay, by node and API."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.relaying import RelayedRequest

_LENGTH: Final = 4
_CODES: Final = range(-1, 1_000)
"""Kafka's error codes, with room for more. Codes beyond them are counted as one, so that no broker fills the memory."""

Unanswered: TypeAlias = Literal["unreachable", "timeout", "bad_answer"]


@dataclass(slots=True, eq=False)
class Passed:
    """Answered requests of one API to one node. Sizes are in bytes, with the four bytes of each length. errors: the
    number of responses that began with each error code."""

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
    """The requests and responses of one node, by API."""

    __slots__ = ("apis",)

    def __init__(self) -> None:
        self.apis: dict[ApiKey, Passed] = {}

    def add(self, request: RelayedRequest, now: float) -> None:
        if not request.is_local:
            answer_size = 0 if request.answer_size is None else request.answer_size + _LENGTH
            self.answered(request.api_key, request.size + _LENGTH, answer_size, now - request.began, request.error)

    def answered(self, api_key: ApiKey, size: int, answer_size: int, seconds: float, error: int) -> None:
        """Counts an answered request. size, answer_size: bytes with their lengths; an answer_size of 0 means no
        response. error: as in `mesh.wire.first_errors`."""
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
    """The traffic to all nodes of a relay, and the lost connections to them."""

    def __init__(self) -> None:
        self._nodes: dict[int, NodeTraffic] = {}
        self.lost: dict[tuple[int, str], int] = {}
        """The number of legs that were lost, by node and reason."""
        self.unanswered: dict[tuple[ApiKey, Unanswered], int] = {}
        """The number of requests on the mesh's own connections that no node answered in time, by API and reason."""

    def of(self, node: int) -> NodeTraffic:
        return self._nodes.setdefault(node, NodeTraffic())

    def __iter__(self) -> Iterator[tuple[int, NodeTraffic]]:
        yield from sorted(self._nodes.items())

    def not_answered(self, api_key: ApiKey, reason: Unanswered) -> None:
        self.unanswered[api_key, reason] = self.unanswered.get((api_key, reason), 0) + 1

    def leg_lost(self, node: int, reason: str) -> None:
        self.lost[node, reason] = self.lost.get((node, reason), 0) + 1
