"""What the process makes of the target in a configuration: it serves, and may be configured otherwise while it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
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
from mesh.upstream.store.store import Store


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of the process that targets use. journal, store: None where none is kept. routers, interceptors,
    interceptor_workers: of the configuration."""

    clusters: Clusters
    memory: MemoryBudget
    upstream_health: UpstreamHealth
    journal: Journal | None
    store: Store | None
    routers: Sequence[RouterConfig]
    interceptors: Sequence[InterceptorConfig]
    interceptor_workers: InterceptorWorkersConfig


class Wanted(NamedTuple):
    """A virtual cluster as it is to be, with all routers of that configuration."""

    configured: VirtualClusterConfig
    routers: Sequence[RouterConfig]


class ConfiguredTarget(Protocol):
    """A target that may be configured otherwise while it runs."""

    @property
    def target(self) -> Target: ...

    def samples(self) -> Iterator[Sample]:
        """Its state, at the time of a scrape."""

    def topics_changed(self, cluster: ClusterName, topics: Mapping[TopicName, int]) -> None:
        """What an upstream cluster has now, each with its partitions."""

    def left_by(self, wanted: Wanted, anew: Collection[ClusterName]) -> frozenset[ClusterName] | None:
        """Which clusters it has to leave, perhaps to come back, when it is configured so and those are connected to
        anew; None if it has to begin anew itself."""

    async def leave(self, cluster: ClusterName, grace: float) -> None: ...

    def change(self, wanted: Wanted, left: Iterable[ClusterName], grace: float) -> None:
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


class LinkedTarget(ABC):
    """A target without engines: connections of the mesh's own lead to its clusters, so it never leaves one, but begins
    anew. In part a `ConfiguredTarget`."""

    @property
    @abstractmethod
    def linked(self) -> Collection[ClusterName]:
        """The clusters that it has connections to."""

    def topics_changed(  # noqa: B027 - a relay need not know
        self, cluster: ClusterName, topics: Mapping[TopicName, int]
    ) -> None:
        """It asks its clusters itself which topics there are, if it has to know."""

    def left_by(self, wanted: Wanted, anew: Collection[ClusterName]) -> frozenset[ClusterName] | None:
        return None if set(self.linked) & set(anew) else frozenset()

    async def leave(self, cluster: ClusterName, grace: float) -> None:
        raise AssertionError("a target that leaves a cluster of its own connections begins anew")

    def close(self) -> None:  # noqa: B027 - not every target keeps something
        """Nothing is kept here that has to be told."""
