"""Carries out what `mesh.routing.groups.keeping` decides: offsets that a group has stored with owners do not expire."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from struct import pack
from typing import Final
from uuid import uuid4

from mesh.routing.groups.keeping import PART, Deed, GroupAtOwner, Keeping, Look, Members
from mesh.routing.groups.multiplexed import JOIN, LEAVE
from mesh.routing.groups.stored_offsets import Place, StoredOffset
from mesh.routing.names import LeafNumber
from mesh.runtime.router.asking import ask
from mesh.runtime.router.groups.homes import GroupHomes
from mesh.runtime.router.groups.services import GroupServices
from mesh.runtime.router.leaves import RouterLeaf
from mesh.runtime.router.side_links import SideLinks
from mesh.telemetry.logs import get_logger
from mesh.wire.apis import ApiKey
from mesh.wire.trees import Tree

log = get_logger(__name__)

RETENTION: Final = 7 * 24 * 3_600.0
"""Seconds that owners keep offsets which do not say it: Kafka's default."""
_RETENTION_NAME: Final = "offsets.retention.minutes"
_BROKER: Final = 4
"""A type of resource."""
_SHORTEST: Final = 5.0
"""Seconds between two looks."""
_CONSUMER: Final = "consumer"
_ASSIGNORS: Final = ("range", "roundrobin", "sticky", "cooperative-sticky", "RoundRobinAssigner", "stream")
"""Names of those that clients come with: whoever joins within the moment finds one of its own."""
_NOTHING_SUBSCRIBED: Final = pack(">hii", 0, 0, -1)
_SESSION_MS: Final = 10_000
_MOMENT: Final = 5.0
"""Seconds that others who are there have to join again, or to give partitions back."""
_FETCH, _COMMIT, _JOIN, _LEAVE, _CONFIGS, _HEARTBEAT = 7, 7, 3, 1, 1, 1
"""Versions."""


