"""From the configuration of a virtual cluster to its target."""

from __future__ import annotations

from typing import assert_never

from mesh.app.configured_target import ConfiguredTarget, ListenAddress, Services
from mesh.app.pool_target import PoolTarget, addresses_of_pool
from mesh.app.relay_target import RelayTarget, addresses_of_relay
from mesh.config.mistakes import ConfigurationError, Mistake
from mesh.config.model import PoolTargetConfig, RelayTargetConfig, VirtualClusterConfig
from mesh.config.routers import RouterTargetConfig
from mesh.listener.listener import Listener


def addresses_of(configured: VirtualClusterConfig) -> tuple[ListenAddress, ...]:
    """Those that its kind of target needs."""
    match configured.target:
        case PoolTargetConfig():
            return addresses_of_pool(configured)
        case RelayTargetConfig():
            return addresses_of_relay(configured)
        case RouterTargetConfig():
            raise _not_yet(configured)
        case _:
            assert_never(configured.target)


def make(configured: VirtualClusterConfig, listener: Listener, services: Services) -> ConfiguredTarget:
    """The target that is configured; a configuration has exactly one."""
    match configured.target:
        case PoolTargetConfig(pool=pool):
            return PoolTarget(configured, pool, listener, services)
        case RelayTargetConfig(relay=relay):
            return RelayTarget(configured, relay, listener, services)
        case RouterTargetConfig():
            raise _not_yet(configured)
        case _:
            assert_never(configured.target)


def _not_yet(configured: VirtualClusterConfig) -> ConfigurationError:
    allowed = "a virtual cluster whose target is a pool or a relay: this version checks routers, and does not run them"
    return ConfigurationError([Mistake(("virtual_clusters",), configured.name, allowed)])
