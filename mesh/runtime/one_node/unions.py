"""A union that clients see as one node. The nodes of its clusters, with the ids that clients of a union see, take the
place of brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from mesh.config.listeners import FIRST, ListenerName
from mesh.listener.client_transport import ClientTransport
from mesh.listener.listener import Listener
from mesh.listener.requests import Requests
from mesh.memory import RequestMemory
from mesh.routing.names import RouteName
from mesh.routing.node_ids import NodeIds
from mesh.routing.one_node.one_node_apis import SERVED_BY_ONE_NODE
from mesh.routing.one_node.rewriting import VisibleNodes
from mesh.routing.served import limited
from mesh.routing.spi import Node, Request, Router, RouteUnavailable, Served
from mesh.runtime.entity_router.leaves import SERVED, RouterLeaf
from mesh.runtime.entity_router.runtime import EntityRouterRuntime
from mesh.runtime.entity_router.side_links import reason_of
from mesh.runtime.one_node.brokers import Channel
from mesh.runtime.one_node.cluster import OneNodeCluster
from mesh.runtime.one_node.requests import OneNodeRouter
from mesh.runtime.relay.graceful_stop import GracefulStop, StatelessTarget
from mesh.runtime.relay.local_requests import LocalRequests
from mesh.runtime.relay.runtime import LARGEST_REQUEST
from mesh.runtime.request_router.connection import RequestRouterConnection
from mesh.runtime.request_router.context import ConnectionContext
from mesh.runtime.request_router.services import RequestRouterServices, RouterKind
from mesh.tasks import OwnedTask, TaskName, keep
from mesh.upstream.links.chunks import Chunks
from mesh.upstream.links.handshake import Unreachable
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.errors import ProtocolError
from mesh.wire.trees import Tree, read_tree, read_views, write_tree

_ROUTE: Final = RouteName("union")


class UnionBrokers:
    """The nodes of a union in the place of brokers. Implements `mesh.runtime.one_node.brokers.Brokers`. context: makes
    the context of the mesh's own requests."""

    def __init__(self, union: EntityRouterRuntime, context: Callable[[], ConnectionContext]) -> None:
        self._union: Final = union
        self._context: Final = context
        self._own: ConnectionContext | None = None

    @property
    def name(self) -> str:
        return self._union.name

    @property
    def interval(self) -> float:
        return self._union.leaves.default.nodes.interval

    @property
    def known(self) -> Collection[int]:
        return {*self.in_turn()}

    def in_turn(self) -> Iterable[int]:
        leaves = self._union.leaves
        first = leaves.default
        for leaf in (first, *(each for each in leaves if each is not first)):
            yield from (leaves.ids.virtual(leaf.number, node.id) for node in leaf.nodes.in_turn())

    async def ask_any(self, api_key: ApiKey, version: int, request: Mapping[str, Any]) -> Tree:
        if api_key is ApiKey.METADATA:
            answer = await self._union.requests.topic_names.answer(dict(request), version)
            # Some topics in the answer may be encoded already. So encode the whole answer, and decode it.
            return read_tree(
                api_key, version, Direction.RESPONSE, write_tree(api_key, version, Direction.RESPONSE, answer)
            )
        if self._own is None:
            self._own = self._context()
        return await _send(self._own, Node(_ROUTE, None), Request(api_key, version, dict(request)))

    def not_answered(self, api_key: ApiKey, problem: Unreachable | ProtocolError) -> None:
        self._union.leaves.default.services.traffic.not_answered(api_key, reason_of(problem))

    def close(self) -> None:
        if self._own is not None:
            self._own.close()


class UnionLinks:
    """The connections of one client to the clusters of a union. Implements `mesh.runtime.one_node.brokers.Links`."""

    def __init__(self, context: Callable[[], ConnectionContext]) -> None:
        self._context: Final = context
        self._channels: Final[dict[Channel, ConnectionContext]] = {}

    async def ask(
        self,
        broker: int,
        channel: Channel,
        api_key: ApiKey,
        version: int,
        request: Tree,
        waits: float = 0.0,
        *,
        is_answered: bool = True,
    ) -> Tree:
        if channel not in self._channels:
            self._channels[channel] = self._context()
        node = Node(_ROUTE, broker if broker >= 0 else None)
        return await _send(self._channels[channel], node, Request(api_key, version, request, is_answered))

    def close(self) -> None:
        for each in self._channels.values():
            each.close()


async def _send(context: ConnectionContext, node: Node, request: Request) -> Tree:
    try:
        return await context.send(node, request)
    except RouteUnavailable as problem:
        raise Unreachable(str(problem)) from problem


class UnionServices(RequestRouterServices):
    """The services of a router by request whose only route leads to a union. shown: the nodes that clients see; may be
    replaced."""

    def __init__(
        self,
        listener: Listener,
        union: EntityRouterRuntime,
        ids: NodeIds,
        shown: VisibleNodes,
        serves: Served | None,
        graceful_stop: GracefulStop,
        memory: RequestMemory,
    ) -> None:
        """serves: the APIs that the routers of the union let clients use; None for all."""
        self.shown = shown
        self.brokers: Final = UnionBrokers(union, lambda: ConnectionContext(self, None, None))
        self.cluster: Final = OneNodeCluster(self.brokers, union.requests.timeout)
        kind = RouterKind(self._no_router, {}, limited(limited(SERVED, SERVED_BY_ONE_NODE), serves), read_views)
        largest_request = lambda: listener.admission.limits.request or LARGEST_REQUEST  # noqa: E731
        requests = Requests(listener, LocalRequests())
        super().__init__(
            listener,
            requests,
            Chunks(),
            kind,
            {_ROUTE: union},
            ids,
            graceful_stop,
            largest_request,
            lambda _: None,
            memory,
        )

    def node(self, id: int) -> Node | None:
        return Node(_ROUTE, None)

    def router(self, client: ClientTransport) -> Router:
        return OneNodeRouter(self.cluster, UnionLinks(lambda: ConnectionContext(self, client, None)), self.shown)

    def _no_router(self) -> Router:
        raise AssertionError("a router has a client")


class OneUnionRuntime(StatelessTarget):
    """The runtime of one virtual cluster in front of a union that clients see as one node. Implements
    `mesh.listener.target.Target`."""

    def __init__(
        self,
        listener: Listener,
        union: EntityRouterRuntime,
        ids: NodeIds,
        shown: VisibleNodes,
        serves: Served | None,
        memory: RequestMemory,
    ) -> None:
        self.name = listener.name
        self.listener = listener
        self.union = union
        self.graceful_stop = GracefulStop(listener)
        self._services = UnionServices(listener, union, ids, shown, serves, self.graceful_stop, memory)
        union.topics_moved = self._services.cluster.topics_moved
        self._watching = keep(OwnedTask(TaskName.LEADERS, self.name), self._services.cluster.watch)

    @property
    def leaves(self) -> list[RouterLeaf]:
        return [*self.union.leaves]

    def accept(self, node: int | None = None, listener: ListenerName = FIRST) -> RequestRouterConnection:
        return RequestRouterConnection(self._services, node)

    def status(self) -> dict[str, Any]:
        """The status of a router, with all its leaves."""
        return self.union.status()

    def change(self, shown: VisibleNodes) -> None:
        """Shows these nodes to new connections."""
        self._services.shown = shown

    # Stop

    async def closed(self) -> None:
        self._watching.cancel()
        await asyncio.wait([self._watching])
        self._services.brokers.close()
        await self.union.closed()
