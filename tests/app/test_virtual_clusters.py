"""The stop of several virtual clusters: none waits for the clients of another."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator
from types import SimpleNamespace
from typing import Any, Final, cast

import anyio
import pytest

from mesh.app import virtual_clusters
from mesh.app.clusters import UpstreamClusters
from mesh.app.configured_target import ChangedConfig, LinkedTarget, Services
from mesh.app.virtual_clusters import VirtualClusters, nowhere
from mesh.config.listeners import FIRST, ListenerName
from mesh.config.model import Config, VirtualClusterConfig
from mesh.listener.limits import Descriptors
from mesh.listener.listener import Listener
from mesh.listener.listener_setup import ListenerSetup
from mesh.listener.peer import Peer
from mesh.memory import MemoryBudget
from mesh.records.spans import ClusterName
from mesh.runtime.relay.graceful_stop import GracefulStop, StatelessTarget
from mesh.tasks import Guard, Tasks
from mesh.telemetry.metric_definitions import MetricSample
from mesh.telemetry.metrics import Metrics
from mesh.telemetry.task_health import TaskHealth
from mesh.telemetry.upstream_health import UpstreamHealth
from tests.fake_time import in_fake_time

GRACE: Final = 6.0
CLOSING: Final = 4.0
"""Seconds that a target needs to leave its clusters."""
BUSY = cast(Peer, SimpleNamespace(is_busy=True, close=lambda: None))


class Waiting(StatelessTarget):
    """A target with a client whose request is never answered."""

    def __init__(self, listener: Listener) -> None:
        self.name = listener.name
        self.listener = listener
        self.graceful_stop = GracefulStop(listener, lambda: [BUSY])
        self.drained_at: float | None = None

    def accept(self, node: int | None = None, listener: ListenerName = FIRST) -> asyncio.BaseProtocol:
        raise NotImplementedError

    def status(self) -> dict[str, Any]:
        return {}

    def drain(self) -> None:
        self.drained_at = self.listener.now()

    async def closed(self) -> None:
        await asyncio.sleep(CLOSING)


class ConfiguredWaiting(LinkedTarget):
    """The same with its configuration. Implements `mesh.app.configured_target.ConfiguredTarget`."""

    def __init__(self, configured: VirtualClusterConfig, listener: Listener, services: Services) -> None:
        self.target = Waiting(listener)

    @property
    def linked(self) -> Collection[ClusterName]:
        return ()

    def samples(self) -> Iterator[MetricSample]:
        yield from ()

    def change(self, wanted: ChangedConfig, left: Iterable[ClusterName], grace: float) -> None:
        raise NotImplementedError


def config_of(names: Collection[str]) -> Config:
    relays = [
        {
            "name": name,
            "listen": f"127.0.0.1:{1_000 * number}",
            "nodes": {"ports": str(1_000 * number + 1), "ids": [0]},
            "target": {"relay": {"cluster": "eu"}},
        }
        for number, name in enumerate(names, 20)
    ]
    clusters = [{"name": "eu", "bootstrap_servers": "127.0.0.1:1"}]
    return Config.model_validate({"clusters": clusters, "virtual_clusters": relays})


@in_fake_time
async def test_a_stop_gives_all_virtual_clusters_the_same_seconds() -> None:
    config, health, memory = config_of(["one", "two", "three"]), UpstreamHealth(("eu",)), MemoryBudget(1 << 20)
    of_tasks = TaskHealth(Metrics())
    clusters = VirtualClusters(Metrics(), memory, Descriptors(1 << 20), health, None, 0, None, of_tasks)
    upstream = UpstreamClusters(config, health, lambda *_: None)
    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(virtual_clusters, "make", ConfiguredWaiting)
        async with anyio.create_task_group() as tasks:
            for configured in config.virtual_clusters:
                clusters.build(configured, ListenerSetup(configured, ()), upstream, Tasks(tasks, of_tasks))
    stopped, now = list(clusters.targets), asyncio.get_running_loop().time
    begun = now()
    await clusters.stop(clusters.names(), GRACE, Guard(clusters._task_health), nowhere)
    assert [cast(Waiting, each).drained_at for each in stopped] == [begun + GRACE] * 3
    assert now() == begun + GRACE + CLOSING
    assert not clusters.targets
