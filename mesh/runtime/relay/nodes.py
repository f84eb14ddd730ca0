"""The nodes of the cluster behind a relay: their addresses upstream, and the addresses for clients."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeVar

from mesh.records.spans import ClusterName
from mesh.tasks import OwnedTask, TaskName, is_order, reports
from mesh.telemetry.logs import get_logger
from mesh.upstream.links.connection import BrokerLink
from mesh.upstream.links.connection_settings import ConnectionSettings
from mesh.upstream.links.handshake import Allocate, Unreachable, connect
from mesh.upstream.links.leg import Leg
from mesh.upstream.links.nodes import Nodes
from mesh.wire.apis import ApiKey, Versions
from mesh.wire.client.connection import ClientRequest, ClientResponse
from mesh.wire.client.messages import VersionRange
from mesh.wire.errors import ProtocolError
from mesh.wire.relayed_apis import ADVERTISED_APIS, RELAYED_APIS

Answer = TypeVar("Answer")

log = get_logger(__name__)

NODES_TIMEOUT: Final = 5.0
"""Seconds that a client waits until the mesh has learned the nodes."""
BACKOFF: Final = 0.1
MOST_BACKOFF: Final = 2.0
"""The most seconds between attempts to reach a node."""
MOST_DOUBLED: Final = 10
VERSIONS_TIMEOUT: Final = 1.0
"""Seconds that a check waits for nodes to report their versions."""
LEAST_CHECK_INTERVAL: Final = 1.0
"""The least seconds between two checks that passing responses ask for."""


@dataclass(slots=True, eq=False)
class RelayNode:
    """A broker of the cluster.

    legs: the number of clients' connections to it. versions: the APIs and versions that it last reported.
    may_be_upgraded: True if it was unreachable since then, and may have restarted with another version.
    """

    id: int
    host: str
    port: int
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the connection that tries to reach the node."""
    legs: int = 0
    failures: int = 0
    retry_at: float = 0.0
    reason: str = ""
    versions: Mapping[ApiKey, Versions] | None = None
    may_be_upgraded: bool = False

    @property
    def address(self) -> str:
        return address_text(self.host, self.port)


