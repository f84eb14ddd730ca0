"""A union of two clusters on real sockets, between raw clients and brokers that act as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from struct import pack, unpack_from
from typing import Any
from uuid import UUID, uuid5

from mesh.listener.limits import ConnectionLimiter, Descriptors
from mesh.listener.listener import Listener
from mesh.listener.requests import Requests
from mesh.memory import RequestMemory
from mesh.routing.concatenated import Part
from mesh.routing.names import LeafNumber
from mesh.routing.node_ids import NODE_BITS, NodeIds
from mesh.routing.one_cluster import OneCluster
from mesh.routing.union import Union
from mesh.runtime.entity_router.leaf_nodes import LeafNodes
from mesh.runtime.entity_router.leaves import ADVERTISED, SERVED, Leaves, RouterLeaf
from mesh.runtime.entity_router.metadata import RouterMetadata
from mesh.runtime.entity_router.parts import KnownParts
from mesh.runtime.entity_router.requests import RouterRequests
from mesh.runtime.entity_router.router_samples import samples_of
from mesh.runtime.entity_router.runtime import EntityRouterRuntime
from mesh.runtime.relay.graceful_stop import GracefulStop
from mesh.runtime.relay.local_requests import LocalRequests
from mesh.runtime.relay.services import RelayServices
from mesh.runtime.relay.traffic import Traffic
from mesh.telemetry.metrics import Metrics
from mesh.upstream.links.chunks import Chunks
from mesh.upstream.links.connection_settings import ConnectionSettings
from mesh.wire.apis import ApiKey, has_tagged_response_header, is_flexible
from mesh.wire.entities import Direction
from mesh.wire.trees import Tree, read_tree, write_tree
from tests.routing.unions import SAME, union_of
from tests.runtime.relay.frames import answer, framed, versions
from tests.runtime.relay.harness import HOST, UNRATIONED, Asked, Client, FakeBroker, FakeCluster, Leg
from tests.runtime.relay.loops import PATIENCE, until

MEMORY = 4 << 20
"""Bytes of requests that are read as a whole."""
Answers = Callable[[ApiKey, int, Tree], Tree | None]
"""A broker's answer; None for none."""


LEADER_EPOCH = 4


def topic(name: str, partitions: int = 1, leader: int = 0) -> Tree:
    """A topic as in a cluster's Metadata."""
    return {
        "error_code": 0,
        "name": name,
        "topic_id": topic_id(name),
        "partitions": [
            {
                "partition_index": index,
                "leader_id": leader,
                "leader_epoch": LEADER_EPOCH,
                "replica_nodes": [leader],
                "isr_nodes": [leader],
            }
            for index in range(partitions)
        ],
    }


def topic_id(name: str) -> UUID:
    return uuid5(UUID(int=1), name)


class LeafBroker(FakeBroker):
    """Answers Metadata with the topics of its cluster, and other requests as a test says. answers: None for those of
    the cluster."""

    cluster: LeafCluster

    def __init__(self, cluster: LeafCluster, id: int) -> None:
        super().__init__(cluster, id)
        self.answers: Answers | None = None
        self.script = lambda broker, leg, asked: self._answer(leg, asked)

    def _answer_the_mesh(self, leg: Leg, asked: Asked) -> None:
        if asked.key == ApiKey.API_VERSIONS and asked.version == 0:
            leg.writer.write(answer(asked.correlation_id, versions(self.serves)))
        elif asked.key == ApiKey.API_VERSIONS:
            told = self.cluster.features
            leg.writer.write(answer(asked.correlation_id, write_tree(ApiKey.API_VERSIONS, 4, Direction.RESPONSE, told)))
        else:
            self._answer(leg, asked)

    def _answer(self, leg: Leg, asked: Asked) -> None:
        api_key, version = ApiKey(asked.key), asked.version
        (length,) = unpack_from(">h", asked.frame, 8)
        body = 10 + max(length, 0) + is_flexible(api_key, version)
        request = read_tree(api_key, version, Direction.REQUEST, asked.frame[body:])
        told = self.cluster.metadata(request) if api_key is ApiKey.METADATA else None
        if told is None:
            self.cluster.seen.append((api_key, request))
            told = (self.answers or self.cluster.answers)(api_key, version, request)
        if told is not None:
            tags = b"\0" if has_tagged_response_header(api_key, version) else b""
            leg.writer.write(
                answer(asked.correlation_id, tags + write_tree(api_key, version, Direction.RESPONSE, told))
            )


