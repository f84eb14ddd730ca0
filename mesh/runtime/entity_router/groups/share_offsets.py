"""The offsets of share groups whose topics are in several clusters, for tools. Each cluster has the offsets of its own
topics."""

from __future__ import annotations

import asyncio
from typing import Final

from mesh.routing.kit.errors import error_answer
from mesh.routing.kit.merge import merge
from mesh.routing.kit.split import split
from mesh.routing.names import LeafNumber
from mesh.runtime.entity_router.asking import Asker
from mesh.runtime.entity_router.groups.homes import GroupHomes
from mesh.runtime.entity_router.groups.services import GroupServices
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree


class ShareOffsets:
    """Describes, alters and deletes the offsets of share groups at the owners of topics."""

    def __init__(self, services: GroupServices, homes: GroupHomes) -> None:
        self._services: Final = services
        self._homes: Final = homes

    async def answer(self, asker: Asker, api_key: ApiKey, version: int, request: Tree) -> Tree:
        if api_key is not ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS:
            return await self._divided(asker, api_key, version, request, request["group_id"])
        asked = ({**request, "groups": [group]} for group in request["groups"])
        answers = [await self._divided(asker, api_key, version, each, each["groups"][0]["group_id"]) for each in asked]
        throttled = max((each.get("throttle_time_ms", 0) for each in answers), default=0)
        return {"throttle_time_ms": throttled, "groups": [group for each in answers for group in each["groups"]]}

    async def _divided(self, asker: Asker, api_key: ApiKey, version: int, request: Tree, group: str) -> Tree:
        entities = self._services.entities
        home = entities.group_home(group)
        if asker.leaf.number != home:
            return error_answer(api_key, version, request, ErrorCode.NOT_COORDINATOR)
        division = split(api_key, version, request, entities, home)
        asking = [
            self._ask(asker, leaf, group, api_key, version, each.request) for leaf, each in division.pieces.items()
        ]
        answers = zip(division.pieces, await asyncio.gather(*asking), strict=True)
        return merge(division, _without_absent({leaf: answer for leaf, answer in answers if answer is not None}))

    async def _ask(
        self, asker: Asker, leaf: LeafNumber, group: str, api_key: ApiKey, version: int, request: Tree
    ) -> Tree | None:
        if leaf == asker.leaf.number:
            return await self._homes.ask(asker, group, api_key, version, request)
        return await self._services.ask(asker, leaf, group, api_key, version, request)


def _without_absent(answers: dict[LeafNumber, Tree]) -> dict[LeafNumber, Tree | int]:
    """Turns GROUP_ID_NOT_FOUND into an empty success if the group is in another cluster."""
    known: dict[LeafNumber, Tree | int] = {}
    is_anywhere = any(_code_of(answer) == ErrorCode.NONE for answer in answers.values())
    for leaf, answer in answers.items():
        if is_anywhere and _code_of(answer) == ErrorCode.GROUP_ID_NOT_FOUND:
            known[leaf] = _nothing(answer)
        else:
            known[leaf] = answer
    return known


def _code_of(answer: Tree) -> int:
    groups = answer.get("groups")
    return int(groups[0]["error_code"]) if groups else int(answer.get("error_code", ErrorCode.NONE))


def _nothing(answer: Tree) -> Tree:
    well = {"error_code": ErrorCode.NONE, "error_message": None}
    if "groups" in answer:
        return {**answer, "groups": [{**answer["groups"][0], **well, "topics": []}]}
    return {**answer, **well}
