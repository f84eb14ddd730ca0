"""Topology descriptions of streams groups over the nodes of a relay's cluster."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from mesh.runtime.interception.stage import TakenRequests
from mesh.runtime.relay.nodes import RelayNodes
from mesh.runtime.relay.services import RelayServices
from mesh.runtime.topologies.requests import TopologyRequests, described_group
from mesh.runtime.topologies.topologies import Topologies
from mesh.streams.steps import DescribedGroup, delete
from mesh.telemetry.logs import get_logger
from mesh.upstream.links.handshake import Unreachable
from mesh.upstream.store.documents import StoreError
from mesh.wire.apis import KNOWN_APIS, ApiKey, Versions, is_flexible
from mesh.wire.client.connection import ClientRequest
from mesh.wire.client.groups import FIND_COORDINATOR, decode_find_coordinator, find_coordinator_request
from mesh.wire.entities import Side
from mesh.wire.errors import ErrorCode, ProtocolError
from mesh.wire.raised_versions import ADDED, raised
from mesh.wire.trees import read_tree, write_tree

log = get_logger(__name__)

INTERVAL: Final = 600.0
"""Seconds between two looks for groups that are gone."""


def taken_requests(services: RelayServices, node: Callable[[], int | None]) -> Sequence[TakenRequests]:
    """Those of one client that are about descriptions. node: that it talks to, None while that may be any."""
    if services.topologies is None:
        return ()
    return [topology_requests(services.topologies, services.nodes, node)]


def topology_requests(topologies: Topologies, nodes: RelayNodes, node: Callable[[], int | None]) -> TopologyRequests:
    """Those of one client. node: that it talks to, None while that may be any."""

    async def ask_current(group: str) -> int:
        place = node()
        if place is None:
            raise Unreachable("the client talks to no node yet")
        return (await _describe(nodes, place, group)).topology_epoch

    return TopologyRequests(topologies, lambda: nodes.serves(node(), ADDED), ask_current)


def raised_among(
    served: Mapping[ApiKey, Versions], advertised: Mapping[ApiKey, tuple[int, int]]
) -> Mapping[ApiKey, Versions]:
    """What is served besides, added to what a node serves. advertised: at most these versions."""
    more = raised({int(key): (each.lowest, each.highest) for key, each in served.items()})
    added = {
        ApiKey(key): Versions(lowest, min(highest, advertised[ApiKey(key)][1]), KNOWN_APIS[ApiKey(key)].first_flexible)
        for key, (lowest, highest) in more.items()
        if ApiKey(key) in advertised
    }
    return {**served, **added}


class CleanUp:
    """Deletes the descriptions of groups that are gone: expired, or deleted where nobody told the mesh."""

    def __init__(self, topologies: Topologies, nodes: RelayNodes) -> None:
        self._topologies = topologies
        self._nodes = nodes

    async def run(self) -> None:
        """Until cancelled. Processes that began together do not clean up together."""
        while True:
            await asyncio.sleep(INTERVAL * random.uniform(0.5, 1.5))
            await self.once()

    async def once(self) -> None:
        """One group after the other."""
        topologies = self._topologies
        try:
            groups = topologies.groups()
        except StoreError as problem:
            log.info("topology descriptions are not cleaned up", virtual_cluster=topologies.name, reason=str(problem))
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
                log.info("a topology description is not cleaned up", **fields)
            except Exception:
                log.exception("a topology description is not cleaned up: kafka-mesh has a bug", group=group)

    async def _is_gone(self, group: str) -> bool:
        """Whether its coordinator says so; also if another kind of group has its name now."""
        found = await self._nodes.anywhere(
            lambda served: find_coordinator_request(group, served.get(FIND_COORDINATOR)), decode_find_coordinator
        )
        if found.error_code:
            return False
        return (await _describe(self._nodes, found.broker.node_id, group)).error == ErrorCode.GROUP_ID_NOT_FOUND


async def _describe(nodes: RelayNodes, node: int, group: str) -> DescribedGroup:
    """Raises Unreachable, ProtocolError."""
    key = ApiKey.STREAMS_GROUP_DESCRIBE
    body = write_tree(key, 0, Side.REQUEST, {"group_ids": [group], "include_authorized_operations": False})
    response = await nodes.ask(node, ClientRequest(key, 0, is_flexible(key, 0), (body,)))
    tree = read_tree(key, 0, Side.RESPONSE, response.frame[response.body :])
    return next(
        (described_group(each) for each in tree["groups"] if each["group_id"] == group),
        DescribedGroup(group, ErrorCode.UNKNOWN_SERVER_ERROR),
    )