class LeafCluster(FakeCluster):
    """A cluster and its guide. topics: of its Metadata. asked: Metadata requests of the mesh. controller: the broker
    that its Metadata names."""

    def __init__(self, name: str, brokers: int = 1) -> None:
        super().__init__(0)
        self.name = name
        self.controller = 0
        self.leaf_brokers = [LeafBroker(self, id) for id in range(brokers)]
        self.brokers = dict(enumerate(self.leaf_brokers))
        self.guide = LeafBroker(self, -1)
        for broker in (self.guide, *self.brokers.values()):
            broker.serves = {int(key): each for key, each in SERVED.items()} | {int(ApiKey.API_VERSIONS): (0, 4)}
        self.topics: list[Tree] = []
        self.features: Tree = {}
        """The features in its answer to ApiVersions v4."""
        self.answers: Answers = lambda api_key, version, request: {}
        self.seen: list[tuple[ApiKey, Tree]] = []
        self.asked: list[Tree] = []

    def metadata(self, request: Tree) -> Tree:
        self.asked.append(request)
        wanted = request["topics"]
        topics = self.topics
        if wanted is not None:
            known = {each["name"]: each for each in topics} | {each["topic_id"]: each for each in topics}
            topics = [
                known.get(each["name"] or each.get("topic_id"))
                or {"error_code": 3 if each["name"] else 100, "name": each["name"], "topic_id": each.get("topic_id")}
                for each in wanted
            ]
        brokers = [{"node_id": id, "host": host, "port": port} for id, (host, port) in self.addresses.items()]
        return {
            "brokers": brokers,
            "cluster_id": f"id of {self.name}",
            "controller_id": self.controller,
            "topics": topics,
        }


class Troubles:
    """The problems of groups that operators see. open: reasons, by group and leaf."""

    def __init__(self) -> None:
        self.open: dict[tuple[str, int], str] = {}

    def begin(self, group: str, leaf: LeafNumber, reason: str) -> None:
        self.open[group, leaf] = reason

    def end(self, group: str, leaf: LeafNumber) -> None:
        del self.open[group, leaf]


class PartTroubles:
    """The problems of parts of concatenated topics that operators see. open: reasons, by the names at their
    clusters."""

    def __init__(self) -> None:
        self.open: dict[str, str] = {}

    def begin(self, part: Part, reason: str) -> None:
        self.open[part.topic] = reason

    def end(self, part: Part) -> None:
        del self.open[part.topic]


def at_work(
    names: Union | OneCluster,
    clusters: Mapping[str, LeafCluster],
    listener: Listener,
    ids: NodeIds,
    ports: Mapping[int | None, int],
    graceful_stop: GracefulStop,
    node_of: Callable[[asyncio.BaseTransport], int | None] = lambda _: None,
    troubles: Troubles | None = None,
    interval: float = PATIENCE,
    memory: RequestMemory | None = None,
    part_troubles: PartTroubles | None = None,
) -> tuple[Leaves, RouterMetadata, EntityRouterRuntime]:
    """Runs a union of some of these clusters, or one of them in its place. ports: of nodes, by the ids that clients
    see. interval: seconds between two looks at a cluster."""
    access = ConnectionSettings(setup_timeout=PATIENCE, request_timeout=PATIENCE)
    loop, chunks, made = asyncio.get_running_loop(), Chunks(), []
    for leaf in names.leaves:
        bootstrap = f"{HOST}:{clusters[leaf.cluster].guide.port}"
        nodes = LeafNodes(
            leaf.cluster, bootstrap, access, _places(leaf.number, ports), interval, lambda undeclared: None
        )
        services = RelayServices(
            listener,
            nodes,
            Traffic(),
            chunks,
            Requests(listener, LocalRequests()),
            SERVED,
            ADVERTISED,
            lambda: 100 << 20,
            False,
            lambda _: None,
            graceful_stop,
            nodes,
        )
        watching = loop.create_task(nodes.watch(), name=f"nodes of {leaf}")
        made.append(RouterLeaf(leaf.number, str(leaf), services, nodes, watching))
    leaves = Leaves(made, names.default, names, ids)
    metadata = RouterMetadata(leaves, "id of the union", KnownParts(leaves, part_troubles or PartTroubles()))
    for each in made:
        each.nodes.check_further = partial(metadata.check_parts, each)
    requests = RouterRequests(leaves, metadata, 5.0, troubles or Troubles())
    return leaves, metadata, EntityRouterRuntime(listener, leaves, requests, graceful_stop, node_of, memory=memory)


