"""A store that has been read, for a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType

from mesh.upstream.store.store import TopicStore
from mesh.upstream.store.topic import StorePlace
from tests.upstream.harness import TIMEOUT


class Told:
    """The events of a store, and a way to wait for it."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self._changed = asyncio.Event()

    def __call__(self, reason: str) -> None:
        self.reasons.append(reason)
        self._changed.set()

    async def until(self, is_there: Callable[[str], bool]) -> str:
        """The last reason, as soon as the condition holds."""
        async with asyncio.timeout(TIMEOUT):
            while not self.reasons or not is_there(self.reasons[-1]):
                self._changed.clear()
                await self._changed.wait()
        return self.reasons[-1]


@asynccontextmanager
async def opening(
    bootstrap_servers: str, topic: str, *, create: bool = False, properties: Mapping[str, str] = MappingProxyType({})
) -> AsyncIterator[tuple[TopicStore, Told]]:
    """A store that has not been read yet."""
    told = Told()
    store = TopicStore(StorePlace("eu", bootstrap_servers, properties, topic, create), told)
    try:
        yield store, told
    finally:
        await store.close()


@asynccontextmanager
async def opened(
    bootstrap_servers: str, topic: str, *, create: bool = False, properties: Mapping[str, str] = MappingProxyType({})
) -> AsyncIterator[TopicStore]:
    """A store that has been read."""
    async with opening(bootstrap_servers, topic, create=create, properties=properties) as (store, told):
        await told.until(lambda reason: reason == "")
        yield store
