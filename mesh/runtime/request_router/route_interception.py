"""The interceptors of a route, on the way of what the router of one connection sends there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from mesh.runtime.interception.client import InterceptedClient, Interceptors
from mesh.runtime.interception.fetches import FetchRequests
from mesh.runtime.interception.produces import ProduceRequests
from mesh.security.principals import Principal
from mesh.wire.apis import ApiKey
from mesh.wire.interception import FollowUp
from mesh.wire.messages import Buffer
from mesh.wire.passing import RequestHead

Send: TypeAlias = Callable[[memoryview], Awaitable[list[Buffer]]]
"""Sends a request, and returns its answer; both with their length in front. An empty one for a request without."""


class RouteInterception:
    """The interceptors of one route, for one client. clock: in seconds."""

    def __init__(
        self, interceptors: Interceptors, principal: Callable[[], Principal | None], clock: Callable[[], float]
    ) -> None:
        self._client: Final = InterceptedClient(interceptors, principal, lambda _: True)
        self._clock: Final = clock
        self._produces: Final = ProduceRequests(self._client)
        self._fetches: Final[dict[int | None, FetchRequests]] = {}
        """By node: each has its own fetch sessions."""

    async def answer(self, head: RequestHead, frame: memoryview, node: int | None, send: Send) -> list[Buffer]:
        """The answer to what is left of a request. Raises ProtocolError, and what `send` raises."""
        requests: ProduceRequests | FetchRequests
        match head.api_key:
            case ApiKey.PRODUCE:
                requests = self._produces
            case ApiKey.FETCH:
                if node not in self._fetches:
                    self._fetches[node] = FetchRequests(self._client, self._clock)
                requests = self._fetches[node]
            case _:
                return await send(frame)
        decision = requests.decide(head, frame)
        if decision is None:
            decision = await requests.judged(head, frame)
        if decision.frame is None:
            return list(decision.answer or ())
        answer = await send(memoryview(bytearray(b"".join(decision.frame))))
        if decision.change is None or not answer:
            return answer
        changed = await decision.change.changed(memoryview(b"".join(answer)))
        assert not isinstance(changed, FollowUp), "interceptors ask nothing further"
        return list(changed)
