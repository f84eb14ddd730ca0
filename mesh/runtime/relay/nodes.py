"""The nodes of the cluster behind a relay: where they are, and where clients reach them instead."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from mesh.records.spans import ClusterName
from mesh.telemetry.logs import get_logger
from mesh.upstream.links.connection_settings import ConnectionSettings
from mesh.upstream.links.handshake import Unreachable, connect
from mesh.upstream.links.leg import Leg
from mesh.upstream.links.nodes import Nodes
from mesh.wire.apis import ApiKey, Versions
from mesh.wire.client.messages import VersionRange
from mesh.wire.errors import ProtocolError
from mesh.wire.relayed_apis import RELAYED_APIS

log = get_logger(__name__)

FIRST_LOOK: Final = 5.0
"""Seconds that a client waits for the mesh to learn which nodes there are."""
BACKOFF: Final = 0.1
MOST_BACKOFF: Final = 2.0
"""Seconds between attempts to reach a node that cannot be reached."""
WORTHWHILE: Final = 1.0
"""Seconds between two looks that answers passing through have asked for."""


@dataclass(slots=True, eq=False)
class RelayNode:
    """A broker of the cluster. legs: connections of clients to it. versions: what it served when it was asked."""

    id: int
    host: str
    port: int
    legs: int = 0
    failures: int = 0
    retry_at: float = 0.0
    reason: str = ""
    versions: Mapping[ApiKey, Versions] | None = None

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class RelayNodes:
    """The nodes of one cluster, as its Metadata names them. Implements `mesh.wire.addresses.NodeAddresses`.

    place_of: the address at which clients reach a node, None for one that has none. interval: seconds between looks.
    looked: told after each look of the nodes for which there is no address.
    """

    def __init__(
        self,
        cluster: ClusterName,
        bootstrap_servers: str,
        access: ConnectionSettings,
        place_of: Callable[[int], tuple[str, int] | None],
        interval: float,
        looked: Callable[[frozenset[int]], None],
    ) -> None:
        self.cluster = cluster
        self.place_of = place_of
        self.interval = interval
        self._access = access
        self._links = Nodes(cluster, bootstrap_servers, access)
        self._tell = looked
        self._nodes: dict[int, RelayNode] = {}
        self._looked = asyncio.Event()
        self._look_soon = asyncio.Event()
        self._turn = random.randrange(1 << 16)

    @property
    def known(self) -> Mapping[int, RelayNode]:
        return self._nodes

    def served_at(self, node: int | None, limits: Mapping[ApiKey, tuple[int, int]]) -> Mapping[ApiKey, Versions]:
        """What a node serves, or all of them, as far as it is known; none beyond these limits."""
        nodes = [self._nodes[node]] if node in self._nodes else self._nodes.values() if node is None else ()
        served = {key: Versions(*each, RELAYED_APIS[key].first_flexible) for key, each in limits.items()}
        for known in nodes:
            if known.versions is not None:
                served = {key: common for key, each in served.items() if (common := _common(each, known.versions, key))}
        return served

    # Answers that pass through

    def address_of(self, node: int, host: str, port: int) -> tuple[str, int] | None:
        """Where clients reach a node, which a broker says is there."""
        known = self._nodes.get(node)
        if known is None or (known.host, known.port) != (host, port):
            self._found(node, host, port)
            self._look_soon.set()
        return self.place_of(node)

    # Legs

    async def open_leg(self, node: int | None, leg: Leg, *, is_bare: bool) -> tuple[RelayNode, float]:
        """The node that was reached, and when its session had better not be used any more, in the loop's time.

        node: None for any of them. is_bare: the client authenticates there itself. Raises Unreachable.
        """
        if not self._looked.is_set():
            try:
                await asyncio.wait_for(self._looked.wait(), FIRST_LOOK)
            except TimeoutError:
                raise Unreachable("no broker of the cluster has answered yet") from None
        if node is not None:
            known = self._nodes.get(node)
            if known is None:
                raise Unreachable(f"the cluster has no node {node}")
            return known, await self._open(known, leg, is_bare=is_bare)
        reason = "the cluster has no nodes"
        for known in self._in_turn():
            try:
                return known, await self._open(known, leg, is_bare=is_bare)
            except Unreachable as problem:
                reason = f"{known.address}: {problem}"
        raise Unreachable(reason)

    def _in_turn(self) -> list[RelayNode]:
        """From another one on each time; those that could not be reached last."""
        nodes = [self._nodes[id] for id in sorted(self._nodes)]
        self._turn += 1
        first = self._turn % len(nodes) if nodes else 0
        return sorted([*nodes[first:], *nodes[:first]], key=lambda node: node.failures > 0)

    async def _open(self, node: RelayNode, leg: Leg, *, is_bare: bool) -> float:
        """Clients that come back at once share the pace of attempts: a node that is down is not asked by each of
        them."""
        loop = asyncio.get_running_loop()
        if (wait := node.retry_at - loop.time()) > 0:
            await asyncio.sleep(wait)
        try:
            bare = is_bare or self._access.mechanism is None
            connection = await connect(node.host, node.port, self._access, is_bare=bare)
        except Unreachable as problem:
            node.failures += 1
            node.reason = str(problem)
            node.retry_at = loop.time() + min(BACKOFF * 2**node.failures, MOST_BACKOFF)
            self._look_soon.set()
            raise
        node.failures, node.retry_at, node.reason = 0, 0.0, ""
        connection.hand_over(leg)
        return connection.ends_at

    # Looks

    async def watch(self) -> None:
        """Until cancelled."""
        try:
            while True:
                await self._look()
                try:
                    await asyncio.wait_for(self._look_soon.wait(), self.interval)
                    await asyncio.sleep(WORTHWHILE)
                except TimeoutError:
                    pass
                self._look_soon.clear()
        finally:
            self._links.close()

    async def _look(self) -> None:
        try:
            layout = await self._links.layout(())
        except Unreachable:
            return  # the look at its topics tells
        for id in [id for id in self._nodes if all(id != each.node_id for each in layout.brokers)]:
            log.info("a node has left its cluster", cluster=self.cluster, node=id)
            del self._nodes[id]
        for each in layout.brokers:
            self._found(each.node_id, each.host, each.port)
        self._tell(self._undeclared())
        self._looked.set()
        await self._ask_versions()

    def _found(self, id: int, host: str, port: int) -> None:
        node = self._nodes.get(id)
        if node is None:
            node = self._nodes[id] = RelayNode(id, host, port)
            log.info("a node of a cluster was found", cluster=self.cluster, node=id, address=node.address)
        elif (node.host, node.port) != (host, port):
            node.host, node.port, node.retry_at, node.versions = host, port, 0.0, None
            log.info("a node of a cluster has another address", cluster=self.cluster, node=id, address=node.address)

    def _undeclared(self) -> frozenset[int]:
        return frozenset(id for id in self._nodes if self.place_of(id) is None)

    async def _ask_versions(self) -> None:
        for id, node in list(self._nodes.items()):
            link = self._links.nodes.get(id)
            if node.versions is None and link is not None:
                try:
                    node.versions = served_of(await link.asking.versions())
                except (Unreachable, ProtocolError) as problem:
                    node.reason = str(problem)


def served_of(versions: Mapping[int, VersionRange]) -> dict[ApiKey, Versions]:
    """What a relay serves of a broker that serves these."""
    served: dict[ApiKey, Versions] = {}
    for key, known in RELAYED_APIS.items():
        if key in versions:
            theirs = Versions(versions[key].lowest, versions[key].highest, known.first_flexible)
            if (common := _common(known, {key: theirs}, key)) is not None:
                served[key] = common
    return served


def _common(ours: Versions, theirs: Mapping[ApiKey, Versions], key: ApiKey) -> Versions | None:
    if (other := theirs.get(key)) is None:
        return None
    lowest, highest = max(ours.lowest, other.lowest), min(ours.highest, other.highest)
    return Versions(lowest, highest, ours.first_flexible) if lowest <= highest else None
