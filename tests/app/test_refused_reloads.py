"""Reloads that fail before anything has changed: they are refused, and leave everything as it is."""

from __future__ import annotations

import gc
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
import yaml
from structlog.testing import capture_logs

from mesh.app import Application, addresses, clusters, prepared, prepared_clusters, reconfiguring, targets
from mesh.app.readiness import Readiness
from mesh.app.virtual_clusters import VirtualClusters
from mesh.config.load import load
from mesh.config.model import Config
from mesh.listener.bound_address import BoundAddress
from mesh.records.spans import ClusterName
from mesh.tasks import Tasks
from mesh.upstream.catalog import CatalogUpdate
from tests.integration.processes import free_ports
from tests.integration.security.certificates import Authority

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

ROUTER = {
    "name": "one",
    "type": "topics",
    "config": {"topics": [{"prefix": "", "route": "eu"}], "default": "eu"},
    "routes": [{"name": "eu", "id": 0, "target": {"cluster": "eu"}}],
}
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

    def restart_all(self) -> None:
        """Changes the cluster of all."""
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


class Catalog:
    """The catalog of a cluster without topics, in place of `mesh.upstream.catalog.TopicCatalog`."""

    def __init__(self, cluster: ClusterName, _servers: str, _properties: Any, interval: float, *to: Any) -> None:
        self.interval = interval
        deliver, loop = to
        loop.call_soon(deliver, CatalogUpdate(cluster, {}))

    def close(self) -> None: ...


@asynccontextmanager
async def running(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bed]:
    monkeypatch.setattr(clusters, "TopicCatalog", Catalog)
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
    (reconfiguring, "warnings_of"),
    (reconfiguring, "fingerprint"),
    (reconfiguring, "admin_certificate"),
    (reconfiguring, "may_need_parts"),
    (targets, "interceptors_of"),
    (targets, "plugins_of"),
    (targets, "Routers"),
    (reconfiguring, "plan_of"),
    (VirtualClusters, "clusters_to_leave"),
    (clusters, "prepare_clusters"),
    (prepared_clusters, "connection_settings_or_reason"),
    (prepared_clusters, "AdminClient"),
    (prepared_clusters, "Producer"),
    (prepared_clusters, "Consumer"),
    (prepared, "ListenerSetup"),
    (addresses, "addresses_of"),
    (BoundAddress, "bind"),
    (BoundAddress, "reserve"),
]
"""Every step before a reload changes something."""


def state_of(bed: Bed) -> dict[str, object]:
    """All that a refused reload must leave as it is; its outcome is not part of that."""
    status = dict(bed.readiness.status())
    configuration = dict(cast(Any, status.pop("configuration")))
    outcome = {key: configuration.pop(key) for key in ("state", "at", "changes", "problems")}
    assert outcome["state"] in ("started", "refused", "applied")
    return {
        "status": json.dumps([status, configuration]),
        "degraded": bed.readiness.degraded(),
        "watched": list(bed.app._virtual_clusters.watched),
        "admin": bed.app._reconfiguring.admin,
        "certificate": cast(Any, bed.app._reconfiguring.admin).tls.certificate,
        "config": bed.app.config,
        "addresses": {str(at): len(each._spare) for at, each in bed.app._virtual_clusters._addresses._bound.items()},
    }


@pytest.mark.parametrize("problem", [NO_DESCRIPTOR, KeyError("relay")], ids=["no descriptor", "bug"])
async def test_whatever_fails_before_something_changes_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    async with running(tmp_path, monkeypatch) as bed:
        await bed.reload()  # threads and files of the first one stay open
        routed = {**bed.tree["virtual_clusters"][0], "name": "routed", "target": {"router": "one"}}
        listen, node = free_ports(2)
        routed |= {"listen": f"127.0.0.1:{listen}", "nodes": {"ports": node, "ids": {"eu": [1]}}}
        bed.tree["virtual_clusters"].append(routed)
        bed.tree["routers"] = [ROUTER]
        bed.restart_all()
        before = state_of(bed)
        for place, name in BEFORE:
            with monkeypatch.context() as planted, capture_logs() as logs:
                planted.setattr(place, name, failing(problem))
                status, answer = await bed.reload()
            assert (status, answer["state"]) == (422, "refused"), name
            reason = "the system does not allow it now" if problem is NO_DESCRIPTOR else "bug in kafka-mesh: KeyError"
            assert reason in answer["problem"] or str(problem) in answer["problem"], name
            assert "configuration not reloaded" in [each["event"] for each in logs]
            assert state_of(bed) == before, name
            for port in (listen, node):
                with socket.socket() as free:
                    free.bind(("127.0.0.1", port))
        assert (bed.failures() == 0) is (problem is NO_DESCRIPTOR)
        status, answer = await bed.reload()
        assert (status, answer["problems"]) == (200, [])
        assert await bed.serving() == ["one", "two", "routed"]


async def test_an_address_that_overlaps_one_of_the_process_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, monkeypatch) as bed:
        before = state_of(bed)
        configured = bed.tree["virtual_clusters"][0]
        listen = configured["listen"]
        configured["advertise"] = {"listen": listen}
        for host in ("0.0.0.0", "localhost"):
            configured["listen"] = listen.replace("127.0.0.1", host)
            bed.write()
            status, answer = await bed.reload()
            assert status == 422
            assert answer["problem"] == (
                f"virtual_clusters[0].listen: {configured['listen']}: an address that does not overlap {listen}, which "
                "this process already has; use another port, or restart kafka-mesh"
            )
            assert state_of(bed) == before
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
