"""The engines of one virtual cluster's pools: one for each pool and upstream cluster.

An engine that failed is made anew: it is closed, rests for a while that doubles each time it fails again soon, and is
told what the older one was told.

A pool that ends leaves its upstream groups, which takes a while; a new pool of the same group waits for that, so that a
process is never in one upstream group twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias, assert_never

from mesh.pool.common.effects import (
    CommitUpstream,
    ConsumeUpstream,
    HurryUpstream,
    PauseUpstream,
    RereadUpstream,
    ResumeUpstream,
    SubscribeUpstream,
)
from mesh.pool.common.ids import GroupId
from mesh.pool.pool import Pool
from mesh.records.spans import ClusterName, CommitPosition, UpstreamPartition
from mesh.telemetry.logs import get_logger
from mesh.upstream.engine import CommitToken, Engine, EngineEvent, EngineFailed, RereadToken

log = get_logger(__name__)

EngineFactory: TypeAlias = Callable[[GroupId, ClusterName, Callable[[EngineEvent], None]], Engine]
UpstreamCommand: TypeAlias = (
    CommitUpstream | ConsumeUpstream | HurryUpstream | PauseUpstream | RereadUpstream | ResumeUpstream
)
Command: TypeAlias = Callable[[Engine], None]
SHORTEST_REST = 1.0
LONGEST_REST = 60.0
Key: TypeAlias = tuple[GroupId, ClusterName]


@dataclass(slots=True)
class _Rest:
    """How long an engine that failed rests before it is made anew."""

    seconds: float = 0.0
    failed_at: float = 0.0

    def failed(self, now: float) -> None:
        soon = self.seconds and now - self.failed_at < 2 * LONGEST_REST
        self.seconds = min(2 * self.seconds, LONGEST_REST) if soon else SHORTEST_REST
        self.failed_at = now


class EngineListener(Protocol):
    """What engines tell goes there."""

    def happened(self, pool: Pool, cluster: ClusterName, event: EngineEvent) -> None: ...


class Engines:
    """The engines of one virtual cluster's pools. create: makes one that tells what happens to a function."""

    def __init__(self, create: EngineFactory, listener: EngineListener) -> None:
        self._create = create
        self._listener = listener
        self._engines: dict[Key, Engine] = {}
        self._waiting: dict[Key, tuple[Pool, list[Command]]] = {}
        self._settings: dict[Key, dict[type[object], Command]] = {}
        """What each engine was told that holds until it is told otherwise."""
        self._rests: dict[Key, _Rest] = {}
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
        self._set(key, SubscribeUpstream, lambda engine: engine.subscribe(effect.topics))

    def command(self, effect: UpstreamCommand) -> None:
        """Dropped if there is no such engine: its pool has left."""
        match effect:
            case CommitUpstream(group, cluster, token, positions):
                self._call((group, cluster), lambda engine: engine.commit(CommitToken(token), positions))
            case ConsumeUpstream(group, cluster, consuming):
                self._set((group, cluster), ConsumeUpstream, lambda engine: engine.set_consuming(consuming))
            case HurryUpstream(group, cluster, eager):
                self._set((group, cluster), HurryUpstream, lambda engine: engine.set_eager(eager))
            case PauseUpstream(group, partition):
                self._call((group, partition.cluster), lambda engine: engine.pause(frozenset([partition])))
            case ResumeUpstream(group, partition):
                self._call((group, partition.cluster), lambda engine: engine.resume(frozenset([partition])))
            case RereadUpstream(group, token, partition, span):
                name = RereadToken(token)
                self._call((group, partition.cluster), lambda engine: engine.reread(name, partition, span))
            case _:
                assert_never(effect)

    def close(
        self,
        group: GroupId,
        positions: Mapping[UpstreamPartition, CommitPosition],
        cluster: ClusterName | None = None,
    ) -> None:
        """Commit these a last time and leave, on one cluster, or on every one if none is named."""

        def is_meant(key: Key) -> bool:
            return key[0] == group and cluster in (None, key[1])

        for kept in (self._waiting, self._settings, self._rests):
            for key in list(filter(is_meant, kept)):
                kept.pop(key)
        loop = asyncio.get_running_loop()
        for key in list(filter(is_meant, self._engines)):
            engine = self._engines.pop(key)
            last = {source: position for source, position in positions.items() if source.cluster == key[1]}
            # Kept here until it has ended, and nothing leaves it but a cancellation.
            self._closing[key] = loop.create_task(self._close(key, engine, last), name=f"close engine of {key}")

    def is_closing(self, group: GroupId) -> bool:
        """Whether an engine of this group is leaving its upstream group just now."""
        return any(key[0] == group for key in self._closing)

    async def closed(self) -> None:
        """Wait until every engine that was closed has left."""
        while self._closing:
            await asyncio.wait(list(self._closing.values()))

    def _open(self, pool: Pool, cluster: ClusterName) -> None:
        key = (pool.group, cluster)

        def deliver(event: EngineEvent) -> None:
            # One that failed may have told more until it was closed.
            if self._engines.get(key) is engine:
                if isinstance(event, EngineFailed):
                    self._renew(pool, cluster)  # first: what follows from it may be that the pool leaves
                self._listener.happened(pool, cluster, event)

        engine = self._engines[key] = self._create(pool.group, cluster, deliver)

    def _renew(self, pool: Pool, cluster: ClusterName) -> None:
        """An engine failed: close it and make another one, which begins with nothing assigned."""
        key = (pool.group, cluster)
        loop = asyncio.get_running_loop()
        rest = self._rests.setdefault(key, _Rest())
        rest.failed(loop.time())
        self._waiting[key] = (pool, list(self._settings[key].values()))
        engine = self._engines.pop(key)
        self._closing[key] = loop.create_task(self._close(key, engine, {}, rest.seconds), name=f"renew engine of {key}")

    def _set(self, key: Key, kind: type[object], command: Command) -> None:
        """Something that holds until it is told otherwise."""
        if key in self._engines or key in self._waiting:
            self._settings.setdefault(key, {})[kind] = command
            self._call(key, command)

    def _call(self, key: Key, command: Command) -> None:
        if key in self._waiting:
            self._waiting[key][1].append(command)
        elif key in self._engines:
            command(self._engines[key])

    async def _close(
        self, key: Key, engine: Engine, last: Mapping[UpstreamPartition, CommitPosition], rest: float = 0.0
    ) -> None:
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
            asyncio.get_running_loop().call_later(rest, self._reopen, key)

    def _reopen(self, key: Key) -> None:
        """For a pool that began while the engine of an older one was leaving, or whose engine failed."""
        if key in self._engines or key in self._closing:
            return
        pool, commands = self._waiting.pop(key, (None, []))
        if pool is not None:
            self._open(pool, key[1])
            for command in commands:
                self._call(key, command)
