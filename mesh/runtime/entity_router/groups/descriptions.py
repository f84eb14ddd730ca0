"""Descriptions of groups whose members are in several clusters at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from mesh.routing.kit.embedded import FOREIGN_PREFIX
from mesh.routing.kit.errors import error_answer
from mesh.routing.kit.leaf_names import ClientNames
from mesh.routing.kit.translation import translated
from mesh.routing.names import LeafNumber
from mesh.runtime.entity_router.asking import Asker
from mesh.runtime.entity_router.groups.homes import GroupHomes
from mesh.runtime.entity_router.groups.services import GroupServices
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree

_ASSIGNMENTS: Final = ("assignment", "target_assignment")


class GroupDescriptions:
    """Descriptions of groups. A group is as its home describes it, with the assignments of its members in all
    clusters."""

    def __init__(self, services: GroupServices, homes: GroupHomes) -> None:
        self._services: Final = services
        self._homes: Final = homes

    async def answer(self, asker: Asker, api_key: ApiKey, version: int, request: Tree) -> Tree:
        """Answers ConsumerGroupDescribe and ShareGroupDescribe."""
        groups = [await self._group(asker, api_key, version, request, group) for group in request["group_ids"]]
        return {"groups": groups}

    async def _group(self, asker: Asker, api_key: ApiKey, version: int, request: Tree, group: str) -> Tree:
        asked, home = {**request, "group_ids": [group]}, asker.leaf.number
        if self._services.entities.group_home(group) != home:
            return _failed(api_key, version, asked, ErrorCode.NOT_COORDINATOR)
        at_home = await self._homes.ask(asker, group, api_key, version, asked)
        if at_home is None:
            return _failed(api_key, version, asked, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        described = self._described(api_key, version, home, at_home)
        if described["error_code"]:
            return described
        others = [leaf for leaf in self._services.leaves.numbers if leaf != home]
        asking = (self._services.ask(asker, leaf, group, api_key, version, asked) for leaf in others)
        for leaf, answer in zip(others, await asyncio.gather(*asking), strict=True):
            if answer is not None:
                _add(described, self._described(api_key, version, leaf, answer))
        return described

    def _described(self, api_key: ApiKey, version: int, leaf: LeafNumber, answer: Tree) -> Tree:
        names = ClientNames(self._services.entities, leaf, {})
        described = dict(translated(api_key, version, Direction.RESPONSE, answer, names)["groups"][0])
        for member in described["members"]:
            named = member["subscribed_topic_names"]
            member["subscribed_topic_names"] = [each for each in named if not each.startswith(FOREIGN_PREFIX)]
        return described


def _failed(api_key: ApiKey, version: int, asked: Tree, code: ErrorCode) -> Tree:
    return dict(error_answer(api_key, version, asked, code)["groups"][0])


def _add(described: Tree, other: Tree) -> None:
    """Adds the subscriptions and assignments that members have in another cluster."""
    by_id = {each["member_id"]: each for each in other["members"]}
    for member in described["members"]:
        if (there := by_id.get(member["member_id"])) is None:
            continue
        names = dict.fromkeys([*member["subscribed_topic_names"], *there["subscribed_topic_names"]])
        member["subscribed_topic_names"] = [*names]
        for field in _ASSIGNMENTS:
            if member.get(field) is not None and there.get(field) is not None:
                at_home, elsewhere = member[field]["topic_partitions"], there[field]["topic_partitions"]
                member[field]["topic_partitions"] = _joined([*at_home, *elsewhere])


def _joined(assigned: Sequence[Tree]) -> list[Tree]:
    """Merges assignments of the same topic: a concatenated topic is assigned in several clusters."""
    topics: dict[UUID, Tree] = {}
    for each in assigned:
        first = topics.get(each["topic_id"])
        partitions = each["partitions"] if first is None else [*first["partitions"], *each["partitions"]]
        topics[each["topic_id"]] = {**each, "partitions": sorted(partitions)}
    return [*topics.values()]
