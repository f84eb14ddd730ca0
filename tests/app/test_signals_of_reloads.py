"""Many SIGHUPs, also before a stop, and a configuration whose name is not in UTF-8."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from starlette.responses import JSONResponse

from mesh.app import clusters, reconfiguring, virtual_clusters
from mesh.config.load import load
from tests.app.test_refused_reloads import Bed, running

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


class HeldReading:
    """Readings of the configuration, of which the first waits until `go_on`."""

    def __init__(self) -> None:
        self.count = 0
        self.began = threading.Event()
        self.go_on = threading.Event()

    def __call__(self, path: Path) -> Any:
        self.count += 1
        self.began.set()
        assert self.go_on.wait(60)
        return load(path)


async def begun(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> HeldReading:
    """Lets a change begin, and then gives 20 signals."""
    held = HeldReading()
    monkeypatch.setattr(reconfiguring, "load", held)
    bed.app._reconfiguring.ask_soon()
    await until(held.began.is_set)
    for _ in range(20):
        bed.app._reconfiguring.ask_soon()
    return held


async def until(is_so: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not is_so():  # noqa: ASYNC110 - the process has no event for it
            await anyio.sleep(0.01)


async def test_one_change_serves_all_signals_that_came_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, monkeypatch) as bed:
        held = await begun(bed, monkeypatch)
        held.go_on.set()
        await until(lambda: bed.app._reconfiguring._changes == 0)
        assert held.count == 2
        bed.app._reconfiguring.ask_soon()
        await until(lambda: held.count == 3)


async def test_a_change_that_waits_does_not_begin_at_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path, monkeypatch) as bed:
        held = await begun(bed, monkeypatch)
        async with anyio.create_task_group() as group:
            group.start_soon(bed.app._reconfiguring.end)
            await anyio.wait_all_tasks_blocked()
            held.go_on.set()
        await until(lambda: bed.app._reconfiguring._changes == 0)
        assert held.count == 1


@pytest.mark.parametrize(
    ("module", "step"),
    [(virtual_clusters, "make_parts"), (virtual_clusters, "set_up_listeners"), (clusters, "prepare_clusters")],
)
async def test_a_stop_does_not_wait_for_a_thread_in_which_a_reload_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, step: str
) -> None:
    go_on, began = threading.Event(), threading.Event()

    def hang(*_: object) -> None:
        began.set()
        go_on.wait(60)

    async with running(tmp_path, monkeypatch) as bed:
        monkeypatch.setattr(module, step, hang)
        bed.restart_all()
        bed.app._reconfiguring.ask_soon()
        await until(began.is_set)
        with anyio.fail_after(30):
            await bed.app._reconfiguring.end()
        assert bed.app._reconfiguring.described()["state"] == "given up"
        assert await bed.serving() == ["one", "two"]
        go_on.set()


async def test_a_file_whose_name_is_not_in_utf_8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path, monkeypatch) as bed:
        file = bed.app._reconfiguring._file = bed.file.rename(tmp_path / os.fsdecode(b"\xff.yaml"))
        status, answer = await bed.reload()
        assert (status, answer["problems"]) == (200, [])
        file.unlink()
        status, answer = await bed.reload()
        shown = rf"{tmp_path}/\xff.yaml"
        assert (status, answer["problems"]) == (422, [f"{shown}: No such file or directory"])
        for sent in (answer, bed.readiness.status()):
            assert json.dumps(shown) in bytes(JSONResponse(sent).body).decode()
