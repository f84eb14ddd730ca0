"""The gate in front of topics that are being cut over: requests that write to a topic wait until it is decided which
cluster has it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from math import inf
from typing import Final, Protocol
from uuid import UUID

from mesh.routing.moves.translation import WRITING, topics_in
from mesh.wire.apis import ApiKey
from mesh.wire.relaying import RelayedRequest
from mesh.wire.trees import Tree

CHECK_INTERVAL: Final = 0.005
"""Seconds between two checks of requests in flight."""
MAY_ARRIVE: Final = 30.0
"""Seconds for which a broker may still carry out a request that the mesh will see no answer to."""


class WritingClient(Protocol):
    """The connection of a client, as the gate sees it. One that closes with requests under way calls
    `WriteGate.passed_unanswered` before."""

    @property
    def is_open(self) -> bool: ...

    def under_way(self) -> Iterable[RelayedRequest]:
        """Returns the requests that write, have passed, and are not answered yet."""


class WriteGate:
    """The gate of one virtual cluster. Implements `mesh.routing.moves.translation.Held`.

    clients: returns all open connections. now: returns the time in seconds. has_unaccepted_offsets: True if some
    committed offsets of groups are known only to the moves.
    """

    def __init__(self, clients: Callable[[], Iterable[WritingClient]], now: Callable[[], float]) -> None:
        self._clients: Final = clients
        self._now: Final = now
        self._known = asyncio.Event()
        self._held: dict[str, asyncio.Event] = {}
        self._ids: dict[UUID, str] = {}
        self._working: set[object] = set()
        self._settled_at = -inf
        """The time at which all requests without an answer have arrived, or never will."""
        self.has_unaccepted_offsets = False

    # Traffic

    @property
    def is_known(self) -> bool:
        return self._known.is_set()

    @property
    def has_any(self) -> bool:
        return bool(self._held)

    def holds(self, topic: str | UUID) -> bool:
        return self._named(topic) in self._held

    def passed_unanswered(self) -> None:
        """Notes that a writing request has passed of which the mesh will never learn whether it has arrived."""
        self._settled_at = self._now() + MAY_ARRIVE

    @contextmanager
    def working(self, api_key: ApiKey) -> Iterator[None]:
        """Counts a request as unfinished, for the duration of a `with` statement. It is for requests that go over other
        connections than their client's own. A request that ends with an exception may still arrive at its broker."""
        if api_key not in WRITING:
            yield
            return
        work = object()
        self._working.add(work)
        try:
            yield
        except BaseException:
            self.passed_unanswered()
            raise
        finally:
            self._working.discard(work)

    async def wait_to_pass(self, api_key: ApiKey, request: Tree) -> None:
        """Returns when the places of topics are known, and no topic that the request writes to is held."""
        await self._known.wait()
        if api_key in WRITING:
            while waiting := [self._held[topic] for topic in self._topics(api_key, request) if topic in self._held]:
                await waiting[0].wait()

    # Called by moves

    def know(self) -> None:
        """Notes that the places of topics are known."""
        self._known.set()

    def hold(self, topic: str, ids: Iterable[UUID]) -> None:
        """Holds requests that write to a topic. ids: the ids by which clients may know the topic."""
        self._held.setdefault(topic, asyncio.Event())
        self._ids |= dict.fromkeys(ids, topic)

    def release(self, topic: str) -> None:
        if (held := self._held.pop(topic, None)) is not None:
            held.set()

    async def drained(self) -> bool:
        """Returns when all requests that had passed are answered. Returns False if some of them will never be answered,
        and may still arrive."""
        work = set(self._working)
        under_way = [(client, each) for client in self._clients() for each in client.under_way()]
        while under_way or work:
            work &= self._working
            now = {id(each) for client in {one for one, _ in under_way} for each in client.under_way()}
            under_way = [(client, each) for client, each in under_way if client.is_open and id(each) in now]
            if under_way or work:
                await asyncio.sleep(CHECK_INTERVAL)
        return self._now() >= self._settled_at

    def _topics(self, api_key: ApiKey, request: Tree) -> Iterator[str]:
        return (self._named(topic) for topic in topics_in(api_key, request))

    def _named(self, topic: str | UUID) -> str:
        return topic if isinstance(topic, str) else self._ids.get(topic, "")
