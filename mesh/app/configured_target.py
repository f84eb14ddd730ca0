"""A target with its configuration, which may change while it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from mesh.app.clusters import UpstreamClusters
from mesh.app.target_parts import TargetParts
from mesh.config.interceptors import InterceptorConfig, InterceptorWorkersConfig
from mesh.config.listeners import FIRST, ListenerName
from mesh.config.mistakes import KeyPath
from mesh.config.model import VirtualClusterConfig
from mesh.config.routers import RouterConfig
from mesh.config.values import Address
from mesh.listener.target import Target
from mesh.memory import MemoryBudget
from mesh.records.spans import ClusterName, TopicName
from mesh.telemetry.journal import DeliveryLog
from mesh.telemetry.metric_definitions import MetricSample
from mesh.telemetry.upstream_health import UpstreamHealth
from mesh.upstream.store.store import Store


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of the process that targets use. journal, store: None if the configuration has none. batch_every: as
    in `PoolSettings`. routers, interceptors, interceptor_workers: those of the configuration. parts: those of the
    target."""

    clusters: UpstreamClusters
    memory: MemoryBudget
    upstream_health: UpstreamHealth
    journal: DeliveryLog | None
    batch_every: int
    store: Store | None
    routers: Sequence[RouterConfig]
    interceptors: Sequence[InterceptorConfig]
    interceptor_workers: InterceptorWorkersConfig
    parts: TargetParts


class ChangedConfig(NamedTuple):
    """A virtual cluster after a change of the configuration, with all routers of that configuration, and with the parts
    that it needs if it changes."""

    configured: VirtualClusterConfig
    routers: Sequence[RouterConfig]
    parts: TargetParts


class ConfiguredTarget(Protocol):
    """A target whose configuration may change while it runs."""

    @property
    def target(self) -> Target: ...

    def samples(self) -> Iterator[MetricSample]:
        """Yields the state of the target at the time of a scrape."""

    def topics_changed(self, cluster: ClusterName, topics: Mapping[TopicName, int]) -> None:
        """Notes the current topics of an upstream cluster, each with its number of partitions."""

    def clusters_to_leave(
        self, wanted: ChangedConfig, reconnected: Collection[ClusterName]
    ) -> frozenset[ClusterName] | None:
        """Returns the clusters that the target must leave, at least for a while, if this configuration applies and the
        clusters in `reconnected` get new connections. None if the target must start again."""

    async def leave(self, cluster: ClusterName, grace: float) -> None: ...

    def change(self, wanted: ChangedConfig, left: Iterable[ClusterName], grace: float) -> None:
        """Applies a changed configuration. left: the clusters that `clusters_to_leave` returned before. grace: seconds
        that members have to commit."""

    def close(self) -> None:
        """Called when the target has ended."""


class ListenAddress(NamedTuple):
    """An address on which a virtual cluster listens. path: the path of its key within the virtual cluster. node: its id
    in Metadata; None for a bootstrap address. listener: the name of its listener. is_common: True if other processes
    listen on it, too."""

    path: KeyPath
    address: Address
    node: int | None
    listener: ListenerName = FIRST
    is_common: bool = False


class LinkedTarget(ABC):
    """A target without engines, whose clusters the mesh reaches over its own connections. It never leaves a cluster: it
    starts again instead. It implements part of `ConfiguredTarget`."""

    @property
    @abstractmethod
    def linked(self) -> Collection[ClusterName]:
        """Returns the clusters to which it has connections."""

    def topics_changed(  # noqa: B027 - a relay need not know
        self, cluster: ClusterName, topics: Mapping[TopicName, int]
    ) -> None:
        """Does nothing: if the target needs the topics, it asks its clusters itself."""

    def clusters_to_leave(
        self, wanted: ChangedConfig, reconnected: Collection[ClusterName]
    ) -> frozenset[ClusterName] | None:
        return None if set(self.linked) & set(reconnected) else frozenset()

    async def leave(self, cluster: ClusterName, grace: float) -> None:
        raise AssertionError("a target that leaves a cluster of its own connections starts again")

    def close(self) -> None:  # noqa: B027 - not every target keeps something
        """Does nothing by default."""
