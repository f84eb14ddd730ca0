"""ListGroups of a node: the groups that have their home there, and the groups with members that bypass the mesh."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

from mesh.routing.groups.multiplexed import MultiplexedMembers
from mesh.routing.kit.errors import error_answer
from mesh.runtime.entity_router.asking import Asker, ask
from mesh.runtime.entity_router.groups.offset_keeper import is_offset_keeper
from mesh.runtime.entity_router.groups.services import GroupServices
from mesh.runtime.entity_router.leaves import SERVED
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree

_WITHOUT_MEMBERS: Final = frozenset({"Empty", "Dead"})
_DESCRIBED_BY: Final = {
    "": (ApiKey.DESCRIBE_GROUPS, 5, "groups"),
    "classic": (ApiKey.DESCRIBE_GROUPS, 5, "groups"),
    "consumer": (ApiKey.CONSUMER_GROUP_DESCRIBE, 0, "group_ids"),
    "share": (ApiKey.SHARE_GROUP_DESCRIBE, 1, "group_ids"),
}
"""The API and version that describes the members of each type of group, with the field for group ids. The mesh makes no
members of other types in clusters that are not their home."""
_MOST_AT_ONCE: Final = 16
"""The most groups whose homes are asked at the same time."""


class GroupListing:
    """The groups that a node lists. A cluster that is not the home of a group may have its offsets, its keeper, and
    members that the mesh has made there. A group with nothing else is not listed."""

    def __init__(self, services: GroupServices, members: MultiplexedMembers) -> None:
        self._services: Final = services
        self._members: Final = members

    async def answer(self, asker: Asker, version: int, request: Tree) -> Tree:
        """Answers ListGroups."""
        api_key = ApiKey.LIST_GROUPS
        served = asker.leaf.nodes.served_at(asker.node, SERVED)
        newest = served[api_key].highest if api_key in served else version  # a newer one reports more
        answer = await self._ask(asker, api_key, newest, request)
        if answer is None:
            return error_answer(api_key, version, request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        home, own = self._services.entities.group_home, asker.leaf.number
        others = [each for each in answer["groups"] if home(each["group_id"]) != own]
        shown = await self._run_directly(asker, others) if others else frozenset[str]()
        kept = [each for each in answer["groups"] if home(each["group_id"]) == own or each["group_id"] in shown]
        return answer | {"groups": kept}

    async def _run_directly(self, asker: Asker, groups: Collection[Tree]) -> Collection[str]:
        """The ids of groups with members that bypass the mesh."""
        shown, by_type = set[str](), dict[str, list[str]]()
        for each in groups:
            if each.get("group_state") not in _WITHOUT_MEMBERS:
                by_type.setdefault(each.get("group_type", "").lower(), []).append(each["group_id"])
        gate = asyncio.Semaphore(_MOST_AT_ONCE)
        for type, ids in by_type.items():
            if type not in _DESCRIBED_BY:
                shown.update(ids)
                continue
            api_key, version, field = _DESCRIBED_BY[type]
            described = await self._ask(asker, api_key, version, {field: ids})
            found = described["groups"] if described is not None else ()
            known = await asyncio.gather(
                *(self._is_run_directly(asker, api_key, version, each, gate) for each in found)
            )
            shown.update(each["group_id"] for each, is_direct in zip(found, known, strict=True) if is_direct)
        return shown

    async def _is_run_directly(
        self, asker: Asker, api_key: ApiKey, version: int, described: Tree, gate: asyncio.Semaphore
    ) -> bool:
        client_id, group = asker.leaf.nodes.client_id, described["group_id"]
        ids = [each["member_id"] for each in described["members"] if not is_offset_keeper(each, client_id)]
        if api_key is ApiKey.DESCRIBE_GROUPS:
            return bool(ids)
        unknown = [each for each in ids if self._members.get(group, each) is None]
        if not unknown:
            return False
        home = self._services.entities.group_home(group)
        async with gate:
            answer = await self._services.ask(asker, home, group, api_key, version, {"group_ids": [group]})
        if answer is None:
            return False  # they may be members of another process of the mesh
        at_home = {member["member_id"] for each in answer["groups"] for member in each["members"]}
        return not at_home.issuperset(unknown)

    async def _ask(self, asker: Asker, api_key: ApiKey, version: int, request: Tree) -> Tree | None:
        """Sends a request to the node of the client's connection."""
        timeout = self._services.timeout()
        return await ask(asker.side_links, asker.leaf, asker.node, api_key, version, request, timeout)
