"""Keeps offsets that groups have stored with owners from expiring, as `mesh.routing.groups.offset_retention`
decides."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from struct import pack
from typing import Final
from uuid import uuid4

from mesh.routing.groups.multiplexed import JOIN, LEAVE
from mesh.routing.groups.offset_retention import (
    CHECK_FRACTION,
    CheckResult,
    GroupAtOwner,
    MembersAtOwner,
    OffsetRetention,
    Renewal,
)
from mesh.routing.groups.stored_offsets import StoredOffset, TopicPartition
from mesh.routing.names import LeafNumber
from mesh.runtime.entity_router.asking import ask
from mesh.runtime.entity_router.groups.homes import GroupHomes
from mesh.runtime.entity_router.groups.services import GroupServices
from mesh.runtime.entity_router.leaves import RouterLeaf
from mesh.runtime.entity_router.side_links import SideLinks
from mesh.tasks import OwnedTask, TaskName, keep, reports
from mesh.telemetry.logs import get_logger
from mesh.wire.apis import ApiKey
from mesh.wire.trees import Tree

log = get_logger(__name__)

RETENTION: Final = 7 * 24 * 3_600.0
"""Seconds that owners keep offsets, unless they report another time: Kafka's default."""
_RETENTION_NAME: Final = "offsets.retention.minutes"
_BROKER: Final = 4
"""The resource type of a broker in DescribeConfigs."""
_LEAST_INTERVAL: Final = 5.0
"""The least seconds between two checks."""
_CONSUMER: Final = "consumer"
_ASSIGNORS: Final = ("range", "roundrobin", "sticky", "cooperative-sticky", "RoundRobinAssigner", "stream")
"""The usual assignors of clients, so that a client that joins meanwhile has one of them."""
_NOTHING_SUBSCRIBED: Final = pack(">hii", 0, 0, -1)
_SESSION_MS: Final = 10_000
_JOIN_TIMEOUT: Final = 5.0
"""Seconds that other members have to join again, or to give partitions back."""
_OFFSET_FETCH, _OFFSET_COMMIT, _JOIN, _LEAVE, _CONFIGS, _HEARTBEAT = 7, 7, 3, 1, 1, 1
"""The highest versions of the mesh's own requests."""


