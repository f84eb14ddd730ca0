"""From the configuration of a virtual cluster to its target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from mesh.app.choice_target import ChoiceTarget
from mesh.app.configured_target import ConfiguredTarget, ListenAddress, Services
from mesh.app.interception import ConfiguredInterceptors
from mesh.app.pool_target import PoolTarget, addresses_of_pool
from mesh.app.relay_target import RelayTarget, addresses_of_relay
from mesh.app.relay_under_rules import RelayUnderRules
from mesh.app.request_target import RequestTarget
from mesh.app.router_making import Routers, graph_behind
from mesh.app.router_target import RouterTarget, addresses_of_router
from mesh.config.model import PoolTargetConfig, RelayTargetConfig, VirtualClusterConfig
from mesh.config.routers import RouterConfig, RouterTargetConfig
from mesh.listener.listener import Listener
from mesh.listener.target import Target
from mesh.records.spans import ClusterName
from mesh.routing.graph import Decides
from mesh.runtime.choice.runtime import ChoiceRuntime
from mesh.runtime.pool.runtime import PoolRuntime
from mesh.runtime.relay.runtime import RelayRuntime
from mesh.runtime.topologies.topologies import Topologies


def addresses_of(configured: VirtualClusterConfig, routers: Sequence[RouterConfig]) -> tuple[ListenAddress, ...]:
    """Those that its kind of target needs. routers: of the configuration."""
    match configured.target:
        case PoolTargetConfig():
            return addresses_of_pool(configured)
        case RelayTargetConfig():
            return addresses_of_relay(configured)
        case RouterTargetConfig(router=router):
            return addresses_of_router(configured, router, routers)
        case _:
            assert_never(configured.target)


def linked_clusters(configured: VirtualClusterConfig, routers: Sequence[RouterConfig]) -> frozenset[ClusterName]:
    """Those to which its kind of target has connections of its own, which no engine makes. routers: of the
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
    """The target that is configured; a configuration has exactly one."""
    match configured.target:
        case PoolTargetConfig(pool=pool):
            return PoolTarget(configured, pool, listener, services, ConfiguredInterceptors(configured, services))
        case RelayTargetConfig(relay=relay):
            of_relay = RelayTarget if configured.authorization is None else RelayUnderRules
            return of_relay(configured, relay, listener, services)
        case RouterTargetConfig(router=router):
            graph = graph_behind(services.routers, router.name)
            match graph.routers[graph.root].decides:
                case Decides.NAMES:
                    return RouterTarget(configured, router, listener, services)
                case Decides.CONNECTIONS:
                    return ChoiceTarget(configured, router, listener, services)
                case Decides.REQUESTS:
                    return RequestTarget(configured, router, listener, services)
        case _:
            assert_never(configured.target)


def try_routers(configured: VirtualClusterConfig, routers: Sequence[RouterConfig]) -> None:
    """Raises ConfigurationError if a router that it leads to cannot begin."""
    if isinstance(configured.target, RouterTargetConfig):
        Routers(graph_behind(routers, configured.target.router.name), routers, configured.name).close()


def topologies_behind(target: Target) -> Topologies | None:
    """None if it serves no topology descriptions."""
    return target.topologies if isinstance(target, RelayRuntime) else None


def pools_of(target: Target) -> Sequence[PoolRuntime]:
    """The target itself, or those that it leads to."""
    match target:
        case PoolRuntime():
            return (target,)
        case ChoiceRuntime():
            return target.pools
        case _:
            return ()
