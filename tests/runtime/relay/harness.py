"""A relay on real sockets, between raw clients and brokers that act as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from struct import Struct, unpack_from
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from mesh.listener.limits import ConnectionLimiter, Descriptors, Limits
from mesh.listener.listener import Listener
from mesh.listener.security import ListenerSecurity
from mesh.records.spans import ClusterName
from mesh.runtime.relay.connection import RelayConnection
from mesh.runtime.relay.nodes import RelayNodes
from mesh.runtime.relay.relay_samples import samples_of
from mesh.runtime.relay.runtime import RelayRuntime
from mesh.telemetry.metrics import Metrics
from mesh.upstream.links.connection_settings import ConnectionSettings
from mesh.wire.apis import ApiKey
from mesh.wire.relayed_apis import RELAYED_APIS
from tests.runtime.relay.frames import answer, metadata, request, versions
from tests.runtime.relay.loops import PATIENCE, until

HOST = "127.0.0.1"
START = Struct(">hhi")
OURS = b"kafka-mesh"  # the client id of the mesh's own requests
UNRATIONED = Limits(request_rate=1 << 40, request_rate_per_address=1 << 40)
SERVES: Mapping[int, tuple[int, int]] = {
    **{int(key): (each.lowest, each.highest) for key, each in RELAYED_APIS.items()},
    int(ApiKey.METADATA): (0, 4),
}
"""The versions that a broker reports; Metadata in a simple version."""


@dataclass(slots=True, eq=False)
class Asked:
    """A request that came to a broker. frame: without its length."""

    key: int
    version: int
    correlation_id: int
    frame: bytes


@dataclass(slots=True, eq=False)
class Leg:
    """A connection of the mesh to a broker. data: all received bytes, if the broker does not cut them into requests."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    asked: list[Asked] = field(default_factory=list)
    data: bytearray = field(default_factory=bytearray)
    has_ended: bool = False


Script = Callable[["FakeBroker", Leg, Asked], None]


def echo(broker: FakeBroker, leg: Leg, asked: Asked) -> None:
    """Answers with the body of the request, behind its head."""
    leg.writer.write(answer(asked.correlation_id, asked.frame[8:]))


