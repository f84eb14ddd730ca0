"""Members of a group in a cluster that is not its home. They consume there directly, and bypass the mesh."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from mesh.routing.groups.offset_retention import GroupAtOwner
from mesh.routing.names import LeafNumber
from mesh.runtime.entity_router.groups.services import GroupServices
from mesh.runtime.entity_router.side_links import SideLinks
from mesh.tasks import OwnedTask, TaskName, begin
from mesh.telemetry.logs import get_logger

log = get_logger(__name__)

ASK_DELAY: Final = 6.0
"""Seconds for which a keeper may be a member. A member that stays longer is a consumer."""
LOOK_AGAIN: Final = 60.0
"""Seconds between two looks at members that were reported."""
_MOST_AT_ONCE: Final = 1_000
_MOST_NAMED: Final = 3


class MembersElsewhere:
    """The members of groups in clusters that are not their home. They are looked for when an owner refuses a commit,
    and then until they are gone: the group may commit nothing more."""

    def __init__(self, services: GroupServices) -> None:
        self._services: Final = services
        self._links: Final = SideLinks()
        self._asking: dict[GroupAtOwner, asyncio.Task[None]] = {}
        self._reported: set[GroupAtOwner] = set()

    def refused(self, group: str, leaf: LeafNumber) -> None:
        """Notes that an owner refused a commit, since the group has members there."""
        at = GroupAtOwner(group, leaf)
        if at not in self._asking and len(self._asking) < _MOST_AT_ONCE:
            task = OwnedTask(TaskName.MEMBERS_ELSEWHERE, group=group)
            self._asking[at] = begin(task, partial(self._ask, at))

    def stored(self, group: str, leaf: LeafNumber) -> None:
        """Notes that a group has no members at an owner: the owner accepted a commit without a member."""
        at = GroupAtOwner(group, leaf)
        if at in self._reported:
            self._reported.discard(at)
            self._services.problems.end(group, leaf)

    def close(self) -> None:
        for task in self._asking.values():
            task.cancel()
        self._links.close()

    async def _ask(self, at: GroupAtOwner) -> None:
        try:
            await asyncio.sleep(ASK_DELAY)
            if found := await self._members(at):
                self._reported.add(at)
                reason = f"{len(found)} members, among them {', '.join(found[:_MOST_NAMED])}"
                self._services.problems.begin(at.group, at.leaf, reason)
            while at in self._reported:
                await asyncio.sleep(LOOK_AGAIN)
                if await self._members(at) == []:
                    self.stored(at.group, at.leaf)
        finally:
            self._asking.pop(at, None)

    async def _members(self, at: GroupAtOwner) -> list[str] | None:
        """The members of a group at an owner; None without an answer."""
        owner = self._services.leaves.by_number[at.leaf]
        classic = await self._services.described(self._links, owner, at.group)
        if classic is None:
            return None
        consumers = await self._services.described_consumers(self._links, owner, at.group)
        members = [each for described in (classic, consumers) if described is not None for each in described["members"]]
        return [f"{each['client_id']} at {each['client_host'].lstrip('/')}" for each in members]
