"""The other readers of a consumer's assignment, which also make most of its commits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from mesh.records.spans import UpstreamPartition
from mesh.tasks import OwnedTask, TaskName, guarded
from mesh.wire.client.commits import GroupMembership


@dataclass(frozen=True, slots=True)
class OtherReaders:
    """The functions of the other readers of a consumer's assignment. positions: returns how far they have read; called
    on the consumer's thread. membership_changed: called with the consumer's membership in the group, None if
    unknown."""

    positions: Callable[[], Mapping[UpstreamPartition, int]]
    membership_changed: Callable[[GroupMembership | None], None]

    def on_loop(self, loop: asyncio.AbstractEventLoop) -> OtherReaders:
        """Returns a copy whose `membership_changed` is called on the loop's thread, in order."""

        changed = guarded(OwnedTask(TaskName.ENGINE), self.membership_changed)

        def membership_changed(membership: GroupMembership | None) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(changed, membership)

        return OtherReaders(self.positions, membership_changed)