class GroupKeeper:
    """The keeper of offsets. Looks at each group that has stored offsets with an owner, once in a part of the time
    after which that drops them. homes: of groups."""

    def __init__(self, services: GroupServices, homes: GroupHomes) -> None:
        self._services: Final = services
        self._homes: Final = homes
        self._keeping: Final = Keeping()
        self._links: Final = SideLinks()
        self._retention: Final[dict[LeafNumber, float]] = {}
        self._untold: Final[set[LeafNumber]] = set()
        """Those that have not said it, and operators know it."""
        self._news: Final = asyncio.Event()
        self._working: asyncio.Task[None] | None = None

    def notice(self, group: str, leaf: LeafNumber) -> None:
        """It has offsets there."""
        if self._keeping.notice(GroupAtOwner(group, leaf), self._now()):
            self._news.set()
            if self._working is None:
                self._working = asyncio.get_running_loop().create_task(self._work(), name="keep offsets of groups")

    def forget(self, group: str) -> None:
        """It is deleted."""
        for leaf in self._services.leaves.numbers:
            self._keeping.forget(GroupAtOwner(group, leaf))

    def close(self) -> None:
        if self._working is not None:
            self._working.cancel()
        self._links.close()

    async def _work(self) -> None:
        while True:
            for group in self._keeping.due(self._now()):
                try:
                    await self._look_at(group)
                except Exception:
                    log.exception("offsets of a group could not be kept: kafka-mesh has a bug", group=group.group)
                    self._keeping.failed(group, self._interval(group.leaf), self._now())
            self._news.clear()
            at = self._keeping.next_at
            try:
                async with asyncio.timeout(None if at is None else max(at - self._now(), 0.0)):
                    await self._news.wait()
            except TimeoutError:
                pass

    async def _look_at(self, group: GroupAtOwner) -> None:
        owner = self._services.leaves.by_number[group.leaf]
        await self._ask_retention(owner)
        interval = self._interval(group.leaf)
        home = self._services.leaves.by_number[self._services.entities.group_home(group.group)]
        is_empty = await self._homes.is_empty(self._links, home, group.group)
        described = await self._services.described(self._links, owner, group.group)
        stored = await self._stored(owner, group.group)
        if described is None or stored is None:
            self._keeping.failed(group, interval, self._now())
            return
        consumers = await self._services.described_consumers(self._links, owner, group.group)
        look = Look(is_empty, _members(described, consumers), stored, interval)
        if not await self._carry_out(group, owner, self._keeping.looked(group, look, self._now())):
            self._keeping.failed(group, interval, self._now())

    async def _carry_out(self, group: GroupAtOwner, owner: RouterLeaf, deed: Deed) -> bool:
        """Whether it went well."""
        if deed.joins:
            return await self._join(group, owner)
        if not deed.commits:
            return True
        request = _commit_of(group.group, deed.commits)
        answer = await self._ask(owner, group.group, ApiKey.OFFSET_COMMIT, _COMMIT, request)
        log.debug("offsets of a group were stored again", group=group.group, cluster=owner.nodes.cluster)
        return answer is not None

    async def _join(self, group: GroupAtOwner, owner: RouterLeaf) -> bool:
        """For a moment. Whether that has gone well."""
        is_well = await self._join_consumers(group, owner) or await self._join_classic(group, owner)
        told = "a group was joined for a moment" if is_well else "a group could not be joined for a moment"
        log.debug(told, group=group.group, cluster=owner.nodes.cluster)
        return is_well

    async def _join_consumers(self, group: GroupAtOwner, owner: RouterLeaf) -> bool:
        """As a member of the consumer protocol, where the cluster has it: the group is one of that protocol then, whose
        offsets are as old as their commits. Nobody waits for that, and who comes meanwhile shares with nobody."""
        api_key = ApiKey.CONSUMER_GROUP_HEARTBEAT
        if api_key not in owner.nodes.served_at(None, {api_key: (0, 1)}):
            return False
        joining = joining_consumers(group.group)
        answer = await self._ask(owner, group.group, api_key, _HEARTBEAT, joining)
        if answer is None or answer["error_code"]:
            return False
        leaving = {**joining, "member_epoch": LEAVE}
        return await self._ask(owner, group.group, api_key, _HEARTBEAT, leaving) is not None

    async def _join_classic(self, group: GroupAtOwner, owner: RouterLeaf) -> bool:
        """The time since the last member has left begins anew. Whoever else is there leads on."""
        request = {
            "group_id": group.group,
            "session_timeout_ms": _SESSION_MS,
            "rebalance_timeout_ms": int(_MOMENT * 1_000),
            "member_id": "",
            "protocol_type": _CONSUMER,
            "protocols": [{"name": name, "metadata": _NOTHING_SUBSCRIBED} for name in _ASSIGNORS],
        }
        answer = await self._ask(owner, group.group, ApiKey.JOIN_GROUP, _JOIN, request, 2 * _MOMENT)
        if answer is None or not answer["member_id"]:
            return False
        leaving = {"group_id": group.group, "member_id": answer["member_id"]}
        left = await self._ask(owner, group.group, ApiKey.LEAVE_GROUP, _LEAVE, leaving)
        return left is not None and not answer["error_code"]

    async def _stored(self, owner: RouterLeaf, group: str) -> dict[Place, StoredOffset] | None:
        """Of the topics that clients find there; None if there is no answer."""
        answer = await self._ask(owner, group, ApiKey.OFFSET_FETCH, _FETCH, {"group_id": group, "topics": None})
        if answer is None or answer["error_code"]:
            return None
        names = self._services.leaves.names
        return {
            Place(topic["name"], each["partition_index"]): StoredOffset(
                each["committed_offset"], each.get("committed_leader_epoch", -1), each["metadata"] or ""
            )
            for topic in answer["topics"]
            if names.shown(owner.number, topic["name"]) is not None
            for each in topic["partitions"]
            if each["committed_offset"] >= 0 and not each["error_code"]
        }

    async def _ask(
        self, owner: RouterLeaf, group: str, api_key: ApiKey, version: int, request: Tree, waits: float = 0.0
    ) -> Tree | None:
        return await self._services.coordinators.ask(self._links, owner, group, api_key, version, request, waits)

    async def _ask_retention(self, owner: RouterLeaf) -> None:
        """Whatever is known already: it may be changed."""
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
        if owner.number not in self._retention and owner.number not in self._untold:
            self._untold.add(owner.number)
            log.warning(
                "how long a cluster keeps offsets of groups is not known; seven days are supposed",
                cluster=owner.nodes.cluster,
                detail=f"{_RETENTION_NAME}: the mesh has to be allowed DescribeConfigs of the cluster",
            )

    def _interval(self, leaf: LeafNumber) -> float:
        return max(PART * self._retention.get(leaf, RETENTION), _SHORTEST)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def joining_consumers(group: str) -> Tree:
    """The ConsumerGroupHeartbeat of a member of its own that subscribes to nothing."""
    return {
        "group_id": group,
        "member_id": str(uuid4()),
        "member_epoch": JOIN,
        "rebalance_timeout_ms": int(_MOMENT * 1_000),
        "subscribed_topic_names": [],
        "topic_partitions": [],
    }


def is_keeper(member: Tree, client_id: str) -> bool:
    """Whether a member, as it is described, is a keeper, of any process. client_id: of the mesh.

    A keeper subscribes to nothing. Of groups of the classic protocol brokers do not tell it before they are balanced,
    and a keeper leaves before that.
    """
    is_subscribed = member.get("member_metadata") or member.get("subscribed_topic_names")
    return bool(member["client_id"] == client_id and not is_subscribed)


def _members(described: Tree, consumers: Tree | None) -> Members:
    if consumers is not None and consumers["group_state"] not in ("", "Empty", "Dead"):
        return Members.SOME
    match described["group_state"]:
        case "" | "Dead":
            return Members.NONE
        case "Empty":
            return Members.GONE if described["protocol_type"] == _CONSUMER else Members.NONE
        case _:
            return Members.SOME


def _commit_of(group: str, stored: Mapping[Place, StoredOffset]) -> Tree:
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
