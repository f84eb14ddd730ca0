"""OffsetCommit and OffsetFetch of groups whose topics are in several clusters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from mesh.routing.groups import commits
from mesh.routing.groups.commits import error_for_client, has_member, partitions, topic_ids
from mesh.routing.groups.multiplexed import MultiplexedMember, MultiplexedMembers
from mesh.routing.groups.stored_offsets import StoredOffset, TopicPartition
from mesh.routing.kit.division import Division
from mesh.routing.kit.errors import error_answer
from mesh.routing.kit.merge import merge
from mesh.routing.kit.split import split
from mesh.routing.names import LeafNumber
from mesh.runtime.entity_router.asking import Asker
from mesh.runtime.entity_router.groups.elsewhere import MembersElsewhere
from mesh.runtime.entity_router.groups.homes import GroupHomes
from mesh.runtime.entity_router.groups.offset_keeper import OffsetKeeper
from mesh.runtime.entity_router.groups.services import GroupServices
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree

_TRY_AGAIN: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
_FIRST_WITH_GROUPS: Final = 8


OffsetOf: TypeAlias = Callable[[str, str, int, int], int]
"""Returns the offset of a group. Its arguments are topic, group, partition, and the offset in the topic's cluster."""


class GroupOffsets:
    """The offsets of groups, divided over the home and the owners of topics. Stored offsets are remembered.

    offset_of: set for moved topics, whose new cluster may have an older offset.
    """

    offset_of: OffsetOf | None = None

    def __init__(
        self,
        services: GroupServices,
        homes: GroupHomes,
        keeper: OffsetKeeper,
        elsewhere: MembersElsewhere,
        members: MultiplexedMembers,
    ) -> None:
        self._services: Final = services
        self._homes: Final = homes
        self._keeper: Final = keeper
        self._elsewhere: Final = elsewhere
        self._members: Final = members

    async def commit(self, asker: Asker, version: int, request: Tree) -> Tree:
        """Answers an OffsetCommit. request: as decoded by `read_tree`, with the names that clients use."""
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
        if refusal is None and member is None:  # a member in several clusters is fenced by each of them
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
        """Commits at the owners. Returns their responses in the clients' form."""
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
                each["error_code"] = error_for_client(each["error_code"], is_member=is_member)
        return answers

    def _take_stored(self, request: Tree, answer: Tree, down: set[LeafNumber]) -> None:
        """Remembers the offsets that owners have stored. If an owner is down, a commit of the offset that it had stored
        before succeeds."""
        group = request["group_id"]
        known = self._services.stored.get(group)
        asked = {(key, each["partition_index"]): each for key, each in partitions(request)}
        stored: dict[TopicPartition, tuple[LeafNumber, StoredOffset]] = {}
        for key, place, owner, element in self._of_owners(group, answer):
            each = asked.get((key, place.partition))
            if each is None:
                continue
            last = known.get(place)
            if element["error_code"] == ErrorCode.NONE:
                stored[place] = owner, _committed(each)
                self._elsewhere.stored(group, owner)
            elif owner in down and last is not None and last.offset == each["committed_offset"]:
                element["error_code"] = ErrorCode.NONE
        self._note_stored(group, stored)

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
        """Returns the offsets of one group. asked: the part of the request with the group and its topics."""
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
            else services.ask(asker, leaf, group, api_key, version, _without_member(piece.request))
            for leaf, piece in division.pieces.items()
        }
        answers = dict(zip(asking, await asyncio.gather(*asking.values()), strict=True))
        codes = {leaf: _TRY_AGAIN if each is None else _failure(each) for leaf, each in answers.items()}
        client_codes = {
            leaf: code if leaf == home else error_for_client(code, is_member=False) for leaf, code in codes.items()
        }
        down = {leaf for leaf, code in client_codes.items() if leaf != home and code == _TRY_AGAIN}
        refused = next((code for leaf, code in client_codes.items() if code and leaf not in down), None)
        if refused is not None:
            return error_answer(api_key, version, request, refused)
        well = {leaf: each for leaf, each in answers.items() if each is not None and leaf not in down}
        answer = merge(division, well)
        group_answer = answer["groups"][0] if "groups" in answer else answer
        if down and not (asked["topics"] is not None and self._fill_known(group, group_answer, down)):
            return error_answer(api_key, version, request, _TRY_AGAIN)
        group_answer["error_code"] = ErrorCode.NONE
        if self.offset_of is not None:
            self._fill_carried(group, group_answer, self.offset_of)
        self._remember(group, group_answer, down)
        return answer

    def _fill_known(self, group: str, group_answer: Tree, down: set[LeafNumber]) -> bool:
        """Fills known offsets of clusters that are down into a response. Returns True if all of them are known."""
        known = self._services.stored.get(group)
        for _, place, owner, each in self._of_owners(group, group_answer):
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

    def _fill_carried(self, group: str, group_answer: Tree, offset_of: OffsetOf) -> None:
        for key, each in partitions(group_answer):
            if (topic := self._services.topic(key)) is None or each["error_code"]:
                continue
            stored = each["committed_offset"]
            if (offset := offset_of(topic, group, each["partition_index"], stored)) != stored:
                each |= {"committed_offset": offset, "committed_leader_epoch": -1}

    def _remember(self, group: str, group_answer: Tree, down: set[LeafNumber]) -> None:
        stored: dict[TopicPartition, tuple[LeafNumber, StoredOffset]] = {}
        for _, place, owner, each in self._of_owners(group, group_answer):
            if owner in down or each["error_code"]:
                continue
            if each["committed_offset"] < 0:
                self._services.stored.forget_partitions(group, [place])
            else:
                stored[place] = owner, _fetched(each)
        self._note_stored(group, stored)

    def _note_stored(self, group: str, stored: Mapping[TopicPartition, tuple[LeafNumber, StoredOffset]]) -> None:
        self._services.stored.remember(group, ((place, each) for place, (_, each) in stored.items()))
        for owner in {owner for owner, _ in stored.values()}:
            self._keeper.notice(group, owner)

    def _of_owners(self, group: str, answer: Tree) -> Iterator[tuple[Any, TopicPartition, LeafNumber, Tree]]:
        """Yields the partitions of a response that are not at the home of the group: the topic's name or id, the place,
        the owner, and the partition's element."""
        entities = self._services.entities
        home = entities.group_home(group)
        for key, each in partitions(answer):
            topic = self._services.topic(key)
            owner = None if topic is None else entities.leaf_of_partition(topic, each["partition_index"])
            if topic is not None and owner is not None and owner != home:
                yield key, TopicPartition(topic, each["partition_index"]), owner, each


