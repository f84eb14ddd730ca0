"""Topology descriptions of streams groups, for the nodes of a cluster."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Final

from mesh.runtime.interception.stage import InterceptionHandler
from mesh.runtime.relay.nodes import RelayNodes
from mesh.runtime.relay.services import RelayServices
from mesh.runtime.topologies.frames import described_group
from mesh.runtime.topologies.requests import ClientRules, TopologyRequests
from mesh.runtime.topologies.topologies import Topologies
from mesh.streams.steps import DescribedStreamsGroup, delete
from mesh.tasks import OwnedTask, TaskName, reports
from mesh.telemetry.logs import get_logger
from mesh.upstream.links.handshake import Unreachable
from mesh.upstream.store.documents import StoreError
from mesh.wire.apis import ApiKey, is_flexible
from mesh.wire.client.connection import ClientRequest
from mesh.wire.client.groups import FIND_COORDINATOR, decode_find_coordinator, find_coordinator_request
from mesh.wire.entities import Direction
from mesh.wire.errors import ErrorCode, ProtocolError
from mesh.wire.raised_versions import ADDED
from mesh.wire.trees import read_tree, write_tree

log = get_logger(__name__)

INTERVAL: Final = 600.0
"""Seconds between two searches for groups that are gone, on average."""


def interception_handlers(
    services: RelayServices,
    node: Callable[[], int | None],
    rules: ClientRules | None = None,
    is_home_of: Callable[[str], bool] = lambda _: True,
) -> Sequence[InterceptionHandler]:
    """The handlers of one client's requests about topology descriptions. node: returns the node that the client is
    connected to; None while that may be any. is_home_of: returns True if the cluster of that node has a group."""
    topologies, nodes = services.topologies, services.nodes
    if topologies is None:
        return ()

    async def ask_group(group: str) -> DescribedStreamsGroup:
        place = node()
        if place is None:
            raise Unreachable("the client talks to no node yet")
        if not is_home_of(group):
            return DescribedStreamsGroup(group, ErrorCode.NOT_COORDINATOR)
        return await _describe(nodes, place, group)

    return [TopologyRequests(topologies, lambda: nodes.serves(node(), ADDED), ask_group, rules)]


class CleanUp:
    """Removes the descriptions of groups that have expired, or were deleted without a request to the mesh."""

    def __init__(self, topologies: Topologies, nodes: RelayNodes) -> None:
        self._topologies = topologies
        self._nodes = nodes

    async def run(self) -> None:
        """Cleans up at each interval until cancelled. The interval varies, so that processes that began together do not
        clean up together."""
        while True:
            await asyncio.sleep(INTERVAL * random.uniform(0.5, 1.5))
            await self.once()

    async def once(self) -> None:
        """Cleans up once, one group after the other."""
        topologies = self._topologies
        try:
            groups = topologies.groups()
        except StoreError as problem:
            log.info("topology descriptions not cleaned up", virtual_cluster=topologies.name, reason=str(problem))
            return
        topologies.cleanup_cycles += 1
        topologies.cleanup_eligible = 0
        for group in groups:
            try:
                if not await self._is_gone(group):
                    continue
                topologies.cleanup_eligible += 1
                if topologies.epochs(group).has_description:
                    await topologies.carry_out(group, delete(group))
                await topologies.forget([group])
            except (Unreachable, ProtocolError, StoreError) as problem:
                fields = {"virtual_cluster": topologies.name, "group": group, "reason": str(problem)}
                log.info("topology description not cleaned up", **fields)
            except Exception as problem:  # noqa: BLE001 - the other groups are cleaned up all the same
                reports().failed(OwnedTask(TaskName.TOPOLOGIES, topologies.name, group=group), problem, None)

    async def _is_gone(self, group: str) -> bool:
        """True if the coordinator reports that there is no such streams group. Another kind of group may have its name
        now."""
        found = await self._nodes.ask_any(
            lambda served: find_coordinator_request(group, served.get(FIND_COORDINATOR)), decode_find_coordinator
        )
        if found.error_code:
            return False
        return (await _describe(self._nodes, found.broker.node_id, group)).error == ErrorCode.GROUP_ID_NOT_FOUND


async def _describe(nodes: RelayNodes, node: int, group: str) -> DescribedStreamsGroup:
    """Asks a node for the description of a group. Raises Unreachable, ProtocolError."""
    key = ApiKey.STREAMS_GROUP_DESCRIBE
    body = write_tree(key, 0, Direction.REQUEST, {"group_ids": [group], "include_authorized_operations": False})
    response = await nodes.ask(node, ClientRequest(key, 0, is_flexible(key, 0), (body,)))
    tree = read_tree(key, 0, Direction.RESPONSE, response.frame[response.body :])
    return next(
        (described_group(each) for each in tree["groups"] if each["group_id"] == group),
        DescribedStreamsGroup(group, ErrorCode.UNKNOWN_SERVER_ERROR),
    )
