"""The engines of one virtual cluster's pools: one for each pool and upstream cluster.

A pool that ends leaves its upstream groups, which takes a while; a new pool of the same group waits for that, so that a
process is never in one upstream group twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeAlias, assert_never

from mesh.pool.effects import (
    CommitUpstream,
    ConsumeUpstream,
    GroupId,
    HurryUpstream,
    PauseUpstream,
    RereadUpstream,
    ResumeUpstream,
    SubscribeUpstream,
)
from mesh.pool.pool import Pool
from mesh.records.spans import ClusterName, CommitPosition, UpstreamPartition
from mesh.server.logs import get_logger
from mesh.upstream.engine import CommitToken, Engine, EngineEvent

log = get_logger(__name__)

EngineFactory: TypeAlias = Callable[[GroupId, ClusterName, Callable[[EngineEvent], None]], Engine]
PoolEvent: TypeAlias = Callable[[Pool, ClusterName, EngineEvent], None]
UpstreamCommand: TypeAlias = (
    CommitUpstream | ConsumeUpstream | HurryUpstream | PauseUpstream | RereadUpstream | ResumeUpstream
)
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

    def subscribe(self, pool: Pool, effect: SubscribeUpstream) -> None:
        """Makes the engine, unless it is there; commands wait while an older one of the same group is leaving."""
        key = (pool.group, effect.cluster)
        if key not in self._engines and key not in self._waiting:
            if key in self._closing:
                self._waiting[key] = (pool, [])
            else:
                self._open(pool, effect.cluster)
        self._call(key, lambda engine: engine.subscribe(effect.topics))

    def command(self, effect: UpstreamCommand) -> None:
        """Dropped if there is no such engine: its pool has left."""
        match effect:
            case CommitUpstream(group, cluster, token, positions):
                self._call((group, cluster), lambda engine: engine.commit(CommitToken(token), positions))
            case ConsumeUpstream(group, cluster, consuming):
                self._call((group, cluster), lambda engine: engine.set_consuming(consuming))
            case HurryUpstream(group, cluster, eager):
                self._call((group, cluster), lambda engine: engine.set_eager(eager))
            case PauseUpstream(group, partition):
                self._call((group, partition.cluster), lambda engine: engine.pause(frozenset([partition])))
            case ResumeUpstream(group, partition):
                self._call((group, partition.cluster), lambda engine: engine.resume(frozenset([partition])))
            case RereadUpstream(group, partition, span):
                self._call((group, partition.cluster), lambda engine: engine.reread(partition, span))
            case _:
                assert_never(effect)

    def close(self, group: GroupId, positions: Mapping[UpstreamPartition, CommitPosition]) -> None:
        """Commit these a last time and leave, on every cluster."""
        for key in [key for key in self._waiting if key[0] == group]:
            del self._waiting[key]
        loop = asyncio.get_running_loop()
        for key in [key for key in self._engines if key[0] == group]:
            engine = self._engines.pop(key)
            last = {source: position for source, position in positions.items() if source.cluster == key[1]}
            # Kept here until it has ended, and nothing leaves it but a cancellation.
            self._closing[key] = loop.create_task(self._close(key, engine, last), name=f"close engine of {key}")

    async def closed(self) -> None:
        """Wait until every engine that was closed has left."""
        while self._closing:
            await asyncio.wait(list(self._closing.values()))

    def _open(self, pool: Pool, cluster: ClusterName) -> None:
        tell = self._tell
        self._engines[pool.group, cluster] = self._create(pool.group, cluster, lambda event: tell(pool, cluster, event))

    def _call(self, key: Key, command: Command) -> None:
        if key in self._waiting:
            self._waiting[key][1].append(command)
        elif key in self._engines:
            command(self._engines[key])

    async def _close(self, key: Key, engine: Engine, last: Mapping[UpstreamPartition, CommitPosition]) -> None:
        group, cluster = key
        try:
            errors = await engine.close(last)
            failed = {str(source): error for source, error in errors.items() if error}
            if failed:
                log.warning("the last upstream commit failed", group=group, cluster=cluster, errors=failed)
        except Exception:
            # It has no other place to go to, and the next pool of the group must not wait for ever.
            log.exception("an engine could not be closed", group=group, cluster=cluster)
        finally:
            del self._closing[key]
            asyncio.get_running_loop().call_soon(self._reopen, key)

    def _reopen(self, key: Key) -> None:
        """For a pool that began while the engine of an older one was leaving."""
        pool, commands = self._waiting.pop(key, (None, []))
        if pool is not None:
            self._open(pool, key[1])
            for command in commands:
                self._call(key, command)
