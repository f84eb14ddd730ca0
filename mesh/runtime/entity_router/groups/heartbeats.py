"""Heartbeats of the consumer and share protocols, divided over the clusters that have topics of a member."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from mesh.pool.groups.patterns import InvalidPattern, TopicPattern
from mesh.records.spans import TopicName
from mesh.routing.groups.multiplexed import JOIN, LARGEST_SUBSCRIPTION, MultiplexedMember, MultiplexedMembers, is_full
from mesh.routing.kit.errors import error_answer
from mesh.routing.names import LeafNumber
from mesh.runtime.entity_router.asking import Asker
from mesh.runtime.entity_router.groups.homes import GroupHomes
from mesh.runtime.entity_router.groups.services import GroupServices
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree

PATTERNS: Final = 30.0
"""Seconds until the topics that match a regular expression are looked up again."""


class GroupHeartbeats:
    """Sends the heartbeats of members to the home of a group, and then to the other clusters in which a member has
    topics."""

    def __init__(self, services: GroupServices, homes: GroupHomes, members: MultiplexedMembers) -> None:
        self._services: Final = services
        self._homes: Final = homes
        self._members: Final = members

    async def answer(self, asker: Asker, api_key: ApiKey, version: int, request: Tree) -> Tree:
        """Answers ConsumerGroupHeartbeat and ShareGroupHeartbeat."""
        group, home = request["group_id"], self._services.entities.group_home(request["group_id"])
        if asker.leaf.number != home:
            return error_answer(api_key, version, request, ErrorCode.NOT_COORDINATOR)
        if request["member_epoch"] < JOIN:
            return await self._leave(asker, api_key, version, request)
        member = self._members.take_heartbeat(request, home, asyncio.get_running_loop().time())
        if member is None:  # this process does not know the clusters of the member: it has to join again
            return error_answer(api_key, version, request, ErrorCode.FENCED_MEMBER_EPOCH)
        try:
            names = await self._names(member, request)
        except InvalidPattern as problem:
            return error_answer(api_key, version, request, ErrorCode.INVALID_REGULAR_EXPRESSION, str(problem))
        if names is not None and sum(map(len, names)) > LARGEST_SUBSCRIPTION:
            return error_answer(api_key, version, request, ErrorCode.INVALID_REQUEST, "too many topics")
        await self._services.learn(each["topic_id"] for each in request.get("topic_partitions") or ())
        await self._services.learn(self._services.entities.concatenated_ids(member.names if names is None else names))
        asked = self._members.heartbeats(member, request, names)
        at_home = await self._homes.ask(asker, group, api_key, version, asked.pop(home))
        if at_home is None:
            return error_answer(api_key, version, request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if at_home["error_code"]:
            return at_home
        await self._learn_assigned(home, at_home)
        self._members.accepted(member, home, at_home)
        if not request["member_id"]:
            self._members.assign_id(group, at_home["member_id"], member)
            asked = {leaf: each | {"member_id": at_home["member_id"]} for leaf, each in asked.items()}
        return await self._with_others(asker, api_key, version, request, member, at_home, asked)

    async def _with_others(
        self,
        asker: Asker,
        api_key: ApiKey,
        version: int,
        request: Tree,
        member: MultiplexedMember,
        at_home: Tree,
        asked: dict[LeafNumber, Tree],
    ) -> Tree:
        group = request["group_id"]
        asking = (self._services.ask(asker, leaf, group, api_key, version, each) for leaf, each in asked.items())
        answers = dict(zip(asked, await asyncio.gather(*asking), strict=True))
        for leaf, answer in answers.items():
            if answer is not None:
                await self._learn_assigned(leaf, answer)
            if code := self._members.take_answer(member, leaf, answer):
                assert answer is not None
                return error_answer(api_key, version, request, code, answer["error_message"])
        well = [each for each in answers.values() if each is not None and not each["error_code"]]
        return self._members.answer(member, at_home, well, is_full=is_full(request))

    async def _learn_assigned(self, leaf: LeafNumber, answer: Tree) -> None:
        """Looks up the new ids of parts of concatenated topics that were created again in their cluster."""
        if answer.get("assignment") is not None and self._services.entities.parts_at(leaf):
            await self._services.learn(each["topic_id"] for each in answer["assignment"]["topic_partitions"])

    async def _leave(self, asker: Asker, api_key: ApiKey, version: int, request: Tree) -> Tree:
        group, home = request["group_id"], asker.leaf.number
        member = self._members.get(group, request["member_id"])
        self._members.forget(group, request["member_id"])
        others = [] if member is None else [leaf for leaf in member.memberships if leaf != home]
        asked = (self._services.ask(asker, leaf, group, api_key, version, request) for leaf in others)
        at_home, *_ = await asyncio.gather(self._homes.ask(asker, group, api_key, version, request), *asked)
        if at_home is None:
            return error_answer(api_key, version, request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return at_home

    async def _names(self, member: MultiplexedMember, request: Tree) -> Sequence[str] | None:
        """The names of all topics that a member subscribes to now; None if they have not changed. Raises
        InvalidPattern."""
        names, text = request.get("subscribed_topic_names"), request.get("subscribed_topic_regex")
        if text is not None:
            member.pattern, member.matched_at = text, 0.0
        if names is not None:
            member.named = tuple(names)
        now = asyncio.get_running_loop().time()
        if not member.pattern or (names is None and now < member.matched_at + PATTERNS):
            return None if names is None and text is None else member.named
        pattern = TopicPattern(member.pattern)
        entities = self._services.entities
        await entities.refresh_topics()
        if entities.are_all_reported:  # else the next heartbeat finds the topics of a cluster that was late
            member.matched_at = now
        matching = [name for name in entities.topics() if pattern.matches(TopicName(name))]
        return [*dict.fromkeys([*member.named, *sorted(matching)])]