class RelayNodes:
    """The nodes of one cluster, as its Metadata names them. Implements `mesh.wire.addresses.NodeAddresses`.

    advertised_address: returns the address at which clients of the first listener reach a node; None if it has none.
    interval: seconds between two checks. on_checked: called after each check, with the nodes that have no address.
    """

    def __init__(
        self,
        cluster: ClusterName,
        bootstrap_servers: str,
        access: ConnectionSettings,
        advertised_address: Callable[[int], tuple[str, int] | None],
        interval: float,
        on_checked: Callable[[frozenset[int]], None],
    ) -> None:
        self.cluster = cluster
        self.advertised_address = advertised_address
        self.interval = interval
        self._access = access
        self._links = Nodes(cluster, bootstrap_servers, access)
        self._on_checked = on_checked
        self._nodes: dict[int, RelayNode] = {}
        self._nodes_known = asyncio.Event()
        self._tried = asyncio.Event()
        """Set after each check, successful or not."""
        self._check_soon = asyncio.Event()
        self.cluster_id: str | None = None
        """None until the cluster has reported it."""
        self._turn = random.randrange(1 << 16)

    @property
    def known(self) -> Mapping[int, RelayNode]:
        return self._nodes

    @property
    def client_id(self) -> str:
        """The client id of the mesh's own connections."""
        return self._access.client_id

    def served_at(self, node: int | None, limits: Mapping[ApiKey, tuple[int, int]]) -> Mapping[ApiKey, Versions]:
        """The APIs that a node serves, within these limits. For None, and for a node that has not reported its
        versions: the APIs that all nodes with a report serve."""
        asked = {id: each.versions for id, each in self._nodes.items() if each.versions is not None}
        served = {key: Versions(*each, RELAYED_APIS[key].first_flexible) for key, each in limits.items()}
        for versions in [asked[node]] if node in asked else asked.values():
            served = {key: common for key, each in served.items() if (common := _common(each, versions, key))}
        return served

    def serves(self, node: int | None, api_key: ApiKey) -> bool:
        """True if a node serves an API, as far as it has reported. For None, and for a node without a report: True if
        all nodes with a report do."""
        asked = {id: each.versions for id, each in self._nodes.items() if each.versions is not None}
        versions = [asked[node]] if node in asked else list(asked.values())
        return bool(versions) and all(api_key in each for each in versions)

    # Responses that pass through

    def address_of(self, node: int, host: str, port: int) -> tuple[str, int] | None:
        """Returns the address at which clients reach a node that a broker reports."""
        self.notice(node, host, port)
        return self.advertised_address(node)

    def notice(self, node: int, host: str, port: int) -> None:
        """Notes a node that a broker reports."""
        known = self._nodes.get(node)
        if known is None or (known.host, known.port) != (host, port):
            self._found(node, host, port)
            self._check_soon.set()

    # Legs

    @property
    def are_known(self) -> bool:
        """True if the cluster has ever reported its nodes."""
        return self._nodes_known.is_set()

    async def wait_until_known(self) -> None:
        """Returns when the nodes are known. Raises Unreachable."""
        await self._until(self._nodes_known)

    async def wait_for_attempt(self) -> None:
        """Returns like `wait_until_known`. But if the cluster has not answered the first check it counts as down: this
        does not wait for the next check."""
        await self._until(self._tried)

    async def _until(self, event: asyncio.Event) -> None:
        if self.are_known:
            return
        self._check_soon.set()  # do not wait for the next periodic check
        with suppress(TimeoutError):
            async with asyncio.timeout(NODES_TIMEOUT):
                await event.wait()
        if not self.are_known:
            raise Unreachable("no broker of the cluster has answered yet")

    async def open_leg(self, node: int | None, leg: Leg, *, passes_authentication: bool) -> tuple[RelayNode, float]:
        """Opens a leg. Returns the node that was reached, and the time of the event loop at which the session should be
        replaced.

        node: None for any node. passes_authentication: True if the client itself authenticates at the node. Raises
        Unreachable.
        """
        await self.wait_until_known()
        if node is not None:
            known = self._nodes.get(node)
            if known is None:
                raise Unreachable(f"the cluster has no node {node}")
            return known, await self._open(known, leg, passes_authentication=passes_authentication)
        reason = "the cluster has no nodes"
        for known in self.in_turn():
            try:
                return known, await self._open(known, leg, passes_authentication=passes_authentication)
            except Unreachable as problem:
                reason = f"{known.address}: {problem}"
        raise Unreachable(reason)

    def in_turn(self) -> list[RelayNode]:
        """Returns all nodes, beginning with another one each time. Those that could not be reached come last."""
        nodes = [self._nodes[id] for id in sorted(self._nodes)]
        self._turn += 1
        first = self._turn % len(nodes) if nodes else 0
        return sorted([*nodes[first:], *nodes[:first]], key=lambda node: node.failures > 0)

    async def _open(self, node: RelayNode, leg: Leg, *, passes_authentication: bool) -> float:
        """Reaches a node for a leg. Clients share the attempts to reach a node that is down: all that wait for the next
        attempt fail with it, or go on when it succeeds."""
        if failures := node.failures:
            async with node.turn:
                if node.failures > failures:
                    raise Unreachable(node.reason)  # another connection has tried in the meantime
                if node.failures:
                    await asyncio.sleep(node.retry_at - asyncio.get_running_loop().time())
                    return await self._attempt(node, leg, passes_authentication=passes_authentication)
        return await self._attempt(node, leg, passes_authentication=passes_authentication)

    async def _attempt(self, node: RelayNode, leg: Leg, *, passes_authentication: bool) -> float:
        failures = node.failures
        try:
            access = self._access
            bare = passes_authentication or not (access.mechanism is not None or access.has_certificate)
            connection = await connect(node.host, node.port, access, is_bare=bare)
        except Unreachable as problem:
            node.failures = max(node.failures, failures + 1)  # attempts that began together count as one failure
            node.reason, node.may_be_upgraded = str(problem), True
            backoff = min(BACKOFF * 2 ** min(node.failures, MOST_DOUBLED), MOST_BACKOFF)
            node.retry_at = asyncio.get_running_loop().time() + backoff
            self._check_soon.set()
            raise
        node.failures, node.retry_at, node.reason = 0, 0.0, ""
        connection.hand_over(leg)
        return connection.ends_at

    def link_to(self, node: RelayNode, allocate: Allocate = bytearray) -> BrokerLink:
        """A connection for requests of the mesh itself, which the caller closes. allocate: gives the buffers for
        responses."""
        return BrokerLink(node.host, node.port, self._access, allocate)

    async def ask(self, node: int, request: ClientRequest) -> ClientResponse:
        """Sends a request of the mesh itself to a node. Raises Unreachable."""
        links = self._links.nodes
        if node not in links:
            raise Unreachable(f"the cluster has no node {node}")
        return await links[node].request_link.request(request)

    async def ask_any(
        self,
        request_for: Callable[[Mapping[int, VersionRange]], ClientRequest],
        decode: Callable[[ClientResponse], Answer],
    ) -> Answer:
        """Sends a request to any node, as `Nodes.ask_any` does."""
        return await self._links.ask_any(request_for, decode)

    # Periodic checks

    async def watch(self) -> None:
        """Checks the nodes at each interval until cancelled."""
        try:
            while True:
                await self._check()
                try:
                    async with asyncio.timeout(self.interval):  # wait_for may swallow a cancellation (bpo-37658)
                        await self._check_soon.wait()
                    await asyncio.sleep(LEAST_CHECK_INTERVAL)
                except TimeoutError:
                    pass
                self._check_soon.clear()
        except BaseException as problem:
            if is_order(problem):
                self._links.close()  # for good
            raise

    async def _check(self) -> None:
        try:
            layout = await self._links.layout(())
        except Unreachable:
            self._tried.set()
            return  # the check of the cluster's topics logs it
        self.cluster_id = layout.cluster_id or self.cluster_id
        for id in [id for id in self._nodes if all(id != each.node_id for each in layout.brokers)]:
            log.info("broker left its cluster", cluster=self.cluster, node=id)
            del self._nodes[id]
        for each in layout.brokers:
            self._found(each.node_id, each.host, each.port)
        self._on_checked(self._undeclared())
        await self._ask_versions()
        await self._check_more()
        self._nodes_known.set()
        self._tried.set()

    async def _check_more(self) -> None:
        """Asks for other facts about the cluster."""

    def _found(self, id: int, host: str, port: int) -> None:
        node = self._nodes.get(id)
        if node is None:
            node = self._nodes[id] = RelayNode(id, host, port)
            log.info("broker found", cluster=self.cluster, node=id, address=node.address)
        elif (node.host, node.port) != (host, port):
            node.host, node.port, node.retry_at, node.versions = host, port, 0.0, None
            log.info("broker address changed", cluster=self.cluster, node=id, address=node.address)

    def _undeclared(self) -> frozenset[int]:
        return frozenset(id for id in self._nodes if self.advertised_address(id) is None)

    async def _ask_versions(self) -> None:
        """Asks the nodes with unknown versions, all at once: a node that hangs does not delay the check."""
        links = self._links.nodes
        nodes = [(id, node) for id, node in self._nodes.items() if node.versions is None or node.may_be_upgraded]
        unknown = [node for id, node in nodes if id in links]
        if unknown:
            loop = asyncio.get_running_loop()
            asking = [loop.create_task(_ask_versions(node, links[node.id].request_link)) for node in unknown]
            _, late = await asyncio.wait(asking, timeout=VERSIONS_TIMEOUT)
            for task in late:
                task.cancel()  # the connection attempt continues, and may be complete at the next check


async def _ask_versions(node: RelayNode, link: BrokerLink) -> None:
    try:
        node.versions, node.may_be_upgraded = served_of(await link.versions()), False
    except (Unreachable, ProtocolError) as problem:
        node.reason = str(problem)
    except Exception as problem:  # noqa: BLE001 - the other brokers are asked all the same
        reports().failed(OwnedTask(TaskName.BROKERS), problem, None)


def address_text(host: str, port: int) -> str:
    """Returns HOST:PORT, with an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def served_of(versions: Mapping[int, VersionRange]) -> dict[ApiKey, Versions]:
    """The APIs that a relay lists: those of the broker that the mesh relays, in the versions that both know."""
    served: dict[ApiKey, Versions] = {}
    for key, advertised in ADVERTISED_APIS.items():
        known = Versions(*advertised, RELAYED_APIS[key].first_flexible)
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
