"""The share groups of one virtual cluster in the store: their configurations, and whether they had share members."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final

from mesh.apis.answers import Answer, Ticket
from mesh.listener.requests import PendingRequest
from mesh.pool.common.effects import ChangeGroupConfigs, Effect
from mesh.pool.common.group_configs import Changes, Overrides, changed
from mesh.pool.common.ids import GroupId
from mesh.pool.common.results import GroupConfigsChanged
from mesh.tasks import OwnedTask, Run, TaskName, begin
from mesh.telemetry.logs import get_logger
from mesh.upstream.store.documents import Document, DocumentKind, StoreError, StoreUnavailable
from mesh.upstream.store.store import Store
from mesh.wire.errors import ErrorCode

log = get_logger(__name__)

KIND: Final = DocumentKind("share_group", 1)
CONFIGS: Final = "configs"
HAD_MEMBERS: Final = "had_members"
MOST_REMEMBERED: Final = 10_000
"""The most groups with share members that are remembered; clients choose the names."""
ATTEMPTS: Final = 5
"""The most attempts to change a document that other processes change at the same time."""
NO_STORE: Final = "the store keeps configurations of groups; set store: {cluster: NAME, topic: NAME}"


class ShareGroups:
    """The share groups of one virtual cluster. Implements `mesh.pool.common.group_configs.KeptShareGroups`.

    store: None if none is configured. Then only groups that this process has seen are known, and no configuration can
    be set.
    """

    def __init__(self, virtual_cluster: str, store: Store | None) -> None:
        self._name = virtual_cluster
        self._store = store
        self._seen: dict[GroupId, None] = {}
        """Groups with share members, oldest first. If there is a store, it has them, too."""
        self._working: set[asyncio.Task[None]] = set()

    # Queries

    @property
    def is_loading(self) -> bool:
        """True if the store has not been read yet."""
        if self._store is None:
            return False
        try:
            self._store.groups(KIND, self._name)
        except StoreUnavailable:
            return True
        return False

    def overrides(self, group: GroupId) -> Overrides:
        return _configs_in(self._document(group))

    def configured(self) -> AbstractSet[GroupId]:
        return {group for group in self._stored() if self.overrides(group)}

    def groups(self) -> AbstractSet[GroupId]:
        had = {group for group in self._stored() if self._had_members(group)}
        return had | self._seen.keys()

    def knows(self, group: GroupId) -> bool:
        if group not in self._seen and self._had_members(group):
            self._see(group)
        return group in self._seen

    # Changes

    def keep(self, group: GroupId) -> None:
        """Stores that a group has share members."""
        self._see(group)
        if self._store is not None:
            self._begin(group, partial(self._keep, group))

    def change(self, asked: ChangeGroupConfigs, carry_out: Callable[[Sequence[Effect]], None]) -> None:
        """Changes the configurations of groups. carry_out: takes the answer."""
        group = next(iter(asked.changes), GroupId(""))
        self._begin(group, partial(self._answer, asked, carry_out), lambda: _abort(asked.ticket))

    async def forget(self, groups: Collection[GroupId]) -> frozenset[GroupId]:
        """Forgets groups that were deleted or are unknown upstream. Returns those that were known here."""
        forgotten = set[GroupId]()
        for group in (self.groups() | self.configured()) & frozenset(groups):
            try:
                if self._store is not None:
                    await self._store.put(KIND, self._name, group, None)
            except StoreError as problem:
                fields = {"virtual_cluster": self._name, "group": group}
                log.warning("share group not forgotten", reason=str(problem), **fields)
            else:
                self._seen.pop(group, None)
                forgotten.add(group)
        return frozenset(forgotten)

    def close(self) -> None:
        for task in self._working:
            task.cancel()

    # Internals

    def _begin(self, group: GroupId, run: Run, failed: Callable[[], None] = lambda: None) -> None:
        task = begin(OwnedTask(TaskName.SHARE_GROUP, self._name, group=group), run, failed)
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    def _see(self, group: GroupId) -> None:
        self._seen[group] = None
        if len(self._seen) > MOST_REMEMBERED:
            del self._seen[next(iter(self._seen))]

    async def _keep(self, group: GroupId) -> None:
        try:
            await self._rewrite(group, lambda document: {**document, HAD_MEMBERS: True})
        except StoreError as problem:
            self._seen.pop(group, None)  # the member's next heartbeat causes another attempt
            log.warning("share group not kept", virtual_cluster=self._name, group=group, reason=str(problem))

    async def _answer(self, asked: ChangeGroupConfigs, carry_out: Callable[[Sequence[Effect]], None]) -> None:
        outcomes = {group: await self._set(group, changes) for group, changes in asked.changes.items()}
        carry_out([Answer(asked.ticket, GroupConfigsChanged(outcomes))])

    async def _set(self, group: GroupId, changes: Changes) -> tuple[ErrorCode, str]:
        if self._store is None:
            return ErrorCode.INVALID_REQUEST, NO_STORE

        def set_in(document: Document) -> Document:
            return {**document, CONFIGS: changed(_configs_in(document), changes)}

        try:
            await self._rewrite(group, set_in)
        except StoreUnavailable as problem:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, str(problem)
        except StoreError as problem:
            return ErrorCode.UNKNOWN_SERVER_ERROR, str(problem)
        shown = {name: value if value is not None else "(deleted)" for name, value in changes.items()}
        log.info("group configured", virtual_cluster=self._name, group=group, changes=shown)
        return ErrorCode.NONE, ""

    async def _rewrite(self, group: GroupId, change: Callable[[Document], Document]) -> None:
        """Changes the document of a group, also if another process writes it at the same time: the last writer has seen
        the change of the other."""
        assert self._store is not None
        expected = base = self._store.get(KIND, self._name, group)
        for _ in range(ATTEMPTS):
            wanted = change(base or {})
            if wanted == expected:
                return
            is_empty = not _configs_in(wanted) and not wanted.get(HAD_MEMBERS)
            before = await self._store.put(KIND, self._name, group, None if is_empty else wanted)
            if before == expected:
                return
            expected, base = wanted, before
        raise StoreUnavailable(f"others change the same group, {ATTEMPTS} times in a row")

    def _stored(self) -> Collection[GroupId]:
        try:
            return [GroupId(each) for each in self._store.groups(KIND, self._name)] if self._store is not None else ()
        except StoreUnavailable:
            return ()

    def _document(self, group: GroupId) -> Document:
        """The document of a group; empty if the store has not been read yet, and if the document cannot be read."""
        try:
            document = self._store.get(KIND, self._name, group) if self._store is not None else None
        except StoreError:
            return {}
        return document or {}

    def _had_members(self, group: GroupId) -> bool:
        return bool(self._document(group).get(HAD_MEMBERS))


def _abort(ticket: Ticket) -> None:
    """Closes the connection of a request that cannot be answered."""
    if isinstance(ticket, PendingRequest):
        ticket.connection.client.abort()


def _configs_in(document: Document) -> Overrides:
    """The configurations in a document. They are checked, since other processes write them, too."""
    configs = document.get(CONFIGS)
    if not isinstance(configs, Mapping):
        return {}
    return {name: value for name, value in configs.items() if isinstance(name, str) and isinstance(value, str)}
