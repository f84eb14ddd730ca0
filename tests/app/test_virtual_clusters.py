"""Virtual clusters without sockets: their stop, in which none waits for the clients of another, and their security."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Iterable, Iterator
from types import SimpleNamespace
from typing import Any, Final, cast

import anyio
import pytest

from mesh.app import virtual_clusters
from mesh.app.addresses import Addresses
from mesh.app.clusters import UpstreamClusters
from mesh.app.configured_target import ChangedConfig, LinkedTarget, Services
from mesh.app.prepared import Prepared
from mesh.app.target_parts import TargetParts
from mesh.app.virtual_clusters import VirtualClusters, nowhere
from mesh.config.interceptors import InterceptorWorkersConfig
from mesh.config.listeners import FIRST, ListenerName
from mesh.config.model import Config, VirtualClusterConfig
from mesh.config.security.files import stored_users
from mesh.config.security.model import SaslUser
from mesh.listener import listener_setup
from mesh.listener.limits import Descriptors
from mesh.listener.listener import Listener
from mesh.listener.listener_setup import ListenerSetup
from mesh.listener.peer import Peer
from mesh.memory import MemoryBudget
from mesh.records.spans import ClusterName
from mesh.runtime.relay.graceful_stop import GracefulStop, StatelessTarget
from mesh.security.credentials import StoredUser
from mesh.security.oauthbearer import TokenKeys
from mesh.tasks import GuardedSteps, Tasks
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

    def change(self, wanted: ChangedConfig, left: Iterable[ClusterName], grace: float) -> None: ...


def config_of(names: Collection[str], **keys: object) -> Config:
    relays = [
        {
            "name": name,
            "listen": f"127.0.0.1:{1_000 * number}",
            "nodes": {"ports": str(1_000 * number + 1), "ids": [0]},
            "target": {"relay": {"cluster": "eu"}},
            **keys,
        }
        for number, name in enumerate(names, 20)
    ]
    clusters = [{"name": "eu", "bootstrap_servers": "127.0.0.1:1"}]
    return Config.model_validate({"clusters": clusters, "virtual_clusters": relays})


def virtual_clusters_of(health: UpstreamHealth, of_tasks: TaskHealth) -> VirtualClusters:
    memory, descriptors = MemoryBudget(1 << 20), Descriptors(1 << 20)
    return VirtualClusters(Metrics(), memory, descriptors, health, None, 0, None, of_tasks)


@in_fake_time
async def test_a_stop_gives_all_virtual_clusters_the_same_seconds() -> None:
    config, health, of_tasks = config_of(["one", "two", "three"]), UpstreamHealth(("eu",)), TaskHealth(Metrics())
    clusters = virtual_clusters_of(health, of_tasks)
    upstream = UpstreamClusters(config, health, lambda *_: None, [])
    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(virtual_clusters, "make", ConfiguredWaiting)
        async with anyio.create_task_group() as tasks:
            for configured in config.virtual_clusters:
                clusters.build(configured, prepared_of(configured), upstream, Tasks(tasks, of_tasks))
    stopped, now = list(clusters.targets), asyncio.get_running_loop().time
    begun = now()
    await clusters.stop(clusters.names(), GRACE, GuardedSteps(clusters._task_health), nowhere)
    assert [cast(Waiting, each).drained_at for each in stopped] == [begun + GRACE] * 3
    assert now() == begun + GRACE + CLOSING
    assert not clusters.targets


def with_tokens(url: str) -> Config:
    return config_of(["one"], sasl={"mechanisms": ["OAUTHBEARER"], "oauthbearer": {"jwks_url": url}})


@pytest.mark.anyio
@pytest.mark.parametrize("begins_anew", [False, True])
async def test_token_keys_stay_when_a_listener_is_set_up_again_while_the_issuer_is_away(begins_anew: bool) -> None:
    """Operators change rules when something is on fire."""
    url, other = "http://127.0.0.1:1/keys", "http://127.0.0.1:1/other"
    (before,), (after,) = with_tokens(url).virtual_clusters, with_tokens(other).virtual_clusters
    health, of_tasks, keys = UpstreamHealth(("eu",)), TaskHealth(Metrics()), TokenKeys(())
    clusters = virtual_clusters_of(health, of_tasks)
    upstream = UpstreamClusters(with_tokens(url), health, lambda *_: None, [])
    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(virtual_clusters, "make", ConfiguredWaiting)
        patching.setattr(VirtualClusters, "serve", served_nowhere)
        async with anyio.create_task_group() as group:
            tasks = Tasks(group, of_tasks)

            async def used(configured: VirtualClusterConfig) -> TokenKeys | None:
                if begins_anew and clusters.names():
                    await clusters.stop(clusters.names(), 0.0, GuardedSteps(of_tasks), nowhere)
                if clusters.names():
                    wanted = ChangedConfig(configured, (), TargetParts(configured.name))
                    await clusters.change(wanted, ListenerSetup(configured, ()), (), 0.0, tasks)
                else:
                    clusters.build(configured, prepared_of(configured), upstream, tasks)
                (target,) = clusters.targets
                assert target.listener.security.sasl is not None
                assert target.listener.security.sasl.tokens is not None
                tokens = target.listener.security.sasl.tokens
                found, tokens.keys = tokens.keys, tokens.keys or keys
                return found

            assert await used(before) is None, "nothing was fetched yet"
            assert await used(before) is keys
            assert await used(after) is None, "another issuer"
            assert await used(before) is keys
            group.cancel_scope.cancel()


@pytest.mark.anyio
async def test_the_keys_of_passwords_are_derived_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of 4,096 rounds take five milliseconds for each user."""
    threads: list[threading.Thread] = []

    def stored(users: Iterable[SaslUser]) -> list[StoredUser]:
        threads.append(threading.current_thread())
        return list(stored_users(users))

    monkeypatch.setattr(listener_setup, "stored_users", stored)
    monkeypatch.setattr(Addresses, "prepare", bound_nowhere)
    users = [{"name": "alice", "password": "sesam"}]
    config = config_of(["one"], sasl={"mechanisms": ["SCRAM-SHA-256"], "users": users})
    prepared = await virtual_clusters_of(UpstreamHealth(("eu",)), TaskHealth(Metrics())).prepare(config, ["one"], {})
    assert prepared.setups.keys() == {"one"}
    assert threads
    assert threading.current_thread() not in threads


def prepared_of(configured: VirtualClusterConfig) -> Prepared:
    name = configured.name
    setups, parts = {name: ListenerSetup(configured, ())}, {name: TargetParts(name)}
    return Prepared(setups, {}, parts, (), (), InterceptorWorkersConfig())


async def served_nowhere(*_: object) -> None: ...


async def bound_nowhere(*_: object) -> dict[object, object]:
    return {}
