"""DeleteGroups and OffsetDelete. They also delete the state that a group has in clusters that are not its home."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from mesh.routing.groups.commits import partitions
from mesh.routing.groups.stored_offsets import TopicPartition
from mesh.routing.kit.division import Division
from mesh.routing.kit.errors import error_answer
from mesh.routing.kit.merge import merge
from mesh.routing.kit.split import split
from mesh.routing.names import LeafNumber
from mesh.runtime.entity_router.asking import Asker
from mesh.runtime.entity_router.groups.homes import GroupHomes
from mesh.runtime.entity_router.groups.offset_keeper import OffsetKeeper
from mesh.runtime.entity_router.groups.services import GroupServices
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree

_DOWN: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE
_NONE_THERE: Final = frozenset({ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND})


class GroupDeletion:
    """Deletes groups and offsets: at the home first, and then at the owners of topics."""

    def __init__(self, services: GroupServices, homes: GroupHomes, keeper: OffsetKeeper) -> None:
        self._services: Final = services
        self._homes: Final = homes
        self._keeper: Final = keeper

    async def groups(self, asker: Asker, version: int, request: Tree) -> Tree:
        """Answers DeleteGroups."""
        results = [await self._group(asker, version, group) for group in request["groups_names"]]
        return {"results": results}

    async def _group(self, asker: Asker, version: int, group: str) -> Tree:
        services, request = self._services, {"groups_names": [group]}
        if services.entities.group_home(group) != asker.leaf.number:
            return {"group_id": group, "error_code": ErrorCode.NOT_COORDINATOR}
        at_home = _result(await self._homes.ask(asker, group, ApiKey.DELETE_GROUPS, version, request))
        if at_home["error_code"] not in _NONE_THERE:
            return {**at_home, "group_id": group}
        others = [leaf for leaf in services.leaves.numbers if leaf != asker.leaf.number]
        asked = (services.ask(asker, leaf, group, ApiKey.DELETE_GROUPS, version, request) for leaf in others)
        results = [at_home, *map(_result, await asyncio.gather(*asked))]
        failed = next((each for each in results if each["error_code"] not in _NONE_THERE), None)
        if failed is not None:
            return {**failed, "group_id": group}
        services.stored.forget(group)
        self._keeper.forget(group)
        is_deleted = any(each["error_code"] == ErrorCode.NONE for each in results)
        return {"group_id": group, "error_code": ErrorCode.NONE if is_deleted else ErrorCode.GROUP_ID_NOT_FOUND}

    async def offsets(self, asker: Asker, version: int, request: Tree) -> Tree:
        """Answers OffsetDelete. Brokers keep the offsets of topics that a group is subscribed to. As long as a group
        has members, the mesh keeps all of its offsets in clusters that are not its home."""
        api_key, group, services = ApiKey.OFFSET_DELETE, request["group_id"], self._services
        home = services.entities.group_home(group)
        if asker.leaf.number != home:
            return error_answer(api_key, version, request, ErrorCode.NOT_COORDINATOR)
        division = split(api_key, version, request, services.entities, home)
        owners = [leaf for leaf in division.pieces if leaf != home]
        is_empty = await self._homes.is_empty(asker.side_links, asker.leaf, group) if owners else True
        if is_empty is None:
            return error_answer(api_key, version, request, _DOWN)
        answers: dict[LeafNumber, Tree | int] = {}
        for leaf, piece in division.pieces.items():
            if leaf == home:
                answers[leaf] = _or_down(await self._homes.ask(asker, group, api_key, version, piece.request))
            elif is_empty:
                answers[leaf] = _or_down(await services.ask(asker, leaf, group, api_key, version, piece.request))
            else:
                answers[leaf] = _of_each(piece.request, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
        answer = merge(division, _without_unknown(division, answers))
        deleted = (each for each in partitions(answer) if each[1]["error_code"] == ErrorCode.NONE)
        services.stored.forget_partitions(group, _places(deleted))
        return answer


def _places(elements: Iterable[tuple[str, Tree]]) -> list[TopicPartition]:
    return [TopicPartition(topic, each["partition_index"]) for topic, each in elements]


def _result(answer: Tree | None) -> Tree:
    if answer is None or not answer["results"]:
        return {"error_code": _DOWN}
    code = answer["results"][0]["error_code"]
    return {**answer["results"][0], "error_code": _DOWN if code == ErrorCode.NOT_COORDINATOR else code}


def _or_down(answer: Tree | None) -> Tree | int:
    return _DOWN if answer is None else answer


def _of_each(request: Tree, code: ErrorCode) -> Tree:
    topics = [
        {
            "name": topic["name"],
            "partitions": [
                {"partition_index": each["partition_index"], "error_code": code} for each in topic["partitions"]
            ],
        }
        for topic in request["topics"]
    ]
    return {"error_code": ErrorCode.NONE, "topics": topics}


def _without_unknown(division: Division, answers: dict[LeafNumber, Tree | int]) -> dict[LeafNumber, Tree | int]:
    """Turns GROUP_ID_NOT_FOUND into success if another cluster knows the group: this one has nothing to delete."""
    unknown = {
        leaf
        for leaf, answer in answers.items()
        if not isinstance(answer, int) and answer["error_code"] == ErrorCode.GROUP_ID_NOT_FOUND
    }
    if len(unknown) == len(answers):
        return answers
    return answers | {leaf: _of_each(division.pieces[leaf].request, ErrorCode.NONE) for leaf in unknown}
