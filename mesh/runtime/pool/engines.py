"""The engines of one virtual cluster's pools: one for each pool and upstream cluster.

A failed engine is closed and replaced, after a delay that doubles with each early failure. The next engine gets the
same commands.

A pool that ends leaves its upstream groups, which takes a while. A new pool of the same group waits for that, so that a
process is never in one upstream group twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from traceback import format_exception
from typing import Protocol, TypeAlias, assert_never

from mesh.pool.common.effects import (
    CommitUpstream,
    ConsumeUpstream,
    LookAtEnds,
    PauseUpstream,
    PollUpstream,
    RereadUpstream,
    ResumeUpstream,
    SubscribeUpstream,
)
from mesh.pool.common.ids import GroupId
from mesh.pool.pool import Pool
from mesh.records.spans import ClusterName, CommitPosition, UpstreamPartition
from mesh.tasks import OwnedTask, TaskName, begin, guarded, is_order
from mesh.telemetry.logs import get_logger
from mesh.upstream.engine import CommitToken, Engine, EngineEvent, EngineFailed, RereadToken

log = get_logger(__name__)

EngineFactory: TypeAlias = Callable[[GroupId, ClusterName, Callable[[EngineEvent], None]], Engine]
UpstreamCommand: TypeAlias = (
    CommitUpstream | ConsumeUpstream | LookAtEnds | PollUpstream | PauseUpstream | RereadUpstream | ResumeUpstream
)
Command: TypeAlias = Callable[[Engine], None]
LEAST_BACKOFF = 1.0
MOST_BACKOFF = 60.0
Key: TypeAlias = tuple[GroupId, ClusterName]


@dataclass(slots=True)
class _Backoff:
    """The delay before a failed engine is replaced."""

    seconds: float = 0.0
    failed_at: float = 0.0

    def failed(self, now: float) -> None:
        soon = self.seconds and now - self.failed_at < 2 * MOST_BACKOFF
        self.seconds = min(2 * self.seconds, MOST_BACKOFF) if soon else LEAST_BACKOFF
        self.failed_at = now


class EngineListener(Protocol):
    """The receiver of the events of engines."""

    def happened(self, pool: Pool, cluster: ClusterName, event: EngineEvent) -> None: ...


class Engines:
    """The engines of one virtual cluster's pools. create: makes an engine that reports its events to the given
    function."""

    def __init__(self, create: EngineFactory, listener: EngineListener) -> None:
        self._create = create
        self._listener = listener
        self._engines: dict[Key, Engine] = {}
        self._delivers: dict[Key, Callable[[EngineEvent], None]] = {}
        """The function that takes the events of each engine."""
        self._waiting: dict[Key, tuple[Pool, list[Command]]] = {}
        self._settings: dict[Key, dict[type[object], Command]] = {}
        """The last command of each kind that holds until the next one, for each engine."""
        self._backoffs: dict[Key, _Backoff] = {}
        self._closing: dict[Key, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._engines) + len(self._closing)

    def subscribe(self, pool: Pool, effect: SubscribeUpstream) -> None:
        """Subscribes an engine to topics; makes it, unless it exists. Commands wait while an older engine of the same
        group is leaving."""
        key = (pool.group, effect.cluster)
        is_new = key not in self._engines and key not in self._waiting
        if is_new and (key in self._closing or not self._open(pool, effect.cluster)):
            self._waiting[key] = (pool, [])
        self._set(key, SubscribeUpstream, lambda engine: engine.subscribe(effect.topics))

    def command(self, effect: UpstreamCommand) -> None:
        """Sends a command to its engine. Drops it if there is no such engine: its pool has left."""
        match effect:
            case CommitUpstream(group, cluster, token, positions):
                self._call((group, cluster), lambda engine: engine.commit(CommitToken(token), positions))
            case ConsumeUpstream(group, cluster, consuming):
                self._set((group, cluster), ConsumeUpstream, lambda engine: engine.set_consuming(consuming))
            case PollUpstream(group, cluster, often):
                self._set((group, cluster), PollUpstream, lambda engine: engine.set_eager(often))
            case LookAtEnds(group, cluster, number):
                self._set((group, cluster), LookAtEnds, lambda engine: engine.look_at_ends(number))
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
        *,
        leaves: bool = True,
    ) -> None:
        """Commits positions a last time, and leaves the group. cluster: None for all clusters. leaves: False if another
        engine takes the place of this one, and a static member stays in the group."""

        def is_meant(key: Key) -> bool:
            return key[0] == group and cluster in (None, key[1])

        for kept in (self._waiting, self._settings, self._backoffs):
            for key in list(filter(is_meant, kept)):
                kept.pop(key)
        for key in list(filter(is_meant, self._engines)):
            engine = self._engines.pop(key)
            del self._delivers[key]
            last = {source: position for source, position in positions.items() if source.cluster == key[1]}
            # The task is kept here until the engine has ended. Only a cancellation ends it early.
            close = partial(self._close, key, engine, last, leaves=leaves)
            self._closing[key] = begin(_task(TaskName.ENGINE_CLOSE, key), close)

    def change_login(self, cluster: ClusterName, username: str, password: str) -> None:
        """Lets the engines of a cluster use another user name and password from their next connection on."""
        for key in [key for key in self._engines if key[1] == cluster]:
            self._call(key, lambda engine: engine.change_login(username, password))

    def is_closing(self, group: GroupId) -> bool:
        """True if an engine of this group is leaving its upstream group just now."""
        return any(key[0] == group for key in self._closing)

    async def replaced(self, group: GroupId, cluster: ClusterName) -> None:
        """Waits until a closed engine has ended, and the next one has taken its place."""
        if (closing := self._closing.get((group, cluster))) is not None:
            await asyncio.wait([closing])

    async def closed(self) -> None:
        """Waits until every closed engine has left its group."""
        while self._closing:
            await asyncio.wait(list(self._closing.values()))

    def _open(self, pool: Pool, cluster: ClusterName) -> bool:
        """Makes an engine. If that fails, the engine counts as one that failed: another attempt follows after a delay.
        Returns whether there is an engine now."""
        key = (pool.group, cluster)

        def deliver(event: EngineEvent) -> None:
            # A failed engine may report more until it is closed.
            if self._engines.get(key) is engine:
                if isinstance(event, EngineFailed):
                    self._renew(pool, cluster)  # first, since the pool may leave because of the event
                self._listener.happened(pool, cluster, event)

        try:
            engine = self._engines[key] = self._create(pool.group, cluster, deliver)
            self._delivers[key] = deliver
        except BaseException as problem:  # such as a file of the cluster's properties that is being replaced
            if is_order(problem):
                raise
            loop, task = asyncio.get_running_loop(), _task(TaskName.ENGINE, key)
            loop.call_soon(guarded(task, self._not_opened), key, _failure(problem))
            loop.call_later(self._backoff(key), guarded(task, self._reopen), key)
        return key in self._engines

    def _not_opened(self, key: Key, event: EngineFailed) -> None:
        if key in self._waiting:
            self._listener.happened(self._waiting[key][0], key[1], event)

    def _backoff(self, key: Key) -> float:
        """Returns the seconds until an engine that has just failed is replaced."""
        backoff = self._backoffs.setdefault(key, _Backoff())
        backoff.failed(asyncio.get_running_loop().time())
        return backoff.seconds

    def _renew(self, pool: Pool, cluster: ClusterName) -> None:
        """Closes a failed engine, and makes another one, which begins without partitions."""
        key = (pool.group, cluster)
        self._waiting[key] = (pool, list(self._settings[key].values()))
        engine = self._engines.pop(key)
        del self._delivers[key]
        self._closing[key] = begin(
            _task(TaskName.ENGINE_CLOSE, key), partial(self._close, key, engine, {}, self._backoff(key))
        )

    def _set(self, key: Key, kind: type[object], command: Command) -> None:
        """Sends a command that holds until the next one of its kind."""
        if key in self._engines or key in self._waiting:
            self._settings.setdefault(key, {})[kind] = command
            self._call(key, command)

    def _call(self, key: Key, command: Command) -> None:
        if key in self._waiting:
            self._waiting[key][1].append(command)
        elif key in self._engines:
            try:
                command(self._engines[key])
            except BaseException as problem:  # such as a thread that the system does not start
                if is_order(problem):
                    raise
                # Later, since the step that gave the command has not ended.
                asyncio.get_running_loop().call_soon(
                    guarded(_task(TaskName.ENGINE, key), self._delivers[key]), _failure(problem)
                )

    async def _close(
        self,
        key: Key,
        engine: Engine,
        last: Mapping[UpstreamPartition, CommitPosition],
        backoff: float = 0.0,
        *,
        leaves: bool = True,
    ) -> None:
        group, cluster = key
        try:
            errors = await engine.close(last, leaves=leaves)
            failed = {str(source): error for source, error in errors.items() if error}
            if failed:
                log.warning("last upstream commit failed", group=group, cluster=cluster, errors=failed)
        finally:  # the next pool of the group must not wait forever
            del self._closing[key]
            reopen = guarded(_task(TaskName.ENGINE, key), self._reopen)
            asyncio.get_running_loop().call_later(backoff, reopen, key)

    def _reopen(self, key: Key) -> None:
        """Makes an engine for a pool that began while an older one was leaving, or whose engine failed."""
        if key in self._engines or key in self._closing:
            return
        pool, commands = self._waiting.get(key, (None, []))
        if pool is not None and self._open(pool, key[1]):
            del self._waiting[key]
            for command in commands:
                self._call(key, command)


def _task(name: TaskName, key: Key) -> OwnedTask:
    return OwnedTask(name, group=key[0], cluster=key[1])


def _failure(problem: BaseException) -> EngineFailed:
    return EngineFailed(repr(problem), "".join(format_exception(problem)))
