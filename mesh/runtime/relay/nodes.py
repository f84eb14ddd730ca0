"""The nodes of the cluster behind a relay: where they are, and where clients reach them instead."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from mesh.records.spans import ClusterName
from mesh.telemetry.logs import get_logger
from mesh.upstream.links.connection import BrokerLink
from mesh.upstream.links.connection_settings import ConnectionSettings
from mesh.upstream.links.handshake import Unreachable, connect
from mesh.upstream.links.leg import Leg
from mesh.upstream.links.nodes import Nodes
from mesh.wire.apis import ApiKey, Versions
from mesh.wire.client.connection import ClientRequest, ClientResponse
from mesh.wire.client.messages import VersionRange
from mesh.wire.errors import ProtocolError
from mesh.wire.relayed_apis import ADVERTISED_APIS, RELAYED_APIS

Answer = TypeVar("Answer")

log = get_logger(__name__)

_BUG: Final = "the nodes of a cluster could not be looked at: kafka-mesh has a bug"
FIRST_LOOK: Final = 5.0
"""Seconds that a client waits for the mesh to learn which nodes there are."""
BACKOFF: Final = 0.1
MOST_BACKOFF: Final = 2.0
"""Seconds between attempts to reach a node that cannot be reached."""
MOST_DOUBLED: Final = 10
VERSIONS: Final = 1.0
"""Seconds that a look waits for nodes to say what they serve."""
WORTHWHILE: Final = 1.0
"""Seconds between two looks that answers passing through have asked for."""


@dataclass(slots=True, eq=False)
class RelayNode:
    """A broker of the cluster. legs: connections of clients to it. versions: what it served when it was asked.
    may_be_upgraded: it could not be reached since then, and may have been started again as another version."""

    id: int
    host: str
    port: int
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Of whoever tries it while it cannot be reached."""
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

    place_of: the address at which clients of the first listener reach a node, None for one that has none. interval:
    seconds between looks. looked: told after each look of the nodes for which there is no address.
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
        self.cluster_id: str | None = None
        """None until the cluster has said it."""
        self._turn = random.randrange(1 << 16)

    @property
    def known(self) -> Mapping[int, RelayNode]:
        return self._nodes

    @property
    def client_id(self) -> str:
        """Of the mesh's own connections."""
        return self._access.client_id

    def served_at(self, node: int | None, limits: Mapping[ApiKey, tuple[int, int]]) -> Mapping[ApiKey, Versions]:
        """What a node serves; for None, and for one of which that is not known, what all others do. None beyond these
        limits."""
        asked = {id: each.versions for id, each in self._nodes.items() if each.versions is not None}
        served = {key: Versions(*each, RELAYED_APIS[key].first_flexible) for key, each in limits.items()}
        for versions in [asked[node]] if node in asked else asked.values():
            served = {key: common for key, each in served.items() if (common := _common(each, versions, key))}
        return served

    def serves(self, node: int | None, api_key: ApiKey) -> bool:
        """Whether a node does, as far as it has said; for None, and for one that has not, whether all others do."""
        asked = {id: each.versions for id, each in self._nodes.items() if each.versions is not None}
        versions = [asked[node]] if node in asked else list(asked.values())
        return bool(versions) and all(api_key in each for each in versions)

    # Answers that pass through

    def address_of(self, node: int, host: str, port: int) -> tuple[str, int] | None:
        """Where clients reach a node, which a broker says is there."""
        self.notice(node, host, port)
        return self.place_of(node)

    def notice(self, node: int, host: str, port: int) -> None:
        """A broker says that a node is there."""
        known = self._nodes.get(node)
        if known is None or (known.host, known.port) != (host, port):
            self._found(node, host, port)
            self._look_soon.set()

    # Legs

    @property
    def are_known(self) -> bool:
        """Whether the cluster has ever said which nodes it has."""
        return self._looked.is_set()

    async def first_look(self) -> None:
        """Returns when they are known. Raises Unreachable."""
        if self.are_known:
            return
        self._look_soon.set()  # the interval is for a cluster that is there
        try:
            async with asyncio.timeout(FIRST_LOOK):
                await self._looked.wait()
        except TimeoutError:
            raise Unreachable("no broker of the cluster has answered yet") from None

    async def open_leg(self, node: int | None, leg: Leg, *, is_bare: bool) -> tuple[RelayNode, float]:
        """The node that was reached, and when its session had better not be used any more, in the loop's time.

        node: None for any of them. is_bare: the client authenticates there itself. Raises Unreachable.
        """
        await self.first_look()
        if node is not None:
            known = self._nodes.get(node)
            if known is None:
                raise Unreachable(f"the cluster has no node {node}")
            return known, await self._open(known, leg, is_bare=is_bare)
        reason = "the cluster has no nodes"
        for known in self.in_turn():
            try:
                return known, await self._open(known, leg, is_bare=is_bare)
            except Unreachable as problem:
                reason = f"{known.address}: {problem}"
        raise Unreachable(reason)

    def in_turn(self) -> list[RelayNode]:
        """All, from another one on each time; those that could not be reached last."""
        nodes = [self._nodes[id] for id in sorted(self._nodes)]
        self._turn += 1
        first = self._turn % len(nodes) if nodes else 0
        return sorted([*nodes[first:], *nodes[:first]], key=lambda node: node.failures > 0)

    async def _open(self, node: RelayNode, leg: Leg, *, is_bare: bool) -> float:
        """Clients share the attempts to reach a node that is down: all that wait for the next one fail with it, and go
        on when it succeeds."""
        if failures := node.failures:
            async with node.turn:
                if node.failures > failures:
                    raise Unreachable(node.reason)  # another one has tried meanwhile
                if node.failures:
                    await asyncio.sleep(node.retry_at - asyncio.get_running_loop().time())
                    return await self._attempt(node, leg, is_bare=is_bare)
        return await self._attempt(node, leg, is_bare=is_bare)

    async def _attempt(self, node: RelayNode, leg: Leg, *, is_bare: bool) -> float:
        failures = node.failures
        try:
            bare = is_bare or self._access.mechanism is None
            connection = await connect(node.host, node.port, self._access, is_bare=bare)
        except Unreachable as problem:
            node.failures = max(node.failures, failures + 1)  # those that began together failed together
            node.reason, node.may_be_upgraded = str(problem), True
            backoff = min(BACKOFF * 2 ** min(node.failures, MOST_DOUBLED), MOST_BACKOFF)
            node.retry_at = asyncio.get_running_loop().time() + backoff
            self._look_soon.set()
            raise
        node.failures, node.retry_at, node.reason = 0, 0.0, ""
        connection.hand_over(leg)
        return connection.ends_at

    def link_to(self, node: RelayNode) -> BrokerLink:
        """A connection for requests of our own, which its caller closes."""
        return BrokerLink(node.host, node.port, self._access)

    async def ask(self, node: int, request: ClientRequest) -> ClientResponse:
        """A request of our own, to one of them. Raises Unreachable."""
        links = self._links.nodes
        if node not in links:
            raise Unreachable(f"the cluster has no node {node}")
        return await links[node].asking.request(request)

    async def anywhere(
        self,
        request_for: Callable[[Mapping[int, VersionRange]], ClientRequest],
        decode: Callable[[ClientResponse], Answer],
    ) -> Answer:
        """As `Nodes.anywhere`."""
        return await self._links.anywhere(request_for, decode)

    # Looks

    async def watch(self) -> None:
        """Until cancelled."""
        try:
            while True:
                try:
                    await self._look()
                except Exception:
                    log.exception(_BUG, cluster=self.cluster)
                try:
                    async with asyncio.timeout(self.interval):  # wait_for may swallow a cancellation (bpo-37658)
                        await self._look_soon.wait()
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
        self.cluster_id = layout.cluster_id or self.cluster_id
        for id in [id for id in self._nodes if all(id != each.node_id for each in layout.brokers)]:
            log.info("a node has left its cluster", cluster=self.cluster, node=id)
            del self._nodes[id]
        for each in layout.brokers:
            self._found(each.node_id, each.host, each.port)
        self._tell(self._undeclared())
        await self._ask_versions()
        await self._ask_more()
        self._looked.set()

    async def _ask_more(self) -> None:
        """What else is to be known of the cluster."""

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
        """Those of which they are not known, all at once: one that hangs holds up no look."""
        links = self._links.nodes
        nodes = [(id, node) for id, node in self._nodes.items() if node.versions is None or node.may_be_upgraded]
        unknown = [node for id, node in nodes if id in links]
        if unknown:
            loop = asyncio.get_running_loop()
            asking = [loop.create_task(_ask_versions(node, links[node.id].asking)) for node in unknown]
            _, late = await asyncio.wait(asking, timeout=VERSIONS)
            for task in late:
                task.cancel()  # the attempt to connect goes on, and the next look may find it done


async def _ask_versions(node: RelayNode, link: BrokerLink) -> None:
    try:
        node.versions, node.may_be_upgraded = served_of(await link.versions()), False
    except (Unreachable, ProtocolError) as problem:
        node.reason = str(problem)
    except Exception:
        log.exception(_BUG, node=node.id)


def address_text(host: str, port: int) -> str:
    """HOST:PORT, an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def served_of(versions: Mapping[int, VersionRange]) -> dict[ApiKey, Versions]:
    """What a relay lists of what a broker lists."""
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