class OffsetKeeper:
    """Keeps the offsets that groups have stored with owners. It looks at each such group at intervals of
    `CHECK_FRACTION` of the time for which the owner keeps offsets. homes: the homes of groups."""

    def __init__(self, services: GroupServices, homes: GroupHomes) -> None:
        self._services: Final = services
        self._homes: Final = homes
        self._checks: Final = OffsetRetention()
        self._links: Final = SideLinks()
        self._retention: Final[dict[LeafNumber, float]] = {}
        self._warned_about: Final[set[LeafNumber]] = set()
        """Leaves that have not reported how long they keep offsets. A warning about them was logged."""
        self._news: Final = asyncio.Event()
        self._working: asyncio.Task[None] | None = None

    def notice(self, group: str, leaf: LeafNumber) -> None:
        """Notes that a group has offsets in a cluster that is not its home."""
        if self._checks.add(GroupAtOwner(group, leaf), self._now()):
            self._news.set()
            if self._working is None:
                self._working = keep(OwnedTask(TaskName.GROUP_OFFSETS), self._work)

    def forget(self, group: str) -> None:
        """Forgets a deleted group."""
        for leaf in self._services.leaves.numbers:
            self._checks.forget(GroupAtOwner(group, leaf))

    def close(self) -> None:
        if self._working is not None:
            self._working.cancel()
        self._links.close()

    async def _work(self) -> None:
        while True:
            for group in self._checks.due(self._now()):
                try:
                    await self._check(group)
                except Exception as problem:  # noqa: BLE001 - the other groups are kept all the same
                    reports().failed(OwnedTask(TaskName.GROUP_OFFSETS, group=group.group), problem, None)
                    self._checks.failed(group, self._interval(group.leaf), self._now())
            self._news.clear()
            at = self._checks.next_at
            try:
                async with asyncio.timeout(None if at is None else max(at - self._now(), 0.0)):
                    await self._news.wait()
            except TimeoutError:
                pass

    async def _check(self, group: GroupAtOwner) -> None:
        owner = self._services.leaves.by_number[group.leaf]
        await self._ask_retention(owner)
        interval = self._interval(group.leaf)
        home = self._services.leaves.by_number[self._services.entities.group_home(group.group)]
        is_empty = await self._homes.is_empty(self._links, home, group.group)
        described = await self._services.described(self._links, owner, group.group)
        stored = await self._stored(owner, group.group)
        if described is None or stored is None:
            self._checks.failed(group, interval, self._now())
            return
        consumers = await self._services.described_consumers(self._links, owner, group.group)
        result = CheckResult(is_empty, _members(described, consumers), stored, interval)
        if not await self._carry_out(group, owner, self._checks.checked(group, result, self._now())):
            self._checks.failed(group, interval, self._now())

    async def _carry_out(self, group: GroupAtOwner, owner: RouterLeaf, renewal: Renewal) -> bool:
        """Carries out a renewal of a group's offsets. Returns whether the owner answered."""
        if renewal.joins:
            return await self._join(group, owner)
        if not renewal.commits:
            return True
        request = _commit_of(group.group, renewal.commits)
        if await self._ask(owner, group.group, ApiKey.OFFSET_COMMIT, _OFFSET_COMMIT, request) is None:
            return False
        log.debug("group offsets stored again", group=group.group, cluster=owner.nodes.cluster)
        return True

    async def _join(self, group: GroupAtOwner, owner: RouterLeaf) -> bool:
        """Joins a group for a moment. Returns True if that succeeded."""
        is_well = await self._join_by_consumer_protocol(group, owner) or await self._join_classic(group, owner)
        event = "group joined for a moment" if is_well else "group not joined"
        log.debug(event, group=group.group, cluster=owner.nodes.cluster)
        return is_well

    async def _join_by_consumer_protocol(self, group: GroupAtOwner, owner: RouterLeaf) -> bool:
        """Joins by the consumer protocol, if the cluster has it. Returns True if that succeeded.

        The group then has that protocol, in which the age of an offset counts from its commit. The keeper does not wait
        for an assignment, and a member that joins meanwhile shares partitions with no other.
        """
        api_key = ApiKey.CONSUMER_GROUP_HEARTBEAT
        if api_key not in owner.nodes.served_at(None, {api_key: (0, 1)}):
            return False
        joining = consumer_join_request(group.group)
        answer = await self._ask(owner, group.group, api_key, _HEARTBEAT, joining)
        if answer is None or answer["error_code"]:
            return False
        leaving = {**joining, "member_epoch": LEAVE}
        return await self._ask(owner, group.group, api_key, _HEARTBEAT, leaving) is not None

    async def _join_classic(self, group: GroupAtOwner, owner: RouterLeaf) -> bool:
        """Joins by the classic protocol, so that the time since the last member left starts again. If other members
        have joined meanwhile, the group remains theirs: the keeper leaves at once."""
        request = {
            "group_id": group.group,
            "session_timeout_ms": _SESSION_MS,
            "rebalance_timeout_ms": int(_JOIN_TIMEOUT * 1_000),
            "member_id": "",
            "protocol_type": _CONSUMER,
            "protocols": [{"name": name, "metadata": _NOTHING_SUBSCRIBED} for name in _ASSIGNORS],
        }
        answer = await self._ask(owner, group.group, ApiKey.JOIN_GROUP, _JOIN, request, 2 * _JOIN_TIMEOUT)
        if answer is None or not answer["member_id"]:
            return False
        leaving = {"group_id": group.group, "member_id": answer["member_id"]}
        left = await self._ask(owner, group.group, ApiKey.LEAVE_GROUP, _LEAVE, leaving)
        return left is not None and not answer["error_code"]

    async def _stored(self, owner: RouterLeaf, group: str) -> dict[TopicPartition, StoredOffset] | None:
        """The offsets that a group has stored with an owner, for topics that clients find there; None without
        an answer, or with an error of the group. Partitions with errors are left out."""
        answer = await self._ask(owner, group, ApiKey.OFFSET_FETCH, _OFFSET_FETCH, {"group_id": group, "topics": None})
        if answer is None or answer["error_code"]:
            return None
        names = self._services.leaves.names
        return {
            TopicPartition(topic["name"], each["partition_index"]): StoredOffset(
                each["committed_offset"], each.get("committed_leader_epoch", -1), each["metadata"] or ""
            )
            for topic in answer["topics"]
            if names.client_name(owner.number, topic["name"]) is not None
            for each in topic["partitions"]
            if each["committed_offset"] >= 0 and not each["error_code"]
        }

    async def _ask(
        self, owner: RouterLeaf, group: str, api_key: ApiKey, version: int, request: Tree, waits: float = 0.0
    ) -> Tree | None:
        return await self._services.coordinators.ask(self._links, owner, group, api_key, version, request, waits)

    async def _ask_retention(self, owner: RouterLeaf) -> None:
        """Asks an owner how long it keeps offsets, even if that is known: it may have changed."""
        node = next(iter(owner.nodes.known), None)
        if node is None:
            return
        resource = {"resource_type": _BROKER, "resource_name": str(node), "configuration_keys": [_RETENTION_NAME]}
        request = {"resources": [resource]}
        timeout = self._services.timeout()
        answer = await ask(self._links, owner, node, ApiKey.DESCRIBE_CONFIGS, _CONFIGS, request, timeout)
        for result in answer["results"] if answer is not None else ():
            for each in result["configs"]:
                if each["name"] == _RETENTION_NAME and (each["value"] or "").isdecimal():
                    self._retention[owner.number] = 60.0 * int(each["value"])
        if owner.number not in self._retention and owner.number not in self._warned_about:
            self._warned_about.add(owner.number)
            log.warning(
                "offset retention unknown; assuming seven days",
                cluster=owner.nodes.cluster,
                detail=f"{_RETENTION_NAME}: the mesh has to be allowed DescribeConfigs of the cluster",
            )

    def _interval(self, leaf: LeafNumber) -> float:
        return max(CHECK_FRACTION * self._retention.get(leaf, RETENTION), _LEAST_INTERVAL)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def consumer_join_request(group: str) -> Tree:
    """The ConsumerGroupHeartbeat of a new member that subscribes to nothing."""
    return {
        "group_id": group,
        "member_id": str(uuid4()),
        "member_epoch": JOIN,
        "rebalance_timeout_ms": int(_JOIN_TIMEOUT * 1_000),
        "subscribed_topic_names": [],
        "topic_partitions": [],
    }


