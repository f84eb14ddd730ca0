"""From the configuration of a virtual cluster to its target."""

from __future__ import annotations

from typing import assert_never

from mesh.app.configured_target import ConfiguredTarget, ListenAddress, Services
from mesh.app.pool_target import PoolTarget, addresses_of_pool
from mesh.app.relay_target import RelayTarget, addresses_of_relay
from mesh.config.model import PoolTargetConfig, RelayTargetConfig, VirtualClusterConfig
from mesh.listener.listener import Listener
from mesh.records.spans import ClusterName


def addresses_of(configured: VirtualClusterConfig) -> tuple[ListenAddress, ...]:
    """Those that its kind of target needs."""
    match configured.target:
        case PoolTargetConfig():
            return addresses_of_pool(configured)
        case RelayTargetConfig():
            return addresses_of_relay(configured)
        case _:
            assert_never(configured.target)


def linked_clusters(configured: VirtualClusterConfig) -> frozenset[ClusterName]:
    """Those to which its kind of target has connections of its own, which no engine makes."""
    match configured.target:
        case PoolTargetConfig():
            return frozenset()
        case RelayTargetConfig(relay=relay):
            return frozenset({relay.cluster})
        case _:
            assert_never(configured.target)


def make(configured: VirtualClusterConfig, listener: Listener, services: Services) -> ConfiguredTarget:
    """The target that is configured; a configuration has exactly one."""
    match configured.target:
        case PoolTargetConfig(pool=pool):
            return PoolTarget(configured, pool, listener, services)
        case RelayTargetConfig(relay=relay):
            return RelayTarget(configured, relay, listener, services)
        case _:
            assert_never(configured.target)
