"""Reloads that fail: until something has changed they are refused, and then only one virtual cluster is concerned."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml
from structlog.testing import capture_logs

from mesh.app import Application, reconfiguring, virtual_clusters
from mesh.app.clusters import UpstreamClusters
from mesh.app.readiness import Readiness
from mesh.app.virtual_clusters import VirtualClusters
from mesh.config.load import load
from mesh.config.model import Config
from mesh.listener.bound_address import BoundAddress
from mesh.tasks import Tasks
from tests.integration.processes import free_ports
from tests.integration.security.certificates import Authority

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

NO_DESCRIPTOR = OSError(24, "Too many open files")


def failures_of(app: Application, task: str) -> float:
    found = app._metrics.registry.get_sample_value("kafka_mesh_task_failures_total", {"task": task})
    return found or 0.0


class Bed:
    """A process of two relays whose cluster is not there, inside of this one."""

    def __init__(self, folder: Path) -> None:
        pair = Authority(folder / "authority").issue("mesh")
        ports = free_ports(5)
        self.file = folder / "mesh.yaml"
        self.tree: dict[str, Any] = {
            "admin": {
                "listen": f"127.0.0.1:{ports[0]}",
                "tls": {"certificate_file": str(pair.certificate), "key_file": str(pair.key)},
            },
            "drain_grace": "1s",
            "clusters": [{"name": "eu", "bootstrap_servers": "127.0.0.1:1"}],
            "virtual_clusters": [
                {
                    "name": name,
                    "listen": f"127.0.0.1:{ports[1 + index]}",
                    "nodes": {"ports": ports[3 + index], "ids": [1]},
                    "target": {"relay": {"cluster": "eu"}},
                }
                for index, name in enumerate(("one", "two"))
            ],
        }
        self.write()
        self.app = Application(load(self.file), self.file)
        self.readiness: Readiness = self.app._readiness

    def write(self) -> None:
        self.file.write_text(yaml.safe_dump(self.tree))

    def restart_both(self) -> None:
        """Changes the cluster of both."""
        self.tree["clusters"][0]["properties"] = {"client.id": f"mesh-{len(self.file.read_text())}"}
        self.write()

    async def reload(self) -> tuple[int, dict[str, Any]]:
        return await self.app._reconfiguring.ask()

    async def serving(self) -> list[str]:
        """The virtual clusters at which clients can connect, and stay connected for a moment."""
        found = []
        for configured in self.tree["virtual_clusters"]:
            host, port = configured["listen"].split(":")
            try:
                stream = await anyio.connect_tcp(host, int(port))
            except OSError:
                continue
            async with stream:
                found.append(configured["name"])
        return found

    def failures(self) -> float:
        return failures_of(self.app, "reload")


@asynccontextmanager
async def running(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bed]:
    async def learn_topics(clusters: UpstreamClusters) -> None:
        clusters.topics_known.set()

    async def change(clusters: UpstreamClusters, config: object, reconnected: object) -> None: ...

    monkeypatch.setattr(UpstreamClusters, "learn_topics", learn_topics)
    monkeypatch.setattr(UpstreamClusters, "change", change)
    bed = Bed(folder)
    try:
        async with anyio.create_task_group() as group:
            await bed.app.start(Tasks(group, bed.app.task_health))
            yield bed
            await bed.app.drain()
            group.cancel_scope.cancel()
    finally:
        gc.unfreeze()


def failing(problem: Exception, when: Callable[..., bool] = lambda *_: True, then: Any = None) -> Any:
    """A function that raises, where `when` says so, and else does `then`."""

    def call(*arguments: Any, **keywords: Any) -> Any:
        if when(*arguments):
            raise problem
        return then(*arguments, **keywords)

    return call


BEFORE = [
    (reconfiguring, "load"),
    (reconfiguring, "compare"),
    (reconfiguring, "settings_for"),
    (reconfiguring, "admin_certificate"),
    (VirtualClusters, "clusters_to_leave"),
    (virtual_clusters, "try_routers"),
    (virtual_clusters, "ListenerSetup"),
    (BoundAddress, "bind"),
]


@pytest.mark.parametrize("problem", [NO_DESCRIPTOR, KeyError("relay")], ids=["no descriptor", "bug"])
async def test_whatever_fails_before_something_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    async with running(tmp_path, monkeypatch) as bed:
        before, certificate = bed.app.config, bed.app._reconfiguring.admin
        bed.tree["virtual_clusters"][0]["listen"] = f"127.0.0.1:{free_ports(1)[0]}"
        bed.restart_both()
        for place, name in BEFORE:
            descriptors = len(os.listdir("/proc/self/fd"))
            with monkeypatch.context() as planted, capture_logs() as logs:
                planted.setattr(place, name, failing(problem))
                status, answer = await bed.reload()
            assert (status, answer["state"]) == (422, "refused"), name
            reason = "the system does not allow it now" if problem is NO_DESCRIPTOR else "bug in kafka-mesh: KeyError"
            assert reason in answer["problem"] or str(problem) in answer["problem"], name
            assert "configuration not reloaded" in [each["event"] for each in logs]
            assert bed.app.config is before
            assert len(os.listdir("/proc/self/fd")) <= descriptors, name
        assert bed.app._reconfiguring.admin is certificate
        assert (bed.failures() == 0) is (problem is NO_DESCRIPTOR)
        assert bed.readiness.degraded() == []
        status, answer = await bed.reload()
        assert (status, answer["problems"]) == (200, [])
        assert await bed.serving() == ["one", "two"]


@pytest.mark.parametrize("name", ["build", "serve"])
async def test_what_fails_afterwards_concerns_one_virtual_cluster_which_the_next_reload_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    async with running(tmp_path, monkeypatch) as bed:
        bed.restart_both()
        with monkeypatch.context() as planted:

            def is_one(_self: object, configured: Any, *_more: object) -> bool:
                return bool(getattr(configured, "configured", configured).name == "one")

            planted.setattr(VirtualClusters, name, failing(NO_DESCRIPTOR, is_one, getattr(VirtualClusters, name)))
            status, answer = await bed.reload()
        assert (status, answer["state"]) == (200, "applied")
        assert answer["problems"] == ["virtual cluster one: OSError: [Errno 24] Too many open files"]
        (described,) = bed.readiness.degraded()
        assert (described["virtual_cluster"], described["reason"]) == ("one", "OSError: [Errno 24] Too many open files")
        assert bed.failures() == 1
        assert bed.app._virtual_clusters.names()[-1] == "two"
        status, answer = await bed.reload()
        assert (status, answer["changes"], answer["problems"]) == (200, [], [])
        assert bed.readiness.degraded() == []
        assert sorted(bed.app._virtual_clusters.names()) == ["one", "two"]
        assert [each.name for each in bed.app._virtual_clusters.targets] == ["one", "two"]
        assert await bed.serving() == ["one", "two"]


@pytest.mark.parametrize("name", ["stop", "rearrange", "look_at_files"])
async def test_what_fails_for_all_of_them_is_told_and_the_next_reload_starts_all_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    async with running(tmp_path, monkeypatch) as bed:
        bed.restart_both()
        with monkeypatch.context() as planted:
            planted.setattr(VirtualClusters, name, failing(KeyError("relay")))
            status, answer = await bed.reload()
        assert (status, answer["state"]) == (200, "applied")
        assert answer["problems"] == [f"virtual cluster {each}: KeyError: 'relay'" for each in ("one", "two")]
        assert {each["virtual_cluster"] for each in bed.readiness.degraded()} == {"one", "two"}
        status, answer = await bed.reload()
        assert (status, answer["problems"]) == (200, [])
        assert bed.readiness.degraded() == []
        assert [each.name for each in bed.app._virtual_clusters.targets] == ["one", "two"]
        assert await bed.serving() == ["one", "two"]


async def test_a_stop_does_not_wait_for_a_file_that_is_being_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_read, may_end = threading.Event(), threading.Event()

    def load_slowly(file: Path) -> Config:
        is_read.set()
        assert may_end.wait(60)
        return load(file)

    answers: list[tuple[int, dict[str, Any]]] = []

    async def reload(bed: Bed) -> None:
        answers.append(await bed.reload())

    with monkeypatch.context() as planted:
        planted.setattr(reconfiguring, "load", load_slowly)
        try:
            async with anyio.create_task_group() as group, running(tmp_path, monkeypatch) as bed:
                group.start_soon(reload, bed)
                assert await anyio.to_thread.run_sync(is_read.wait, 60)
        finally:
            may_end.set()
    ((status, answer),) = answers
    assert (status, answer["state"], answer["problem"]) == (422, "given up", "the process is stopping")
