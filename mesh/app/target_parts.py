"""The parts of a target that code of users makes: routers, interceptors, and plugins of topology descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mesh.app.router_making import Routers
from mesh.interceptors.chain import ChainStep, InterceptorName
from mesh.records.spans import ClusterName
from mesh.runtime.topologies.plugin_calls import PluginCalls
from mesh.streams.spi import TopologyPlugin


@dataclass(slots=True)
class TargetParts:
    """The parts of one target. They are made before anything changes, since code of users may fail.

    routers: None if the target has no routers, or has taken them. steps: the interceptors. plugins: those that the
    target has not taken, by cluster; that of a relay has no cluster.
    """

    name: str
    routers: Routers | None = None
    steps: Mapping[InterceptorName, ChainStep] = field(default_factory=dict)
    plugins: dict[ClusterName | None, TopologyPlugin] = field(default_factory=dict)

    def take_routers(self) -> Routers:
        """Returns the routers; the caller closes them."""
        routers, self.routers = self.routers, None
        assert routers is not None, "made for a target that has routers"
        return routers

    async def close(self) -> None:
        """Closes the parts that no target has taken."""
        if self.routers is not None:
            self.take_routers().close()
        plugins, self.plugins = self.plugins, {}
        for plugin in plugins.values():
            await PluginCalls(self.name, plugin).close()
