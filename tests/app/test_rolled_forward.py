"""Reloads that fail after something has changed: the virtual cluster concerned starts again after a rest, and the
others are served."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from mesh.app import unchanged
from mesh.app.addresses import Addresses
from mesh.app.clusters import UpstreamClusters
from mesh.app.pool_target import PoolTarget
from mesh.app.reconfiguring import Reconfiguring
from mesh.app.relay_target import RelayTarget
from mesh.app.virtual_clusters import VirtualClusters
from mesh.listener.bound_address import BoundAddress
from mesh.listener.listener import Listener
from tests.app.test_refused_reloads import Bed, failing, failures_of, running
from tests.integration.processes import free_ports

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

BUG = KeyError("relay")
TOLD = "KeyError: 'relay'"
SHARED = [
    (VirtualClusters, "take_over"),
    (UpstreamClusters, "take"),
    (Reconfiguring, "_take_admin_certificate"),
    (VirtualClusters, "stop"),
    (Reconfiguring, "_change_process"),
    (UpstreamClusters, "change"),
    (UpstreamClusters, "until_answered"),
    (VirtualClusters, "rearrange"),
    (Addresses, "keep_only"),
    (VirtualClusters, "look_at_files"),
    (VirtualClusters, "release"),
]
"""The steps of a reload that concern all virtual clusters."""
OF_ONE: list[tuple[str, Any, str]] = [
    ("shop", VirtualClusters, "leave"),
    ("shop", PoolTarget, "leave"),
    ("shop", VirtualClusters, "change"),
    ("shop", PoolTarget, "change"),
    ("one", VirtualClusters, "build"),
    ("one", VirtualClusters, "serve"),
    ("one", RelayTarget, "__init__"),
    ("one", BoundAddress, "serve"),
    ("one", RelayTarget, "close"),
    ("limited", VirtualClusters, "change"),
    ("limited", Listener, "change_limits"),
]
"""The steps of a reload that concern one virtual cluster."""


class Planned:
    """A process of three relays and a pool. `change` restarts two relays, changes one in place, and makes the pool join
    its cluster again."""

    def __init__(self, bed: Bed) -> None:
        self.bed = bed

    def change(self) -> None:
        self.bed.tree["virtual_clusters"][2]["limits"] = {"connections": 7}
        self.bed.restart_all()

    @property
    def served(self) -> list[str]:
        return [each.name for each in self.bed.app._virtual_clusters.targets]

    async def until(self, is_so: Callable[[], bool]) -> None:
        with anyio.fail_after(60):
            while not is_so():  # noqa: ASYNC110 - the process has no event for it
                await anyio.sleep(0.01)


@asynccontextmanager
async def planned(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Planned]:
    monkeypatch.setattr(unchanged, "SHORTEST_REST", 0.05)
    async with running(folder, monkeypatch) as bed:
        yield await begun(bed)


async def begun(bed: Bed) -> Planned:
    ports = free_ports(4)
    limited = {
        "name": "limited",
        "listen": f"127.0.0.1:{ports[0]}",
        "nodes": {"ports": ports[1], "ids": [1]},
        "target": {"relay": {"cluster": "us"}},
    }
    shop = {
        "name": "shop",
        "listen": f"127.0.0.1:{ports[2]}",
        "coordinator": f"127.0.0.1:{ports[3]}",
        "target": {"pool": {"topics": [{"prefix": "", "cluster": "eu"}], "groups": ["*"]}},
    }
    bed.tree["clusters"].append({"name": "us", "bootstrap_servers": "127.0.0.1:1"})
    bed.tree["virtual_clusters"] += [limited, shop]
    bed.write()
    status, answer = await bed.reload()
    assert (status, answer["problems"]) == (200, [])
    return Planned(bed)


def of_virtual_cluster(name: str) -> Callable[..., bool]:
    """Returns whether the arguments of a call are about a virtual cluster."""

    def is_meant(*arguments: Any) -> bool:
        found = [getattr(each, "configured", each) for each in arguments]
        owners = [*arguments, *(getattr(each, "target", None) for each in arguments), *found]
        return name in arguments or any(getattr(each, "name", None) == name for each in owners)

    return is_meant


@pytest.mark.parametrize(("name", "place", "step"), OF_ONE, ids=lambda part: getattr(part, "__name__", part))
async def test_a_failure_at_one_virtual_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, place: Any, step: str
) -> None:
    async with planned(tmp_path, monkeypatch) as process:
        bed, other = process.bed, {"one": "two", "shop": "limited", "limited": "shop"}[name]
        kept = next(each for each in bed.app._virtual_clusters.targets if each.name == other)
        process.change()
        with monkeypatch.context() as planted, capture_logs() as logs:
            planted.setattr(place, step, failing(BUG, of_virtual_cluster(name), getattr(place, step)))
            status, answer = await bed.reload()
            assert (status, answer["state"]) == (200, "applied")
            if step == "close":  # a step of a stop keeps no other step from running
                assert answer["problems"] == []
                assert failures_of(bed.app, "stop") == 1
                return
            assert answer["problems"] == [f"virtual cluster {name}: {TOLD}"]
            assert {"one", "two", "limited", "shop"} - {name} <= set(await bed.serving())
            (described,) = bed.readiness.degraded()
            assert (described["virtual_cluster"], described["reason"]) == (name, TOLD)
            assert "this one starts again after" in str(described["meanwhile"])
            if step in ("build", "serve", "__init__"):  # it fails again, and rests longer
                await process.until(lambda: bed.failures() >= 3)
                assert "after 0.2 s" in str(bed.readiness.degraded()[0]["meanwhile"])
            planted.undo()
            monkeypatch.setattr(unchanged, "SHORTEST_REST", 0.05)
            await process.until(lambda: not bed.readiness.degraded())
        assert "virtual cluster restarted" in [each["event"] for each in logs]
        assert process.served == ["one", "two", "limited", "shop"]
        assert await bed.serving() == process.served
        is_same = any(each is kept for each in bed.app._virtual_clusters.targets)
        assert is_same is (other in ("limited", "shop"))
        assert bed.app.config.virtual_clusters[2].limits.connections == 7
        status, answer = await bed.reload()
        assert (status, answer["changes"], answer["problems"]) == (200, [], [])


@pytest.mark.parametrize(("place", "step"), SHARED, ids=lambda part: getattr(part, "__name__", part))
async def test_a_failure_in_a_step_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Any, step: str
) -> None:
    async with planned(tmp_path, monkeypatch) as process:
        bed = process.bed
        ports = free_ports(2)
        addresses = {"listen": f"127.0.0.1:{ports[0]}", "nodes": {"ports": ports[1], "ids": [1]}}
        bed.tree["virtual_clusters"].append({**bed.tree["virtual_clusters"][2], "name": "untouched", **addresses})
        bed.write()
        await bed.reload()
        kept = bed.app._virtual_clusters.targets[-1]
        process.change()
        with monkeypatch.context() as planted:
            planted.setattr(place, step, failing(BUG))
            status, answer = await bed.reload()
        assert (status, answer["state"]) == (200, "applied")
        told = ["limited", "one", "shop", "two"]
        assert answer["problems"] == [f"virtual cluster {each}: {TOLD}" for each in told]
        await process.until(lambda: not bed.readiness.degraded())
        assert process.served == ["one", "two", "limited", "shop", "untouched"]
        assert await bed.serving() == process.served
        assert bed.app._virtual_clusters.targets[-1] is kept
        status, answer = await bed.reload()
        assert (status, answer["changes"], answer["problems"]) == (200, [], [])


async def test_a_failure_that_concerns_no_virtual_cluster_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, monkeypatch) as bed:
        bed.tree["log"] = {"level": "warning"}
        bed.write()
        with monkeypatch.context() as planted:
            planted.setattr(Reconfiguring, "_change_process", failing(BUG))
            status, answer = await bed.reload()
        assert (status, answer["state"], answer["problems"]) == (200, "applied", [TOLD])
        assert bed.failures() == 1


async def test_the_next_reload_starts_it_too_and_a_stop_does_not_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, monkeypatch) as bed:
        monkeypatch.setattr(unchanged, "SHORTEST_REST", 3_600.0)

        async def fail() -> None:
            bed.restart_all()
            with monkeypatch.context() as planted:
                planted.setattr(VirtualClusters, "serve", failing(BUG))
                await bed.reload()
            assert [each["virtual_cluster"] for each in bed.readiness.degraded()] == ["one", "two"]

        await fail()
        status, answer = await bed.reload()
        assert (status, answer["changes"], answer["problems"]) == (200, [], [])
        assert bed.readiness.degraded() == []
        assert await bed.serving() == ["one", "two"]
        await fail()