def is_offset_keeper(member: Tree, client_id: str) -> bool:
    """Returns True if a described member is an offset keeper, of this or another process. client_id: the mesh's
    client id.

    A keeper subscribes to nothing. In groups of the classic protocol, brokers report subscriptions only when the group
    is balanced, and a keeper leaves before that.
    """
    is_subscribed = member.get("member_metadata") or member.get("subscribed_topic_names")
    return bool(member["client_id"] == client_id and not is_subscribed)


def _members(described: Tree, consumers: Tree | None) -> MembersAtOwner:
    if consumers is not None and consumers["group_state"] not in ("", "Empty", "Dead"):
        return MembersAtOwner.SOME
    match described["group_state"]:
        case "" | "Dead":
            return MembersAtOwner.NONE
        case "Empty":
            return MembersAtOwner.LEFT if described["protocol_type"] == _CONSUMER else MembersAtOwner.NONE
        case _:
            return MembersAtOwner.SOME


def _commit_of(group: str, stored: Mapping[TopicPartition, StoredOffset]) -> Tree:
    topics: dict[str, list[Tree]] = {}
    for place, each in stored.items():
        topics.setdefault(place.topic, []).append(
            {
                "partition_index": place.partition,
                "committed_offset": each.offset,
                "committed_leader_epoch": each.leader_epoch,
                "committed_metadata": each.metadata,
            }
        )
    return {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "retention_time_ms": -1,
        "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
    }
