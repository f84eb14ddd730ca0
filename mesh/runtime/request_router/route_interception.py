"""The interceptors of a route, which see what the router of one connection sends there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeAlias

from mesh.runtime.interception.client import InterceptedClient, Interceptors
from mesh.runtime.interception.fetches import FetchRequests
from mesh.runtime.interception.produces import ProduceRequests
from mesh.security.principals import Principal
from mesh.wire.apis import ApiKey
from mesh.wire.interception import Decision, FollowUp
from mesh.wire.messages import Buffer
from mesh.wire.passing import RequestHead

Send: TypeAlias = Callable[[memoryview], Coroutine[Any, Any, list[Buffer]]]
"""Sends a request and returns its response, both with their lengths. The result is empty for a request without a
response."""


class RouteInterception:
    """The interceptors of one route, for one client. clock: returns the time in seconds."""

    def __init__(
        self, interceptors: Interceptors, principal: Callable[[], Principal | None], clock: Callable[[], float]
    ) -> None:
        self._client: Final = InterceptedClient(interceptors, principal, lambda _: True)
        self._clock: Final = clock
        self._produces: Final = ProduceRequests(self._client)
        self._fetches: Final[dict[int | None, FetchRequests]] = {}
        """The Fetches to each node, which has fetch sessions of its own."""
        self._producing: Final = asyncio.Lock()
        """Held from the beginning of a Produce until it is sent: interceptors must not change the order of records."""

    async def answer(self, head: RequestHead, frame: memoryview, node: int | None, send: Send) -> list[Buffer]:
        """Sends a request, as its interceptors leave it, and returns the response. Raises ProtocolError, and the
        exceptions of `send`."""
        match head.api_key:
            case ApiKey.PRODUCE:
                async with self._producing:
                    decision = await _decision(self._produces, head, frame)
                    sending = _begin(decision, send)
            case ApiKey.FETCH:
                if node not in self._fetches:
                    self._fetches[node] = FetchRequests(self._client, self._clock)
                decision = await _decision(self._fetches[node], head, frame)
                sending = _begin(decision, send)
            case _:
                return await send(frame)
        if sending is None:
            return list(decision.answer or ())
        answer = await sending
        if decision.check is not None:
            for buffer in answer:
                decision.check.feed(buffer)
        if decision.change is None or not answer:
            return answer
        changed = await decision.change.changed(memoryview(b"".join(answer)))
        assert not isinstance(changed, FollowUp), "interceptors ask nothing further"
        return list(changed)


async def _decision(requests: ProduceRequests | FetchRequests, head: RequestHead, frame: memoryview) -> Decision:
    decision = requests.decide(head, frame)
    return await requests.decide_later(head, frame) if decision is None else decision


def _begin(decision: Decision, send: Send) -> asyncio.Task[list[Buffer]] | None:
    """Begins to send what is left of a request; None if nothing is. Requests are sent in the order of these calls."""
    if decision.frame is None:
        return None
    sent = send(memoryview(bytearray(b"".join(decision.frame))))
    return asyncio.get_running_loop().create_task(sent, name="a request of a route")
