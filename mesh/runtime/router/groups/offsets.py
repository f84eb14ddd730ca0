"""OffsetCommit and OffsetFetch of groups whose topics are in several clusters."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mesh.routing.groups import commits
from mesh.routing.groups.commits import has_member, partitions, told_of_owner, topic_ids
from mesh.routing.groups.multiplexed import Member, MultiplexedMembers
from mesh.routing.groups.stored_offsets import Place, StoredOffset
from mesh.routing.kit.division import Division
from mesh.routing.kit.errors import error_answer
from mesh.routing.kit.merge import merge
from mesh.routing.kit.split import split
from mesh.routing.names import LeafNumber
from mesh.runtime.router.asking import Asker
from mesh.runtime.router.groups.elsewhere import MembersElsewhere
from mesh.runtime.router.groups.homes import GroupHomes
from mesh.runtime.router.groups.keeper import GroupKeeper
from mesh.runtime.router.groups.services import GroupServices
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree

_TRY_AGAIN: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
_FIRST_WITH_GROUPS: Final = 8


class GroupOffsets:
    """The offsets of groups, divided over the home and the owners of topics. Remembers what is stored there."""

    def __init__(
        self,
        services: GroupServices,
        homes: GroupHomes,
        keeper: GroupKeeper,
        elsewhere: MembersElsewhere,
        members: MultiplexedMembers,
    ) -> None:
        self._services: Final = services
        self._homes: Final = homes
        self._keeper: Final = keeper
        self._elsewhere: Final = elsewhere
        self._members: Final = members

    async def commit(self, asker: Asker, version: int, request: Tree) -> Tree:
        """request: in the names of clients, as `read_tree` has it."""
        api_key, group = ApiKey.OFFSET_COMMIT, request["group_id"]
        entities = self._services.entities
        home = entities.group_home(group)
        if asker.leaf.number != home:
            return error_answer(api_key, version, request, ErrorCode.NOT_COORDINATOR)
        if not await self._services.learn(topic_ids(request)):
            return error_answer(api_key, version, request, _TRY_AGAIN)
        division = split(api_key, version, request, entities, home)
        answers: dict[LeafNumber, Tree | int] = {}
        refusal: ErrorCode | int | None = None
        if home in division.pieces:
            own = await self._homes.ask(asker, group, api_key, version, division.pieces[home].request)
            if own is None:
                return error_answer(api_key, version, request, _TRY_AGAIN)
            answers[home], refusal = own, commits.refusal_at_home(own)
        member = self._members.get(group, request["member_id"])
        if refusal is None and member is None:  # members of several clusters are fenced by each
            refusal = await self._homes.refusal(asker, request)
        if refusal:
            return error_answer(api_key, version, request, refusal)
        answers |= await self._commit_at_owners(asker, version, request, division)
        answer = merge(division, answers)
        self._take_stored(request, answer, down={leaf for leaf, each in answers.items() if isinstance(each, int)})
        return answer

    async def _commit_at_owners(
        self, asker: Asker, version: int, request: Tree, division: Division
    ) -> dict[LeafNumber, Tree | int]:
        """By owner: what it has answered, as a client may be told of it."""
        group = request["group_id"]
        member = self._members.get(group, request["member_id"])
        is_member = has_member(request) and member is None
        owners = [leaf for leaf in division.pieces if leaf != asker.leaf.number]
        asked = (
            self._services.ask(asker, leaf, group, ApiKey.OFFSET_COMMIT, version, _of_member(member, leaf, division))
            for leaf in owners
        )
        answers: dict[LeafNumber, Tree | int] = {}
        for leaf, answer in zip(owners, await asyncio.gather(*asked), strict=True):
            answers[leaf] = _TRY_AGAIN if answer is None else answer
            for _, each in partitions(answer) if answer is not None else ():
                if is_member and each["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID:
                    self._elsewhere.refused(group, leaf)
                each["error_code"] = told_of_owner(each["error_code"], is_member=is_member)
        return answers

    def _take_stored(self, request: Tree, answer: Tree, down: set[LeafNumber]) -> None:
        """Remembers what owners have stored. What an owner that is down had stored before is answered as stored."""
        group = request["group_id"]
        known = self._services.stored.of(group)
        asked = {(key, each["partition_index"]): each for key, each in partitions(request)}
        stored: dict[Place, tuple[LeafNumber, StoredOffset]] = {}
        for key, place, owner, told in self._of_owners(group, answer):
            each = asked.get((key, place.partition))
            if each is None:
                continue
            last = known.get(place)
            if told["error_code"] == ErrorCode.NONE:
                stored[place] = owner, _committed(each)
                self._elsewhere.stored(group, owner)
            elif owner in down and last is not None and last.offset == each["committed_offset"]:
                told["error_code"] = ErrorCode.NONE
        self._saw(group, stored)

    async def fetch(self, asker: Asker, version: int, request: Tree) -> Tree:
        if version < _FIRST_WITH_GROUPS:
            return await self._fetch(asker, version, request, request)
        asked = ({**request, "groups": [group]} for group in request["groups"])
        answers = [await self._fetch(asker, version, each, each["groups"][0]) for each in asked]
        return {
            "throttle_time_ms": max((each.get("throttle_time_ms", 0) for each in answers), default=0),
            "groups": [group for each in answers for group in each["groups"]],
        }

    async def _fetch(self, asker: Asker, version: int, request: Tree, asked: Tree) -> Tree:
        """Of one group. asked: the part of the request that names it and its topics."""
        api_key, services, group = ApiKey.OFFSET_FETCH, self._services, asked["group_id"]
        home = services.entities.group_home(group)
        if asker.leaf.number != home:
            return error_answer(api_key, version, request, ErrorCode.NOT_COORDINATOR)
        if not await services.learn(topic_ids(asked)):
            return error_answer(api_key, version, request, _TRY_AGAIN)
        division = split(api_key, version, request, services.entities, home)
        asking = {
            leaf: self._homes.ask(asker, group, api_key, version, piece.request)
            if leaf == home
            else services.ask(asker, leaf, group, api_key, version, _of_nobody(piece.request))
            for leaf, piece in division.pieces.items()
        }
        answers = dict(zip(asking, await asyncio.gather(*asking.values()), strict=True))
        codes = {leaf: _TRY_AGAIN if each is None else _failure(each) for leaf, each in answers.items()}
        told_codes = {
            leaf: code if leaf == home else told_of_owner(code, is_member=False) for leaf, code in codes.items()
        }
        down = {leaf for leaf, code in told_codes.items() if leaf != home and code == _TRY_AGAIN}
        refused = next((code for leaf, code in told_codes.items() if code and leaf not in down), None)
        if refused is not None:
            return error_answer(api_key, version, request, refused)
        well = {leaf: each for leaf, each in answers.items() if each is not None and leaf not in down}
        answer = merge(division, well)
        told = answer["groups"][0] if "groups" in answer else answer
        if down and not (asked["topics"] is not None and self._tell_known(group, told, down)):
            return error_answer(api_key, version, request, _TRY_AGAIN)
        told["error_code"] = ErrorCode.NONE
        self._remember(group, told, down)
        return answer

    def _tell_known(self, group: str, told: Tree, down: set[LeafNumber]) -> bool:
        """Puts the offsets of clusters that are down into an answer as far as they are known; whether all are."""
        known = self._services.stored.of(group)
        for _, place, owner, each in self._of_owners(group, told):
            if owner not in down:
                continue
            last = known.get(place)
            if last is None:
                return False
            each |= {
                "error_code": ErrorCode.NONE,
                "committed_offset": last.offset,
                "committed_leader_epoch": last.leader_epoch,
                "metadata": last.metadata,
            }
        return True

    def _remember(self, group: str, told: Tree, down: set[LeafNumber]) -> None:
        stored: dict[Place, tuple[LeafNumber, StoredOffset]] = {}
        for _, place, owner, each in self._of_owners(group, told):
            if owner in down or each["error_code"]:
                continue
            if each["committed_offset"] < 0:
                self._services.stored.gone(group, [place])
            else:
                stored[place] = owner, _fetched(each)
        self._saw(group, stored)

    def _saw(self, group: str, stored: Mapping[Place, tuple[LeafNumber, StoredOffset]]) -> None:
        self._services.stored.saw(group, ((place, each) for place, (_, each) in stored.items()))
        for owner in {owner for owner, _ in stored.values()}:
            self._keeper.notice(group, owner)

    def _of_owners(self, group: str, answer: Tree) -> Iterator[tuple[Any, Place, LeafNumber, Tree]]:
        """The partitions of an answer that are not at the home of the group: what names the topic, and the owner."""
        entities = self._services.entities
        home = entities.group_home(group)
        for key, each in partitions(answer):
            topic = self._services.topic(key)
            owner = None if topic is None else entities.owner(topic)
            if topic is not None and owner is not None and owner.leaf != home:
                yield key, Place(topic, each["partition_index"]), owner.leaf, each


def _of_member(member: Member | None, leaf: LeafNumber, division: Division) -> Tree:
    """The OffsetCommit that an owner is asked: a member's where it is one there, else nobody's."""
    request = division.pieces[leaf].request
    if member is None or (route := member.routes.get(leaf)) is None:
        return commits.bare(request)
    return request | {"generation_id_or_member_epoch": route.epoch}


def _committed(each: Tree) -> StoredOffset:
    metadata = each["committed_metadata"] or ""
    return StoredOffset(each["committed_offset"], each.get("committed_leader_epoch", -1), metadata)


def _fetched(each: Tree) -> StoredOffset:
    return StoredOffset(each["committed_offset"], each.get("committed_leader_epoch", -1), each["metadata"] or "")


def _of_nobody(request: Tree) -> Tree:
    """The same OffsetFetch without the member that asks: the owner has none."""
    if "groups" not in request:
        return request
    return {**request, "groups": [{**each, "member_id": None, "member_epoch": -1} for each in request["groups"]]}


def _failure(answer: Tree) -> int:
    """The error of a whole answer about one group."""
    told: Any = answer["groups"][0] if answer.get("groups") else answer
    if code := told.get("error_code", 0):
        return int(code)
    codes = {each["error_code"] for _, each in partitions(told)} if "topics" in told else set()
    return next((code for code in codes if told_of_owner(code, is_member=False) == _TRY_AGAIN), 0)
