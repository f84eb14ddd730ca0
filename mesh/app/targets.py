"""Makes the target of a virtual cluster from its configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from mesh.app.configured_target import ConfiguredTarget, ListenAddress, Services
from mesh.app.connection_router_target import ConnectionRouterTarget
from mesh.app.entity_router_target import EntityRouterTarget, addresses_of_router
from mesh.app.interception import ConfiguredInterceptors, interceptors_of
from mesh.app.one_node_target import OneNodeTarget, addresses_of_one_node
from mesh.app.one_union_target import OneUnionTarget
from mesh.app.pool_target import PoolTarget, addresses_of_pool
from mesh.app.relay_target import RelayTarget, addresses_of_relay
from mesh.app.relay_under_rules import RelayUnderRules
from mesh.app.request_router_target import RequestRouterTarget
from mesh.app.router_making import Routers, graph_behind
from mesh.app.target_parts import TargetParts
from mesh.app.topologies import plugins_of
from mesh.config.model import Config, PoolTargetConfig, RelayTargetConfig, VirtualClusterConfig
from mesh.config.routers import RouterConfig, RouterTargetConfig
from mesh.listener.listener import Listener
from mesh.listener.target import Target
from mesh.records.spans import ClusterName
from mesh.routing.graph import Decides
from mesh.runtime.connection_router.runtime import ConnectionRouterRuntime
from mesh.runtime.entity_router.moves.moves import Moves
from mesh.runtime.entity_router.runtime import EntityRouterRuntime
from mesh.runtime.one_node.unions import OneUnionRuntime
from mesh.runtime.pool.runtime import PoolRuntime
from mesh.runtime.relay.runtime import RelayRuntime
from mesh.runtime.topologies.topologies import Topologies
from mesh.upstream.store.store import Store


def addresses_of(configured: VirtualClusterConfig, routers: Sequence[RouterConfig]) -> tuple[ListenAddress, ...]:
    """Returns the addresses that this kind of target needs. routers: those of the configuration."""
    match configured.target:
        case PoolTargetConfig():
            return addresses_of_pool(configured)
        case RelayTargetConfig():
            is_one = configured.is_one_node
            addresses = addresses_of_one_node(configured) if is_one else addresses_of_relay(configured)
        case RouterTargetConfig() if configured.is_one_node:
            addresses = addresses_of_one_node(configured)
        case RouterTargetConfig(router=router):
            addresses = addresses_of_router(configured, router, routers)
        case _:
            assert_never(configured.target)
    is_common = configured.worker is not None
    return tuple(each._replace(is_common=is_common) for each in addresses)


def linked_clusters(configured: VirtualClusterConfig, routers: Sequence[RouterConfig]) -> frozenset[ClusterName]:
    """Returns the clusters to which this kind of target has its own connections, without engines. routers: those of the
    configuration."""
    match configured.target:
        case PoolTargetConfig():
            return frozenset()
        case RelayTargetConfig(relay=relay):
            return frozenset({relay.cluster})
        case RouterTargetConfig(router=router):
            return graph_behind(routers, router.name).clusters
        case _:
            assert_never(configured.target)


def make(configured: VirtualClusterConfig, listener: Listener, services: Services) -> ConfiguredTarget:
    """Makes the configured target; a configuration has exactly one."""
    match configured.target:
        case PoolTargetConfig(pool=pool):
            return PoolTarget(configured, pool, listener, services, ConfiguredInterceptors(configured, services))
        case RelayTargetConfig(relay=relay):
            if configured.is_one_node:
                return OneNodeTarget(configured, relay, listener, services)
            of_relay = RelayTarget if configured.authorization is None else RelayUnderRules
            return of_relay(configured, relay, listener, services)
        case RouterTargetConfig(router=router):
            graph = graph_behind(services.routers, router.name)
            match graph.routers[graph.root].decides:
                case Decides.NAMES:
                    of_names = OneUnionTarget if configured.is_one_node else EntityRouterTarget
                    return of_names(configured, router, listener, services)
                case Decides.CONNECTIONS:
                    return ConnectionRouterTarget(configured, router, listener, services)
                case Decides.REQUESTS:
                    return RequestRouterTarget(configured, router, listener, services)
        case _:
            assert_never(configured.target)


def make_parts(parts: TargetParts, configured: VirtualClusterConfig, config: Config, store: Store | None) -> None:
    """Makes the parts of a target. It runs code of users, so call it in a thread. Raises ConfigurationError for a part
    that cannot be made."""
    routers = config.routers
    parts.steps = interceptors_of(configured, config.interceptors, routers)
    parts.plugins = plugins_of(configured, linked_clusters(configured, routers), store)
    if isinstance(configured.target, RouterTargetConfig):
        parts.routers = Routers(graph_behind(routers, configured.target.router.name), routers, configured.name)


def topologies_behind(target: Target) -> Sequence[Topologies]:
    """Returns the topologies that a target serves; empty if it serves no topology descriptions."""
    match target:
        case RelayRuntime(topologies=Topologies() as of_relay):
            return (of_relay,)
        case EntityRouterRuntime() | ConnectionRouterRuntime():
            return tuple(target.topologies or ())
        case _:
            return ()


def moves_behind(target: Target) -> Moves | None:
    """Returns the moves of a target; None if its topics cannot be moved."""
    match target:
        case EntityRouterRuntime():
            return target.moves
        case OneUnionRuntime():
            return target.union.moves
        case _:
            return None


def pools_of(target: Target) -> Sequence[PoolRuntime]:
    """Returns the target itself if it is a pool, or the pools behind it."""
    match target:
        case PoolRuntime():
            return (target,)
        case ConnectionRouterRuntime():
            return target.pools
        case _:
            return ()