def _of_member(member: MultiplexedMember | None, leaf: LeafNumber, division: Division) -> Tree:
    """The OffsetCommit for an owner: with the member's epoch there if it is a member there, otherwise without a
    member."""
    request = division.pieces[leaf].request
    if member is None or (route := member.memberships.get(leaf)) is None:
        return commits.without_member(request)
    return request | {"generation_id_or_member_epoch": route.epoch}


def _committed(each: Tree) -> StoredOffset:
    metadata = each["committed_metadata"] or ""
    return StoredOffset(each["committed_offset"], each.get("committed_leader_epoch", -1), metadata)


def _fetched(each: Tree) -> StoredOffset:
    return StoredOffset(each["committed_offset"], each.get("committed_leader_epoch", -1), each["metadata"] or "")


def _without_member(request: Tree) -> Tree:
    """An OffsetFetch without the member that sends it: the owner has no members of the group."""
    if "groups" not in request:
        return request
    return {**request, "groups": [{**each, "member_id": None, "member_epoch": -1} for each in request["groups"]]}


def _failure(answer: Tree) -> int:
    """The error of a whole response about one group; also a partition's error after which clients try again. 0 for
    none."""
    group_answer: Any = answer["groups"][0] if answer.get("groups") else answer
    if code := group_answer.get("error_code", 0):
        return int(code)
    codes = {each["error_code"] for _, each in partitions(group_answer)} if "topics" in group_answer else set()
    return next((code for code in codes if error_for_client(code, is_member=False) == _TRY_AGAIN), 0)
