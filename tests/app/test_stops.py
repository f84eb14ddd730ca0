"""Unforeseen exceptions in the steps of a stop: all other steps run, and the exit code is 1."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from structlog.testing import capture_logs

from mesh.app import application
from mesh.app.application import Application
from mesh.app.clusters import UpstreamClusters
from mesh.app.reconfiguring import Reconfiguring
from mesh.app.virtual_clusters import VirtualClusters
from mesh.runtime.relay.runtime import RelayRuntime
from mesh.tasks import TaskName
from tests.app.test_refused_reloads import Bed, failures_of
from tests.planted import Planting, plants

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

STEPS = ["begin_stop", "drained", "drain", "close_connections", "closed"]
"""The steps of a virtual cluster."""
AROUND = [
    (Reconfiguring, "end"),
    (VirtualClusters, "leave_common_addresses"),
    (VirtualClusters, "stop"),
    (VirtualClusters, "close"),
    (UpstreamClusters, "close"),
]


async def stopped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, Application, list[str]]:
    """A process that starts and stops: its exit code, and the parts that it closed at the end, in order."""

    async def learn_topics(clusters: UpstreamClusters) -> None:
        clusters.topics_known.set()

    async def signals() -> AsyncIterator[Any]:
        await asyncio.Event().wait()
        yield

    monkeypatch.setattr(UpstreamClusters, "learn_topics", learn_topics)
    bed, closed = Bed(folder), Mock()
    for name in ("_journal", "_store"):
        last = Mock(close=AsyncMock())
        closed.attach_mock(last.close, name)
        setattr(bed.app, name, last)
    bed.app.stopping.set()
    try:
        code = await application._serve(bed.app, signals())
    finally:
        gc.unfreeze()
    return code, bed.app, [call[0] for call in closed.mock_calls]


@pytest.mark.parametrize("problem", [KeyError("relay"), MemoryError(), asyncio.CancelledError()], ids=repr)
@pytest.mark.parametrize("step", STEPS)
async def test_a_step_of_one_virtual_cluster_keeps_no_other_step_from_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, problem: BaseException
) -> None:
    done: list[tuple[str, str]] = []

    def watched(name: str) -> Any:
        then = getattr(RelayRuntime, name)

        def call(target: RelayRuntime, *arguments: Any) -> Any:
            done.append((target.name, name))
            if (target.name, name) == ("one", step):
                raise problem
            return then(target, *arguments)

        return call

    for name in STEPS:
        monkeypatch.setattr(RelayRuntime, name, watched(name))
    with capture_logs() as logs:
        code, app, closed = await stopped(tmp_path, monkeypatch)
    assert (code, closed) == (1, ["_journal", "_store"])
    assert sorted(done) == sorted((target, name) for target in ("one", "two") for name in STEPS)
    assert app._virtual_clusters.names() == []
    assert failures_of(app, "stop") == 1
    (told,) = [each for each in logs if each["event"] == "task failed"]
    assert (told["task"], told["virtual_cluster"]) == ("stop", "one")


@plants(TaskName.STOP)
async def test_a_stop_that_fails_at_any_await_keeps_no_other_step_from_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planting: Planting
) -> None:
    """The failures of the stop go to the process, whose exit code tells them."""
    done: list[tuple[str, str]] = []
    for name in STEPS:
        then = getattr(RelayRuntime, name)

        def call(target: RelayRuntime, *arguments: Any, name: str = name, then: Any = then) -> Any:
            done.append((target.name, name))
            return then(target, *arguments)

        monkeypatch.setattr(RelayRuntime, name, call)
    with planting.into_task(BaseException), capture_logs() as logs:
        code, _, closed = await stopped(tmp_path, monkeypatch)
    assert (code, closed) == (1, ["_journal", "_store"])
    assert sorted(done) == sorted((target, name) for target in ("one", "two") for name in STEPS)
    assert [each["task"] for each in logs if each["event"] == "task failed"] == ["stop"]


@pytest.mark.parametrize(("place", "name"), AROUND, ids=lambda part: getattr(part, "__name__", part))
async def test_a_step_of_the_process_keeps_no_other_one_from_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Any, name: str
) -> None:
    monkeypatch.setattr(place, name, Mock(side_effect=KeyError("relay")))
    code, app, closed = await stopped(tmp_path, monkeypatch)
    assert (code, closed) == (1, ["_journal", "_store"])
    assert failures_of(app, "stop") == 1


async def test_a_stop_without_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, app, closed = await stopped(tmp_path, monkeypatch)
    assert (code, closed, failures_of(app, "stop")) == (0, ["_journal", "_store"], 0)
