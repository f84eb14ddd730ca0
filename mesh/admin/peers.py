"""`/peers` of the admin address: the endpoints of the pools of this process, for the other processes.

    GET /peers      {"instances": [{"instance": ..., "virtual_clusters": {NAME: {"nodes": ..., "members": ...}}}]}

A process that does not serve, or stops, has no virtual clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mesh.pool.apis.context import Endpoint, HostAndPort, NodePair
from mesh.runtime.pool.runtime import PoolRuntime

_Text = Annotated[str, Field(max_length=255)]


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True)


class PeerNode(_Body):
    id: Annotated[int, Field(ge=0, lt=1 << 31)]
    host: _Text
    port: Annotated[int, Field(ge=1, le=65_535)]


class PeerPool(_Body):
    """A pool of one process. members: the number of members of all its groups."""

    cluster_id: _Text
    broker: PeerNode
    coordinator: PeerNode
    members: Annotated[int, Field(ge=0)]

    def endpoint(self) -> Endpoint:
        broker, coordinator = self.broker, self.coordinator
        return Endpoint(
            self.cluster_id,
            HostAndPort(broker.host, broker.port),
            HostAndPort(coordinator.host, coordinator.port),
            NodePair(broker.id, coordinator.id),
        )


class Instance(_Body):
    """One process. instance: the unique name of its mesh."""

    instance: _Text
    virtual_clusters: dict[str, PeerPool]


class PeersAnswer(_Body):
    instances: Annotated[tuple[Instance, ...], Field(max_length=1_000)]


def peer_pool(runtime: PoolRuntime) -> PeerPool:
    endpoint = runtime.endpoint
    pairs = zip(endpoint.nodes, (endpoint.broker, endpoint.coordinator), strict=True)
    broker, coordinator = (PeerNode(id=id, host=place.host, port=place.port) for id, place in pairs)
    members = sum(sum(1 for _ in pool.members) for pool in runtime.core.pools.values())
    return PeerPool(cluster_id=endpoint.cluster_id, broker=broker, coordinator=coordinator, members=members)


class PeerApi:
    """The endpoint /peers, for other processes. instance: the name of this mesh. pools: returns the pools that are a
    virtual cluster's target. is_serving: returns whether clients may connect."""

    def __init__(
        self, instance: str, pools: Callable[[], Sequence[PoolRuntime]], is_serving: Callable[[], bool]
    ) -> None:
        self._instance = instance
        self._pools = pools
        self._is_serving = is_serving

    def routes(self) -> list[Route]:
        async def peers(_request: Request) -> Response:
            pools = self._pools() if self._is_serving() else ()
            here = Instance(instance=self._instance, virtual_clusters={each.name: peer_pool(each) for each in pools})
            return JSONResponse(PeersAnswer(instances=(here,)).model_dump())

        return [Route("/peers", peers, methods=["GET"])]
