"""One worker of a supervisor, with a program of the test in its place."""

from __future__ import annotations

from pathlib import Path
from signal import SIGKILL
from typing import Any

import anyio
import anyio.abc
import pytest

from mesh.app.worker import ANSWERS_AT
from mesh.supervision.worker_process import WorkerProcess
from mesh.tasks import OwnedTask, TaskName, reporting
from tests.planted import PATIENCE, Planting, plants, throwing
from tests.test_tasks import Reports


class Programs:
    """Starts a shell script in place of the worker. failures: raised one after the other before the first start.
    started: set when the script runs."""

    def __init__(self, script: str, failures: list[Exception] | None = None) -> None:
        self.started = anyio.Event()
        self._script = script
        self._failures = failures or []
        self._open = anyio.open_process

    async def open_process(self, command: object, **options: Any) -> Any:
        if self._failures:
            raise self._failures.pop(0)
        process = await self._open(["/bin/sh", "-c", self._script], **options)
        self.started.set()
        return process


async def kept_running(worker: WorkerProcess, programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a worker until its script runs, and kills it then."""
    monkeypatch.setattr(anyio, "open_process", programs.open_process)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(worker.keep_running)
        with anyio.fail_after(60):
            await programs.started.wait()
        worker.kill()


def test_a_worker_that_cannot_be_started_is_tried_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The system may have no memory left for a moment. A bug does not end the other workers."""

    async def run() -> None:
        worker = WorkerProcess(1, "mesh", tmp_path / "mesh.yaml")
        memory, bug = OSError(12, "Cannot allocate memory"), KeyError("relay")
        reports = Reports()
        with reporting(reports):
            await kept_running(worker, Programs("exec sleep 60", [memory, bug]), monkeypatch)
        assert worker.restarts == 2
        assert reports.failures == [(OwnedTask(TaskName.WORKER), bug, None)]

    anyio.run(run)


@plants(TaskName.WORKER)
def test_a_worker_that_fails_leaves_the_others_running(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, planting: Planting
) -> None:
    """The failing one is started again."""

    async def run() -> None:
        failing, other = (WorkerProcess(number, "mesh", tmp_path / "mesh.yaml") for number in (1, 2))
        run_process, has_ended = failing._run, anyio.Event()

        async def thrown() -> int:
            if not planting.thrown:
                planting.thrown.add(TaskName.WORKER)
                await throwing(run_process(), planting.at, planting.problem, PATIENCE)
            return await run_process()

        failing._run = thrown  # type: ignore[method-assign]
        programs, again = Programs("exec sleep 60", []), Programs("exec sleep 60", [])
        with planting.into_call(OSError):
            monkeypatch.setattr(anyio, "open_process", programs.open_process)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(other.keep_running)
                with anyio.fail_after(60):
                    await programs.started.wait()
                monkeypatch.setattr(anyio, "open_process", again.open_process)
                tasks.start_soon(failing.keep_running)
                with anyio.fail_after(60):
                    while failing.restarts < 1 or failing.pid is None:  # noqa: ASYNC110 - no event tells it
                        await anyio.sleep(0.01)
                assert (other.restarts, other.pid is not None) == (0, True)
                failing.kill()
                other.kill()
                has_ended.set()
        assert has_ended.is_set()

    anyio.run(run)


def test_a_failure_ends_the_process_whose_place_another_one_takes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def run() -> None:
        worker, programs = WorkerProcess(1, "mesh", tmp_path / "mesh.yaml"), Programs("exec sleep 60")
        processes: list[anyio.abc.Process] = []

        async def open_process(command: object, **options: Any) -> Any:
            processes.append(await programs.open_process(command, **options))
            return processes[-1]

        async def listen(output: object) -> None:
            if len(processes) == 1:
                raise KeyError("relay")

        worker._listen_to = listen  # type: ignore[method-assign]
        monkeypatch.setattr(anyio, "open_process", open_process)
        with reporting(Reports()), anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(worker.keep_running)
                while len(processes) < 2:  # noqa: ASYNC110 - no event tells it
                    await anyio.sleep(0.01)
                assert await processes[0].wait() == -SIGKILL
                worker.kill()

    anyio.run(run)


def test_a_reload_waits_for_a_worker_that_is_starting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It may have read the file before it changed."""
    go = tmp_path / "go"
    script = f"while ! [ -e {go} ]; do sleep 0.02; done; echo '{ANSWERS_AT.decode()}12345'; exec sleep 60"

    async def run() -> None:
        programs, worker = Programs(script), WorkerProcess(1, "mesh", tmp_path / "mesh.yaml")
        await worker.until_started(60)  # none is starting
        monkeypatch.setattr(anyio, "open_process", programs.open_process)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(worker.keep_running)
            await programs.started.wait()
            with anyio.move_on_after(0.1) as waiting:
                await worker.until_started(60)
            assert waiting.cancelled_caught
            go.touch()
            with anyio.fail_after(60):
                await worker.until_started(60)
            worker.kill()

    anyio.run(run)
