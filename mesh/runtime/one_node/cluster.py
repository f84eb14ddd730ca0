"""The leaders and coordinators of a cluster that clients see as one node, shared by all its clients."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import Final
from uuid import UUID

from mesh.routing.one_node.leaders import ClusterLeaders, Topic
from mesh.runtime.one_node.brokers import Brokers
from mesh.telemetry.logs import get_logger
from mesh.upstream.links.handshake import Unreachable
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode, ProtocolError
from mesh.wire.trees import ZERO_ID, Tree

log = get_logger(__name__)

MOST_COORDINATORS: Final = 100_000
"""The most coordinators of groups and of transactions that are remembered."""
MOST_USED: Final = 100_000
"""The most topics in use whose leaders are refreshed."""
GROUP, TRANSACTION = 0, 1
"""Key types of FindCoordinator."""
REFRESH_PAUSE: Final = 0.2
"""The least seconds between two refreshes of leaders that responses have caused."""
_METADATA: Final = 12
"""The version of Metadata for the mesh's own requests. Requests and responses have topic ids."""
_FIRST_BY_ID: Final = 12
_FIND: Final = 3
"""The version of FindCoordinator for the mesh's own requests: the last one with a single key."""


class OneNodeCluster:
    """The leaders and coordinators of one cluster, or of a union of several."""

    def __init__(self, brokers: Brokers, timeout: float) -> None:
        """timeout: seconds that a broker has to answer, beyond the wait that a request asks for."""
        self.brokers: Final = brokers
        self.timeout: Final = timeout
        self.leaders: Final = ClusterLeaders()
        self._coordinators: dict[tuple[int, str], int] = {}
        self._used: set[Topic] = set()
        self._stale: set[Topic] = set()
        self._refresh_soon = asyncio.Event()
        self.changes = 0
        """The number of times that topics may have moved to other clusters. A fetch session that is older still has
        partitions that left its broker."""

    # Leaders

    async def look_up(self, partitions: Iterable[tuple[Topic, int]]) -> None:
        """Looks up the leaders of unknown partitions. A partition that stays unknown does not exist, or no broker has
        answered."""
        leader, unknown = self.leaders.leader, set[Topic]()
        if len(self._used) >= MOST_USED:
            self._used.clear()
        for topic, partition in partitions:
            self._used.add(topic)
            if leader(topic, partition) is None:
                unknown.add(topic)
        if unknown:
            await self._refresh(unknown)

    async def look_up_ids(self, topic_ids: Iterable[UUID]) -> None:
        """Looks up the names of topic ids that have no known name."""
        unknown = {each for each in topic_ids if each != ZERO_ID and self.leaders.name_of(each) is None}
        if unknown:
            await self._refresh(unknown)

    async def topics(self) -> list[str]:
        """The names of all topics; none if no broker answers."""
        request = {"topics": None, "allow_auto_topic_creation": False}
        try:
            answer = await self.brokers.ask_any(ApiKey.METADATA, _METADATA, request)
        except (Unreachable, ProtocolError):
            return []
        return sorted(topic["name"] for topic in answer["topics"] if topic["name"] is not None)

    def topic_name(self, topic_id: UUID) -> str | None:
        """The name of a topic id; None if no known topic has it."""
        return self.leaders.name_of(topic_id)

    def mark_stale(self, topics: Collection[Topic]) -> None:
        """Notes that other brokers may lead these topics now. Their leaders are looked up soon."""
        self._stale.update(topics)
        self._refresh_soon.set()

    def topics_moved(self, topics: Collection[str]) -> None:
        """Forgets the leaders of topics that may be in another cluster now. They are looked up again when they are
        needed."""
        self.changes += 1
        for each in topics:
            self.leaders.forget(each)

    async def watch(self) -> None:
        """Refreshes the leaders of topics in use, and of doubtful ones soon. Runs until it is cancelled."""
        while True:
            try:
                async with asyncio.timeout(self.brokers.interval):
                    await self._refresh_soon.wait()
                topics: set[Topic] = set()
            except TimeoutError:
                topics, self._used = self._used, set()
            self._refresh_soon.clear()
            topics |= self._stale
            self._stale = set()
            if topics:
                await self._refresh(topics)
                await asyncio.sleep(REFRESH_PAUSE)

    async def _refresh(self, topics: Collection[Topic]) -> None:
        by_name = [name for each in topics if (name := self.leaders.name_of(each)) is not None]
        by_id = [each for each in topics if isinstance(each, UUID) and self.leaders.name_of(each) is None]
        asked: list[Tree] = [{"name": each, "topic_id": ZERO_ID} for each in dict.fromkeys(by_name)]
        asked += [{"name": None, "topic_id": each} for each in by_id]
        request = {"topics": asked, "allow_auto_topic_creation": False}
        try:
            self.leaders.take(await self.brokers.ask_any(ApiKey.METADATA, _METADATA, request))
        except (Unreachable, ProtocolError) as problem:
            log.debug("leaders unknown", cluster=self.brokers.name, reason=str(problem))

    # Coordinators

    async def coordinator(self, kind: int, key: str) -> tuple[int, ErrorCode]:
        """The coordinator of a group or of a transactional id; -1 with an error if it is not found. kind: a key type of
        FindCoordinator."""
        known = self._coordinators.get((kind, key))
        if known is not None:
            return known, ErrorCode.NONE
        try:
            found = await self.brokers.ask_any(ApiKey.FIND_COORDINATOR, _FIND, {"key": key, "key_type": kind})
        except (Unreachable, ProtocolError):
            return -1, ErrorCode.COORDINATOR_NOT_AVAILABLE
        if found["error_code"]:
            return -1, ErrorCode(found["error_code"])
        self.set_coordinator(kind, key, found["node_id"])
        return found["node_id"], ErrorCode.NONE

    def set_coordinator(self, kind: int, key: str, broker: int) -> None:
        """Notes a coordinator that a broker reported."""
        if len(self._coordinators) >= MOST_COORDINATORS:
            del self._coordinators[next(iter(self._coordinators))]
        self._coordinators[kind, key] = broker

    def forget_coordinator(self, kind: int, key: str) -> None:
        self._coordinators.pop((kind, key), None)

    # The controller

    @property
    def controller(self) -> int | None:
        """The controller; None until a broker has reported it, and if the cluster has no such broker."""
        return self.leaders.controller if self.leaders.controller in self.brokers.known else None

    async def refresh_controller(self) -> None:
        """Looks up the controller, which has changed."""
        await self._refresh(())
