"""The engines of one virtual cluster's pools: one for each pool and upstream cluster.

A pool that ends leaves its upstream groups, which takes a while; a new pool of the same group waits for that, so that a
process is never in one upstream group twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeAlias

from mesh.pool.effects import GroupId
from mesh.pool.pool import Pool
from mesh.records.spans import ClusterName, UpstreamPartition
from mesh.server.logs import get_logger
from mesh.upstream.engine import CommitPosition, Engine, EngineEvent

log = get_logger(__name__)

EngineFactory: TypeAlias = Callable[[GroupId, ClusterName, Callable[[EngineEvent], None]], Engine]
PoolEvent: TypeAlias = Callable[[Pool, ClusterName, EngineEvent], None]
Command: TypeAlias = Callable[[Engine], None]
Key: TypeAlias = tuple[GroupId, ClusterName]


class Engines:
    """create: makes an engine that tells what happens to the function it is given; tell: passes it to its pool."""

    def __init__(self, create: EngineFactory, tell: PoolEvent) -> None:
        self._create = create
        self._tell = tell
        self._engines: dict[Key, Engine] = {}
        self._waiting: dict[Key, tuple[Pool, list[Command]]] = {}
        self._closing: dict[Key, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._engines) + len(self._closing)

    def open(self, pool: Pool, cluster: ClusterName) -> None:
        """Make the engine, unless it is there; commands wait while an older one of the same group is leaving."""
        key = (pool.group, cluster)
        if key in self._engines or key in self._waiting:
            return
        if key in self._closing:
            self._waiting[key] = (pool, [])
        else:
            self._engines[key] = self._create(pool.group, cluster, lambda event: self._tell(pool, cluster, event))

    def call(self, group: GroupId, cluster: ClusterName, command: Command) -> None:
        key = (group, cluster)
        if key in self._waiting:
            self._waiting[key][1].append(command)
        elif key in self._engines:
            command(self._engines[key])

    def close(self, group: GroupId, positions: Mapping[UpstreamPartition, CommitPosition]) -> None:
        """Commit these a last time and leave, on every cluster."""
        for key in [key for key in self._waiting if key[0] == group]:
            del self._waiting[key]
        loop = asyncio.get_running_loop()
        for key in [key for key in self._engines if key[0] == group]:
            engine = self._engines.pop(key)
            last = {source: position for source, position in positions.items() if source.cluster == key[1]}
            self._closing[key] = loop.create_task(self._close(key, engine, last), name=f"close engine of {key}")

    async def closed(self) -> None:
        """Wait until every engine that was closed has left."""
        while self._closing:
            await asyncio.wait(list(self._closing.values()))

    async def _close(self, key: Key, engine: Engine, last: Mapping[UpstreamPartition, CommitPosition]) -> None:
        group, cluster = key
        try:
            errors = await engine.close(last)
            failed = {str(source): error for source, error in errors.items() if error}
            if failed:
                log.warning("the last upstream commit failed", group=group, cluster=cluster, errors=failed)
        finally:
            del self._closing[key]
            waiting = self._waiting.pop(key, None)
            if waiting is not None:
                pool, commands = waiting
                self.open(pool, cluster)
                for command in commands:
                    self.call(group, cluster, command)
