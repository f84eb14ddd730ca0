"""What everything about the groups of one router shares."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol
from uuid import UUID

from mesh.routing.groups.stored_offsets import StoredOffsets
from mesh.routing.names import LeafNumber
from mesh.runtime.router.asking import Asker
from mesh.runtime.router.entities import RouterEntities
from mesh.runtime.router.groups.coordinators import GroupCoordinators
from mesh.runtime.router.leaves import Leaves, RouterLeaf
from mesh.runtime.router.side_links import SideLinks
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import ZERO_ID, Tree

BETWEEN_LOOKS: Final = 1.0
"""Seconds between two looks at the topics of all clusters for an id that nobody knows."""
_DESCRIBE_VERSION: Final = 5
"""From v6 on a group that is not there is an error."""
_DESCRIBE_CONSUMERS_VERSION: Final = 0


class GroupTrouble(Protocol):
    """The trouble with groups that operators are told of: `group_elsewhere`."""

    def begin(self, group: str, leaf: LeafNumber, reason: str) -> None:
        """The group has members in a cluster that is not its home."""

    def end(self, group: str, leaf: LeafNumber) -> None: ...


class GroupServices:
    """The services that all parts about groups share. timeout: seconds that each request has. stored: what owners are
    known to have stored."""

    def __init__(
        self, leaves: Leaves, entities: RouterEntities, timeout: Callable[[], float], trouble: GroupTrouble
    ) -> None:
        self.leaves: Final = leaves
        self.entities: Final = entities
        self.timeout: Final = timeout
        self.trouble: Final = trouble
        self.stored: Final = StoredOffsets()
        self._look_at = 0.0
        self._looking: asyncio.Task[None] | None = None
        self.coordinators: Final = GroupCoordinators(timeout)

    async def ask(
        self, asker: Asker, leaf: LeafNumber, group: str, api_key: ApiKey, version: int, request: Tree
    ) -> Tree | None:
        """The answer of the coordinator of a group in any cluster."""
        known = self.leaves.by_number[leaf]
        return await self.coordinators.ask(asker.side_links, known, group, api_key, version, request)

    async def learn(self, topic_ids: Iterable[UUID]) -> bool:
        """Asks all clusters for their topics if one of these is not known: after a restart clients commit before they
        ask for Metadata. False: one that has not answered yet may know it."""
        ids = [*topic_ids]
        if all(map(self._is_known, ids)):
            return True
        now = asyncio.get_running_loop().time()
        if self._looking is None or (self._looking.done() and now >= self._look_at):
            self._look_at = now + BETWEEN_LOOKS
            self._looking = asyncio.get_running_loop().create_task(self.entities.look_at_topics(), name="new topics")
        await asyncio.shield(self._looking)
        return self.entities.are_all_heard or all(map(self._is_known, ids))

    def _is_known(self, topic_id: UUID) -> bool:
        return topic_id == ZERO_ID or self.entities.leaf_of_topic_id(topic_id) is not None

    def topic(self, key: str | UUID) -> str | None:
        """What clients call a topic, by its name or its id. None: it is not known."""
        return key if isinstance(key, str) else self.entities.topic_of_id(key)

    async def described(self, links: SideLinks, leaf: RouterLeaf, group: str) -> Tree | None:
        """A group of the classic protocol; any other is said to be dead. None if there is no answer."""
        request: dict[str, Any] = {"groups": [group]}
        api_key = ApiKey.DESCRIBE_GROUPS
        answer = await self.coordinators.ask(links, leaf, group, api_key, _DESCRIBE_VERSION, request)
        return _only(answer)

    async def described_consumers(self, links: SideLinks, leaf: RouterLeaf, group: str) -> Tree | None:
        """A group of the consumer protocol. None if there is none, or no answer."""
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
