"""What the process makes of the target in a configuration: it serves, and may be configured otherwise while it runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from mesh.app.clusters import Clusters
from mesh.config.interceptors import InterceptorConfig, InterceptorWorkersConfig
from mesh.config.listeners import FIRST, ListenerName
from mesh.config.mistakes import KeyPath
from mesh.config.model import VirtualClusterConfig
from mesh.config.routers import RouterConfig
from mesh.config.values import Address
from mesh.listener.target import Target
from mesh.memory import MemoryBudget
from mesh.records.spans import ClusterName, TopicName
from mesh.telemetry.journal import Journal
from mesh.telemetry.metric_definitions import Sample
from mesh.telemetry.upstream_health import UpstreamHealth


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of the process that targets use. journal: None where none is kept. routers, interceptors,
    interceptor_workers: of the configuration."""

    clusters: Clusters
    memory: MemoryBudget
    upstream_health: UpstreamHealth
    journal: Journal | None
    routers: Sequence[RouterConfig]
    interceptors: Sequence[InterceptorConfig]
    interceptor_workers: InterceptorWorkersConfig


class ConfiguredTarget(Protocol):
    """A target that may be configured otherwise while it runs."""

    @property
    def target(self) -> Target: ...

    def samples(self) -> Iterator[Sample]:
        """Its state, at the time of a scrape."""

    def topics_changed(self, cluster: ClusterName, topics: Mapping[TopicName, int]) -> None:
        """What an upstream cluster has now, each with its partitions."""

    def left_by(
        self, configured: VirtualClusterConfig, anew: Collection[ClusterName], routers: Sequence[RouterConfig]
    ) -> frozenset[ClusterName] | None:
        """Which clusters it has to leave, perhaps to come back, when it is configured so and those are connected to
        anew; None if it has to begin anew itself. routers: of the configuration that is to be."""

    async def leave(self, cluster: ClusterName, grace: float) -> None: ...

    def change(
        self,
        configured: VirtualClusterConfig,
        left: Iterable[ClusterName],
        grace: float,
        routers: Sequence[RouterConfig],
    ) -> None:
        """left: clusters that were left before. grace: seconds that members have to commit."""

    def close(self) -> None:
        """The target has ended."""


class ListenAddress(NamedTuple):
    """An address that a virtual cluster listens on. path: of its key within the virtual cluster. node: as Metadata
    calls it; None for one that is no node's. listener: whose it is."""

    path: KeyPath
    address: Address
    node: int | None
    listener: ListenerName = FIRST