def _places(leaf: LeafNumber, ports: Mapping[int | None, int]) -> Callable[[int], tuple[str, int] | None]:
    def advertised_address(node: int) -> tuple[str, int] | None:
        told = leaf << NODE_BITS | node
        return (HOST, ports[told]) if told in ports else None

    return advertised_address


class UnionWorld:
    """A union of the clusters eu (leaf 0, the default) and us (leaf 1). ports: where clients reach it, by the node ids
    that they see; None: any node."""

    def __init__(self, clusters: Mapping[str, LeafCluster], config: Mapping[str, Any], interval: float) -> None:
        self.eu, self.us = clusters["eu"], clusters["us"]
        self.metrics = Metrics()
        self.descriptors = Descriptors(1 << 20)
        self.ports: dict[int | None, int] = {}
        self.troubles = Troubles()
        self.part_troubles = PartTroubles()
        self.memory = RequestMemory(lambda: MEMORY)
        self.named: int | None = None
        """The node that clients name in their TLS handshakes."""
        self.listener = Listener("front", self.metrics, None, ConnectionLimiter(UNRATIONED, self.descriptors))
        self.union = union_of(config)
        ids = NodeIds(leaf.number for leaf in self.union.leaves)
        graceful_stop = GracefulStop(self.listener)
        self.leaves, self.metadata, self.runtime = at_work(
            self.union,
            clusters,
            self.listener,
            ids,
            self.ports,
            graceful_stop,
            lambda _: self.named,
            self.troubles,
            interval,
            memory=self.memory,
            part_troubles=self.part_troubles,
        )
        self.metrics.add_collector(lambda: samples_of(self.runtime))
        self._servers: list[asyncio.Server] = []
        self._clients: list[Client] = []

    async def listen(self, nodes: Sequence[int | None]) -> None:
        loop = asyncio.get_running_loop()
        for node in nodes:
            server = await loop.create_server(lambda node=node: self.runtime.accept(node), HOST, 0)  # type: ignore[misc]
            self.ports[node] = server.sockets[0].getsockname()[1]
            self._servers.append(server)

    async def known(self) -> None:
        """Returns when the mesh has looked at both clusters."""
        await until(lambda: all(leaf.nodes.are_known for leaf in self.leaves))

    async def client(self, node: int | None = None) -> UnionClient:
        streams = await asyncio.open_connection(HOST, self.ports[node], limit=1 << 20)
        client = UnionClient(*streams)
        self._clients.append(client)
        return client

    async def stop(self) -> None:
        for client in self._clients:
            client.abort()
        for server in self._servers:
            server.close()
        self.runtime.close_connections()
        await until(lambda: not self.listener.connections)
        await self.runtime.closed()


class UnionClient(Client):
    """A client that sends and reads trees."""

    def ask_tree(self, api_key: ApiKey, version: int, request: Tree, correlation_id: int = 1) -> None:
        body = write_tree(api_key, version, Direction.REQUEST, request)
        head = pack(">hhih", api_key, version, correlation_id, 4) + b"test"
        tags = b"\0" if is_flexible(api_key, version) else b""
        self.send(framed(head + tags + body))

    async def tree(self, api_key: ApiKey, version: int, correlation_id: int = 1) -> Tree:
        """The next answer."""
        frame = await self.frame()
        assert unpack_from(">i", frame) == (correlation_id,)
        body = 4 + has_tagged_response_header(api_key, version)
        return read_tree(api_key, version, Direction.RESPONSE, frame[body:])

    async def asked(self, api_key: ApiKey, version: int, request: Tree) -> Tree:
        self.ask_tree(api_key, version, request)
        return await self.tree(api_key, version)


@asynccontextmanager
async def union(
    config: Mapping[str, Any] = SAME, interval: float = PATIENCE, brokers: int = 1
) -> AsyncIterator[UnionWorld]:
    """Names that begin with `us.` belong to us, all others to eu. The mesh has looked at both clusters, and looks again
    after each interval (seconds). brokers: of each cluster; clients have an address of the first only."""
    clusters = {name: LeafCluster(name, brokers) for name in ("eu", "us")}
    for cluster in clusters.values():
        await cluster.start()
    made = UnionWorld(clusters, config, interval)
    try:
        await made.listen([None, 0, 1 << NODE_BITS])
        await made.known()
        yield made
    finally:
        await made.stop()
        for cluster in clusters.values():
            await cluster.stop()