class FakeBroker:
    """Answers the mesh's requests itself, and clients' requests as the script says. serves: the answer to ApiVersions.

    reads: false for a broker that reads nothing. cuts: false for one that does not look at what it gets.
    """

    def __init__(self, cluster: FakeCluster, id: int) -> None:
        self.cluster = cluster
        self.id = id
        self.script: Script = echo
        self.serves = dict(SERVES)
        self.legs: list[Leg] = []
        """The legs of clients."""
        self.accepted = 0
        self.reads = True
        self.cuts = True
        self.refuses = False
        self.port = 0
        self._server: asyncio.Server | None = None
        self._is_stopped = False
        self.writers: list[asyncio.StreamWriter] = []
        self._serving = 0

    async def start(self) -> None:
        """Starts it, at its earlier port if it had one."""
        self._is_stopped = False
        self._server = await asyncio.start_server(self._serve, HOST, self.port, limit=1 << 20)
        self.port = self._server.sockets[0].getsockname()[1]

    def stop(self) -> None:
        self._is_stopped = True
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self.writers:
            writer.transport.abort()

    async def stopped(self) -> None:
        """Waits until no part of it runs any more."""
        self.stop()
        await until(lambda: not self._serving)

    @property
    def leg(self) -> Leg:
        """The newest leg."""
        return self.legs[-1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._serving += 1
        self.writers.append(writer)
        try:
            await self._talk(reader, writer)
        finally:
            self._serving -= 1

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_stopped:  # it was accepted before, and is served now
            writer.transport.abort()
            return
        if self.refuses:
            writer.close()
            return
        leg = Leg(reader, writer)
        try:
            if not self.reads:
                self.legs.append(leg)
                return
            if self.cuts:
                await self._take(leg)
            else:
                self.legs.append(leg)
                while data := await reader.read(1 << 16):
                    leg.data += data
            writer.close()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
        finally:
            leg.has_ended = self.reads

    async def _take(self, leg: Leg) -> None:
        while True:
            frame = await leg.reader.readexactly(int.from_bytes(await leg.reader.readexactly(4), "big"))
            key, version, correlation_id = START.unpack_from(frame)
            asked = Asked(key, version, correlation_id, frame)
            (length,) = unpack_from(">h", frame, 8)
            if frame[10 : 10 + max(length, 0)] == OURS:
                self._answer_the_mesh(leg, asked)
                continue
            if leg not in self.legs:
                self.legs.append(leg)
            leg.asked.append(asked)
            acks = unpack_from(">h", frame, 12 + length)[0] if asked.key == ApiKey.PRODUCE else None
            if acks != 0:
                self.script(self, leg, asked)

    def _answer_the_mesh(self, leg: Leg, asked: Asked) -> None:
        body = versions(self.serves) if asked.key == ApiKey.API_VERSIONS else metadata(self.cluster.addresses)
        leg.writer.write(answer(asked.correlation_id, body))


class FakeCluster:
    """Brokers, and their answers about each other. addresses: those of Metadata, and that of the guide.

    The guide is a broker without an id, which answers only the mesh's own requests, so that all other brokers may be
    down.
    """

    def __init__(self, count: int) -> None:
        self.brokers = {id: FakeBroker(self, id) for id in range(count)}
        self.guide = FakeBroker(self, -1)
        self.addresses: dict[int, tuple[str, int]] = {}

    async def start(self) -> None:
        await self.guide.start()
        for id, broker in self.brokers.items():
            await broker.start()
            self.addresses[id] = (HOST, broker.port)

    async def stop(self) -> None:
        for broker in (self.guide, *self.brokers.values()):
            await broker.stopped()


class Client:
    """A client on a raw socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, *frames: bytes) -> None:
        self.writer.write(b"".join(frames))

    async def frame(self) -> bytes:
        """The next answer, without its length."""
        return await self.reader.readexactly(int.from_bytes(await self.reader.readexactly(4), "big"))

    async def ask(self, key: int, version: int, correlation_id: int = 1, body: bytes = b"") -> bytes:
        self.send(request(key, version, correlation_id, body))
        return await self.frame()

    async def rest(self) -> bytes:
        """All further bytes, until the connection has ended."""
        data = bytearray()
        try:
            while piece := await self.reader.read(1 << 16):
                data += piece
        except ConnectionError:
            pass
        return bytes(data)

    def close(self) -> None:
        self.writer.close()

    def abort(self) -> None:
        if not self.writer.transport.is_closing():
            self.writer.transport.abort()


class World:
    """A relay in front of a cluster. ports: where clients reach it, by node; None: any node."""

    def __init__(
        self,
        cluster: FakeCluster,
        limits: Limits = UNRATIONED,
        security: ListenerSecurity | None = None,
        refused: Collection[ApiKey] = (),
        *,
        passes_authentication: bool = False,
    ) -> None:
        self.cluster = cluster
        self.metrics = Metrics()
        self.ports: dict[int | None, int] = {}
        self.undeclared: frozenset[int] = frozenset()
        self.looks = 0
        self.listener = Listener("front", self.metrics, security, ConnectionLimiter(limits, Descriptors(1 << 20)))
        access = ConnectionSettings(setup_timeout=PATIENCE, request_timeout=PATIENCE)
        bootstrap = f"{HOST}:{cluster.guide.port}"
        self.nodes = RelayNodes(ClusterName("eu"), bootstrap, access, self.advertised_address, PATIENCE, self._looked)
        self.runtime = RelayRuntime(
            self.listener, self.nodes, refused, lambda _: None, passes_authentication=passes_authentication
        )
        self.metrics.add_collector(lambda: samples_of(self.runtime))
        self._servers: list[asyncio.Server] = []
        self._clients: list[Client] = []

    @property
    def broker(self) -> FakeBroker:
        return self.cluster.brokers[0]

    @property
    def connections(self) -> list[RelayConnection]:
        """The connections of all clients, in the order in which they came."""
        return [each._connection for each in self.listener.connections.values()]  # type: ignore[attr-defined]

    @property
    def held(self) -> int:
        """Bytes of chunks that are referred to."""
        return self.runtime._services.chunks.held

    @property
    def waiting_upstream(self) -> int:
        """Bytes that brokers have not taken yet."""
        legs = [each._leg for each in self.connections]
        return sum(each._transport.get_write_buffer_size() for each in legs if each is not None and each._transport)

    def advertised_address(self, node: int) -> tuple[str, int] | None:
        return (HOST, self.ports[node]) if node in self.ports else None

    async def listen(self, nodes: Iterable[int | None]) -> None:
        loop = asyncio.get_running_loop()
        for node in nodes:
            server = await loop.create_server(lambda node=node: self.runtime.accept(node), HOST, 0)  # type: ignore[misc]
            self.ports[node] = server.sockets[0].getsockname()[1]
            self._servers.append(server)

    async def client(self, node: int | None = 0) -> Client:
        client = Client(*await asyncio.open_connection(HOST, self.ports[node], limit=1 << 16))
        self._clients.append(client)
        return client

    async def known(self) -> None:
        """Returns when the mesh has looked at the cluster for the first time."""
        await until(lambda: self.looks)

    async def look(self) -> None:
        """The mesh looks at the cluster again."""
        looks = self.looks
        self.nodes._check_soon.set()
        await until(lambda: self.looks > looks)

    def metric(self, name: str) -> dict[tuple[str, ...], float]:
        """The samples of that name, by the values of their labels without the virtual cluster's, by their names."""
        content = b"".join(self.metrics.exposition()).decode()
        return {
            tuple(value for label, value in sample.labels.items() if label != "virtual_cluster"): sample.value
            for family in text_string_to_metric_families(content)
            for sample in family.samples
            if sample.name == name
        }

    @property
    def lost(self) -> dict[tuple[str, ...], float]:
        return self.metric("kafka_mesh_relay_legs_lost_total")

    @property
    def refused(self) -> dict[tuple[str, ...], float]:
        return self.metric("kafka_mesh_protocol_errors_total")

    async def stop(self) -> None:
        for client in self._clients:
            client.abort()
        for server in self._servers:
            server.close()
        self.runtime.close_connections()
        await until(lambda: not self.listener.connections)
        await self.runtime.closed()

    def _looked(self, undeclared: frozenset[int]) -> None:
        self.undeclared = undeclared
        self.looks += 1


@asynccontextmanager
async def world(
    count: int = 1,
    *,
    limits: Limits = UNRATIONED,
    security: ListenerSecurity | None = None,
    refused: Collection[ApiKey] = (),
    passes_authentication: bool = False,
    declared: int | None = None,
    start: bool = True,
    serves: Mapping[Any, tuple[int, int]] = SERVES,
) -> AsyncIterator[World]:
    """count: of brokers, with the ids from 0 on. declared: the number of ids that have an address; None for as many.
    start: starts the brokers; else they only have their ports. serves: of the first broker."""
    cluster = FakeCluster(count)
    cluster.brokers[0].serves = dict(serves)
    await cluster.start()
    if not start:
        await cluster.stop()
    made = World(cluster, limits, security, refused, passes_authentication=passes_authentication)
    try:
        await made.listen([None, *range(count if declared is None else declared)])
        yield made
    finally:
        await made.stop()
        await cluster.stop()
