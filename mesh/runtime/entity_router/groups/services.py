"""Services shared by all code for the groups of one router."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol
from uuid import UUID

from mesh.routing.groups.stored_offsets import StoredOffsets
from mesh.routing.names import LeafNumber
from mesh.runtime.entity_router.asking import Asker
from mesh.runtime.entity_router.entities import RouterEntities
from mesh.runtime.entity_router.groups.coordinators import GroupCoordinators
from mesh.runtime.entity_router.leaves import Leaves, RouterLeaf
from mesh.runtime.entity_router.side_links import SideLinks
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import ZERO_ID, Tree

REFRESH_INTERVAL: Final = 1.0
"""Seconds between two searches of all clusters for an unknown topic id."""
_DESCRIBE_VERSION: Final = 5
"""The version of DescribeGroups. From v6 on a missing group is an error."""
_DESCRIBE_CONSUMERS_VERSION: Final = 0


class GroupProblems(Protocol):
    """Reports the problem `group_elsewhere` of groups to operators."""

    def begin(self, group: str, leaf: LeafNumber, reason: str) -> None:
        """Called when a group has members in a cluster that is not its home."""

    def end(self, group: str, leaf: LeafNumber) -> None: ...


class GroupServices:
    """The services that all code for groups shares. timeout: returns the seconds that each request has. stored: the
    offsets that owners are known to have stored."""

    def __init__(
        self, leaves: Leaves, entities: RouterEntities, timeout: Callable[[], float], problems: GroupProblems
    ) -> None:
        self.leaves: Final = leaves
        self.entities: Final = entities
        self.timeout: Final = timeout
        self.problems: Final = problems
        self.stored: Final = StoredOffsets()
        self._refresh_at = 0.0
        self._refreshing: asyncio.Task[None] | None = None
        self.coordinators: Final = GroupCoordinators(timeout)

    async def ask(
        self, asker: Asker, leaf: LeafNumber, group: str, api_key: ApiKey, version: int, request: Tree
    ) -> Tree | None:
        """Sends a request to the coordinator of a group in one cluster, and returns the response; None if there is
        none."""
        known = self.leaves.by_number[leaf]
        return await self.coordinators.ask(asker.side_links, known, group, api_key, version, request)

    async def learn(self, topic_ids: Iterable[UUID]) -> bool:
        """Asks all clusters for their topics if one of these ids is not known: after a restart of the mesh, clients
        commit before they ask for Metadata. Returns False if a cluster that has not answered yet may know it."""
        ids = [*topic_ids]
        if all(map(self._is_known, ids)):
            return True
        now = asyncio.get_running_loop().time()
        if self._refreshing is None or (self._refreshing.done() and now >= self._refresh_at):
            self._refresh_at = now + REFRESH_INTERVAL
            self._refreshing = asyncio.get_running_loop().create_task(self.entities.refresh_topics(), name="new topics")
        await asyncio.shield(self._refreshing)
        return self.entities.are_all_reported or all(map(self._has_place, ids))

    def _has_place(self, topic_id: UUID) -> bool:
        return self.entities.concatenated.with_id(topic_id) is not None or self._is_known(topic_id)

    def _is_known(self, topic_id: UUID) -> bool:
        return topic_id == ZERO_ID or self.entities.is_id_known(topic_id)

    def topic(self, key: str | UUID) -> str | None:
        """The name of a topic as clients see it, from this name or from its id; None if it is not known."""
        return key if isinstance(key, str) else self.entities.topic_of_id(key)

    async def described(self, links: SideLinks, leaf: RouterLeaf, group: str) -> Tree | None:
        """Describes a group of the classic protocol. A group of another protocol looks dead. None if there is no
        answer."""
        request: dict[str, Any] = {"groups": [group]}
        api_key = ApiKey.DESCRIBE_GROUPS
        answer = await self.coordinators.ask(links, leaf, group, api_key, _DESCRIBE_VERSION, request)
        return _only(answer)

    async def described_consumers(self, links: SideLinks, leaf: RouterLeaf, group: str) -> Tree | None:
        """Describes a group of the consumer protocol. None if there is none, or no answer."""
        api_key = ApiKey.CONSUMER_GROUP_DESCRIBE
        if api_key not in leaf.nodes.served_at(None, {api_key: (0, 1)}):
            return None
        request: dict[str, Any] = {"group_ids": [group]}
        answer = await self.coordinators.ask(links, leaf, group, api_key, _DESCRIBE_CONSUMERS_VERSION, request)
        return _only(answer)


def _only(answer: Tree | None) -> Tree | None:
    if answer is None or not answer["groups"]:
        return None
    (group,) = answer["groups"]
    return None if group["error_code"] != ErrorCode.NONE else dict(group)
