"""The topology descriptions of one virtual cluster: the state of each group, and the work on it."""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar, assert_never

from mesh.runtime.topologies.plugin_calls import PluginCalls
from mesh.streams.backoff import MOST_GROUPS, Backoff
from mesh.streams.description import TopologyDescription
from mesh.streams.epochs import NONE, Epochs
from mesh.streams.spi import TopologyPlugin
from mesh.streams.steps import (
    ArmBackoff,
    ChangeEpochs,
    ClearBackoff,
    DeleteTopology,
    DescriptionStatus,
    Effect,
    Outcome,
    SetTopology,
    Steps,
)
from mesh.telemetry.logs import get_logger
from mesh.upstream.store.documents import Document, DocumentKind, StoreError, StoreUnreadable
from mesh.upstream.store.store import Store

log = get_logger(__name__)

EPOCHS: Final = DocumentKind("topology-epochs", 1)
CURRENT_TTL: Final = 60.0
"""Seconds for which a known topology epoch is used."""
MOST_ATTEMPTS: Final = 10
"""The most attempts to write epochs, while other processes write."""

Result = TypeVar("Result")


class Topologies:
    """The descriptions of the groups of one virtual cluster; behind a router, those of one of its clusters. place: the
    name under which they are stored; None for that of the virtual cluster."""

    def __init__(
        self,
        virtual_cluster: str,
        store: Store,
        plugin: TopologyPlugin,
        *,
        plugin_name: str,
        cluster: str | None = None,
        place: str | None = None,
    ) -> None:
        self.name: Final = virtual_cluster
        self.cluster: Final = cluster
        self._place: Final = place or virtual_cluster
        self.plugin_name: Final = plugin_name
        self.calls: Final = PluginCalls(virtual_cluster, plugin)
        self.cleanup_cycles = 0
        self.cleanup_eligible = 0
        """The number of deleted groups that had anything stored, in the last cycle."""
        self._store: Final = store
        self._clock: Final = asyncio.get_running_loop().time
        self._backoff: Final = Backoff(random.random)
        self._current: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    # Epochs

    def epochs(self, group: str) -> Epochs:
        """The stored epochs of a group. Raises StoreError."""
        return _epochs_of(self._store.get(EPOCHS, self._place, group))

    def groups(self) -> list[str]:
        """The groups that have anything stored. Raises StoreError."""
        return self._store.groups(EPOCHS, self._place)

    def learn_current(self, group: str, epoch: int) -> None:
        """Remembers the topology epoch of a group."""
        self._current.pop(group, None)
        self._current[group] = epoch, self._clock() + CURRENT_TTL
        if len(self._current) > MOST_GROUPS:
            self._current.popitem(last=False)

    def current(self, group: str) -> int | None:
        """The remembered topology epoch of a group; None if it must be asked for."""
        epoch, until = self._current.get(group, (NONE, 0.0))
        return epoch if self._clock() < until else None

    def ask_for(self, group: str, epoch: int) -> bool:
        """Returns True if a member of the group should be asked for its description now, and begins the pause until the
        next time."""
        return self._backoff.arm_if_not_active(group, epoch, self._clock())

    # Steps

    async def carry_out(self, group: str, steps: Steps[Result]) -> Result:
        """Carries out the steps of an operation. The operations on one group are carried out one after the other."""
        async with self._alone(group):
            outcome: Outcome = None
            while True:
                try:
                    effect = steps.send(outcome)
                except StopIteration as end:
                    result: Result = end.value
                    return result
                outcome = await self._do(effect)

    async def _do(self, effect: Effect) -> Outcome:
        match effect:
            case ChangeEpochs():
                return await self._change(effect)
            case SetTopology(group=group, epoch=epoch, description=description):
                return await self.calls.set(group, epoch, description)
            case DeleteTopology(group=group):
                return await self.calls.delete(group)
            case ArmBackoff(group=group, epoch=epoch):
                self._backoff.arm(group, epoch, self._clock())
            case ClearBackoff(group=group, epoch=epoch):
                self._backoff.clear(group, epoch)
            case _:
                assert_never(effect)
        return None

    async def _change(self, effect: ChangeEpochs) -> Outcome:
        """Changes the epochs of a group. If another process has written them in between, makes the change in those, and
        writes again."""
        group = effect.group
        try:
            base = expected = self.epochs(group)
            for _ in range(MOST_ATTEMPTS):
                wanted = effect.change(base)
                stood = _epochs_of(await self._store.put(EPOCHS, self._place, group, _document_of(wanted)))
                if stood == expected:
                    return None
                base, expected = stood, wanted
        except StoreError as problem:
            log.warning("topology epochs not stored", virtual_cluster=self.name, group=group, reason=str(problem))
            return str(problem)
        return "other processes write the same group's epochs all the time"

    async def forget(self, groups: Iterable[str]) -> None:
        """Forgets groups that are gone. If the store fails, a later clean-up does it."""
        for group in groups:
            async with self._alone(group):
                self._current.pop(group, None)
                self._backoff.clear_group(group)
                try:
                    if (
                        self._store.get(EPOCHS, self._place, group) is not None
                        and not self.epochs(group).has_description
                    ):
                        await self._store.put(EPOCHS, self._place, group, None)
                except StoreError as problem:
                    log.info("streams group not forgotten", virtual_cluster=self.name, group=group, reason=str(problem))

    @asynccontextmanager
    async def _alone(self, group: str) -> AsyncIterator[None]:
        lock, users = self._locks.get(group, (asyncio.Lock(), 0))
        self._locks[group] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks[group]
            if users > 1:
                self._locks[group] = lock, users - 1
            else:
                del self._locks[group]

    # Describe

    async def described(self, group: str, current: int) -> tuple[DescriptionStatus, TopologyDescription | None]:
        """Returns the status of a group's description, and the description. current: the group's topology epoch."""
        try:
            if current < 0 or self.epochs(group).stored != current:
                return DescriptionStatus.NOT_STORED, None
            description = await self.calls.get(group, current)
        except Exception as problem:  # noqa: BLE001 - whatever somebody else's code raises
            fields = {"virtual_cluster": self.name, "group": group, "reason": str(problem) or repr(problem)}
            log.warning("topology description unreadable", **fields)
            return DescriptionStatus.ERROR, None
        return (DescriptionStatus.NOT_STORED if description is None else DescriptionStatus.AVAILABLE), description

    async def close(self) -> None:
        await self.calls.close()


def _document_of(epochs: Epochs) -> dict[str, Any]:
    return {"stored": epochs.stored, "failed": epochs.failed, "deletions": epochs.deletions}


def _epochs_of(document: Document | None) -> Epochs:
    """The epochs in a document. Raises StoreUnreadable."""
    if document is None:
        return Epochs()
    # Older versions of the mesh wrote documents without the number of deletions.
    stored, failed, deletions = document.get("stored"), document.get("failed"), document.get("deletions", 0)
    if not isinstance(stored, int) or not isinstance(failed, int) or not isinstance(deletions, int):
        raise StoreUnreadable("topology epochs that are no numbers")
    return Epochs(stored, failed, deletions)
