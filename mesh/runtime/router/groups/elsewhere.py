"""Members that a group has in a cluster which is not its home: they consume there directly, past the mesh."""

from __future__ import annotations

import asyncio
from typing import Final

from mesh.routing.groups.keeping import GroupAtOwner
from mesh.routing.names import LeafNumber
from mesh.runtime.router.groups.services import GroupServices
from mesh.runtime.router.side_links import SideLinks
from mesh.telemetry.logs import get_logger

log = get_logger(__name__)

MOMENT: Final = 6.0
"""Seconds for which a keeper may be a member there: who is a member after that consumes."""
_MOST_AT_ONCE: Final = 100
_MOST_NAMED: Final = 3


class MembersElsewhere:
    """The members of groups at clusters that are not their home. Looks for them when an owner refuses a commit."""

    def __init__(self, services: GroupServices) -> None:
        self._services: Final = services
        self._links: Final = SideLinks()
        self._asking: dict[GroupAtOwner, asyncio.Task[None]] = {}
        self._told: set[GroupAtOwner] = set()

    def refused(self, group: str, leaf: LeafNumber) -> None:
        """The owner says that it has members."""
        at = GroupAtOwner(group, leaf)
        if at not in self._asking and len(self._asking) < _MOST_AT_ONCE:
            asking = asyncio.get_running_loop().create_task(self._ask(at), name="who is in a group elsewhere")
            self._asking[at] = asking

    def stored(self, group: str, leaf: LeafNumber) -> None:
        """The owner takes what nobody commits, so it has none."""
        at = GroupAtOwner(group, leaf)
        if at in self._told:
            self._told.discard(at)
            self._services.trouble.end(group, leaf)

    def close(self) -> None:
        for task in self._asking.values():
            task.cancel()
        self._links.close()

    async def _ask(self, at: GroupAtOwner) -> None:
        try:
            await asyncio.sleep(MOMENT)
            if found := await self._members(at):
                self._told.add(at)
                reason = f"{len(found)} members, among them {', '.join(found[:_MOST_NAMED])}"
                self._services.trouble.begin(at.group, at.leaf, reason)
        except Exception:
            log.exception("who is in a group elsewhere: kafka-mesh has a bug", group=at.group)
        finally:
            self._asking.pop(at, None)

    async def _members(self, at: GroupAtOwner) -> list[str]:
        owner = self._services.leaves.by_number[at.leaf]
        classic = await self._services.described(self._links, owner, at.group)
        consumers = await self._services.described_consumers(self._links, owner, at.group)
        members = [each for described in (classic, consumers) if described is not None for each in described["members"]]
        return [f"{each['client_id']} at {each['client_host'].lstrip('/')}" for each in members]
