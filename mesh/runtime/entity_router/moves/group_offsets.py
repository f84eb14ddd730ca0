"""The offsets that groups have committed for a topic: they are read on one side of a move, and committed on the
other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from mesh.routing.moves.move import UnacceptedOffset, UnacceptedOffsets
from mesh.routing.moves.offsets import NONE_STORED, committed, offset_of, unaccepted_of
from mesh.runtime.entity_router.groups.coordinators import GroupCoordinators, highest_at
from mesh.runtime.entity_router.moves.side import SideUnavailable, TopicSide
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree

AT_ONCE: Final = 16
"""The most groups that are requested at the same time."""
SHARE, STREAMS = "share", "streams"
_STREAM_PROTOCOL: Final = "stream"
_LIST_VERSION: Final = 5
_FETCH_VERSION: Final = 7
"""The version of OffsetFetch: the last one with a single group, and the first one that can ask for stable offsets."""
_COMMIT_VERSION: Final = 7
_DESCRIBE_VERSION: Final = 5
_WITH_MEMBERS: Final = frozenset({22, 25, 27, 82, 110, 113})
"""Errors of a commit without a member, for a group that has members."""


class Listed(NamedTuple):
    """A group of the source. type: "" if its brokers do not report types."""

    id: str
    type: str


class GroupOffset(NamedTuple):
    """An offset of a group, and the metadata that it was committed with."""

    offset: int
    metadata: str


class GroupCarrier:
    """Carries the committed offsets of groups from the source of a move to its target.

    unaccepted: the offsets that the source did not accept when the topic came there. Clients read them there as
    committed, so they are carried too.
    """

    def __init__(
        self,
        source: TopicSide,
        target: TopicSide,
        coordinators: GroupCoordinators,
        unaccepted: UnacceptedOffsets,
    ) -> None:
        self._source: Final = source
        self._target: Final = target
        self._coordinators: Final = coordinators
        self._unaccepted: Final = unaccepted
        self._gate: Final = asyncio.Semaphore(AT_ONCE)

    async def carry(self, width: int) -> dict[str, Mapping[int, UnacceptedOffset]]:
        """Commits at the target the offsets that groups have committed at the source. Returns the offsets that the
        target did not accept. Raises SideUnavailable."""
        groups = [each.id for each in await self.groups() if each.type != SHARE]
        found = await asyncio.gather(*(self._carried(group, width) for group in groups))
        return {group: each for group, each in zip(groups, found, strict=True) if each}

    async def groups(self) -> list[Listed]:
        """Returns the groups of all nodes of the source, and those whose offsets only the move knows. Raises
        SideUnavailable."""
        found = {group: Listed(group, "") for group in self._unaccepted}
        if not (nodes := self._source.nodes()):
            raise SideUnavailable(f"{self._source.leaf.path} has not said its nodes")
        for node in nodes:
            version = min(_LIST_VERSION, highest_at(self._source.leaf, node, ApiKey.LIST_GROUPS))
            answer = await self._source.ask(ApiKey.LIST_GROUPS, version, {}, node)
            if answer["error_code"]:
                raise SideUnavailable(f"the groups of {self._source.leaf.path}: error {answer['error_code']}")
            for each in answer["groups"]:
                found[each["group_id"]] = Listed(each["group_id"], each.get("group_type", "").lower())
        return [*found.values()]

    async def consuming(self, width: int) -> dict[str, str]:
        """Returns the groups that have offsets of the topic. The value of a group is its type if the type prevents a
        move (share, streams), "" otherwise. Raises SideUnavailable."""
        groups = await self.groups()
        kinds = await asyncio.gather(*(self._kind(each, width) for each in groups))
        return {each.id: kind for each, kind in zip(groups, kinds, strict=True) if kind is not None}

    async def _kind(self, group: Listed, width: int) -> str | None:
        """The type of a group that prevents a move (share, streams), "" for another type; None if the group has no
        offsets of the topic."""
        if group.type == SHARE:
            return SHARE if await self._is_shared(group.id, width) else None
        async with self._gate:
            if not await self._offsets(group.id, width):
                return None
            if group.type == STREAMS:
                return STREAMS
            described = await self._ask(
                self._source, group.id, ApiKey.DESCRIBE_GROUPS, _DESCRIBE_VERSION, {"groups": [group.id]}
            )
        is_streams = any(each["protocol_data"] == _STREAM_PROTOCOL for each in described["groups"])
        return STREAMS if is_streams else ""

    async def _is_shared(self, group: str, width: int) -> bool:
        topics = [{"topic_name": self._source.topic, "partitions": list(range(width))}]
        request: Tree = {"groups": [{"group_id": group, "topics": topics}]}
        answer = await self._ask(self._source, group, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, request)
        answered: Iterable[Any] = (topic for each in answer["groups"] for topic in each["topics"] or ())
        return any(each["start_offset"] >= 0 for topic in answered for each in topic["partitions"])

    async def _carried(self, group: str, width: int) -> Mapping[int, UnacceptedOffset]:
        async with self._gate:
            offsets = await self._offsets(group, width)
            if not offsets:
                return {}
            partitions = [
                {"partition_index": partition, "committed_offset": each.offset, "committed_metadata": each.metadata}
                for partition, each in offsets.items()
            ]
            request = {
                "group_id": group,
                "generation_id_or_member_epoch": -1,
                "member_id": "",
                "topics": [{"name": self._target.topic, "partitions": partitions}],
            }
            answer = await self._ask(self._target, group, ApiKey.OFFSET_COMMIT, _COMMIT_VERSION, request)
            codes = {each["partition_index"]: each["error_code"] for each in answer["topics"][0]["partitions"]}
            failed = {code for code in codes.values() if code and code not in _WITH_MEMBERS}
            if failed:
                raise SideUnavailable(f"offsets of group {group} at {self._target.leaf.path}: error {min(failed)}")
            refused = {partition: each.offset for partition, each in offsets.items() if codes[partition]}
            if not refused:
                return {}
            stored = await self._committed(self._target, group, width)
            return unaccepted_of(refused, {partition: each.offset for partition, each in stored.items()})

    async def _offsets(self, group: str, width: int) -> dict[int, GroupOffset]:
        """Returns the offsets at the source by partition, as clients read them there. Raises SideUnavailable."""
        found = await self._committed(self._source, group, width)
        for partition in self._unaccepted.get(group, ()):
            stored = found[partition].offset if partition in found else NONE_STORED
            if (offset := offset_of(self._unaccepted, group, partition, stored)) != stored:
                found[partition] = GroupOffset(offset, "")
        return found

    async def _committed(self, side: TopicSide, group: str, width: int) -> dict[int, GroupOffset]:
        """Returns the offsets that the brokers of a side have, by partition. Raises SideUnavailable."""
        topics = [{"name": side.topic, "partition_indexes": list(range(width))}]
        request = {"group_id": group, "topics": topics, "require_stable": True}
        answer = await self._ask(side, group, ApiKey.OFFSET_FETCH, _FETCH_VERSION, request)
        codes = {answer["error_code"], *(e["error_code"] for t in answer["topics"] for e in t["partitions"])}
        failed = codes - {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 69}
        if failed:
            raise SideUnavailable(f"offsets of group {group} at {side.leaf.path}: error {min(failed)}")
        metadata = {e["partition_index"]: e["metadata"] or "" for t in answer["topics"] for e in t["partitions"]}
        stored = committed(answer, side.topic)
        return {partition: GroupOffset(offset, metadata[partition]) for partition, offset in stored.items()}

    async def _ask(self, side: TopicSide, group: str, api_key: ApiKey, version: int, request: Tree) -> Tree:
        answer = await self._coordinators.ask(side.links, side.leaf, group, api_key, version, request)
        if answer is None:
            raise SideUnavailable(f"no answer about group {group} from {side.leaf.path}")
        return answer
