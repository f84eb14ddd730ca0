"""Requests to the home of a group, and the home's view of its members."""

from __future__ import annotations

from typing import Final

from mesh.routing.groups.commits import has_member, heartbeat, refusal_of_heartbeat
from mesh.runtime.entity_router.asking import Asker, ask
from mesh.runtime.entity_router.groups.coordinators import highest_at
from mesh.runtime.entity_router.groups.services import GroupServices
from mesh.runtime.entity_router.leaves import RouterLeaf
from mesh.runtime.entity_router.side_links import SideLinks
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree

_EMPTY: Final = frozenset({"", "Empty", "Dead"})
_HEARTBEAT_VERSION: Final = 4


class GroupHomes:
    """Sends requests to the homes of groups, at the node that the client takes for the coordinator."""

    def __init__(self, services: GroupServices) -> None:
        self._services: Final = services

    async def ask(self, asker: Asker, group: str, api_key: ApiKey, version: int, request: Tree) -> Tree | None:
        """Sends a request to the home of a group, and returns the response; None if there is none. asker: a connection
        that leads to the home."""
        if asker.node is None:
            return await self._services.ask(asker, asker.leaf.number, group, api_key, version, request)
        highest = highest_at(asker.leaf, asker.node, api_key)
        timeout = self._services.timeout()
        return await ask(asker.side_links, asker.leaf, asker.node, api_key, min(version, highest), request, timeout)

    async def refusal(self, asker: Asker, request: Tree) -> ErrorCode | int:
        """The error with which the home refuses an OffsetCommit that has none of its topics; NONE if it accepts it."""
        group = request["group_id"]
        if has_member(request):
            answer = await self.ask(asker, group, ApiKey.HEARTBEAT, _HEARTBEAT_VERSION, heartbeat(request))
            return (
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if answer is None else refusal_of_heartbeat(answer["error_code"])
            )
        match await self.is_empty(asker.side_links, asker.leaf, group):
            case True:
                return ErrorCode.NONE
            case False:
                return ErrorCode.UNKNOWN_MEMBER_ID
            case None:
                return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    async def is_empty(self, links: SideLinks, home: RouterLeaf, group: str) -> bool | None:
        """True if a group has no members at its home; None if that cannot be found out."""
        described = await self._services.described(links, home, group)
        if described is None:
            return None
        if described["group_state"] not in _EMPTY:
            return False
        consumers = await self._services.described_consumers(links, home, group)
        return consumers is None or consumers["group_state"] in _EMPTY
