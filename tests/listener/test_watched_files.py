"""Files that are read again when they change."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from mesh.config.mistakes import ConfigurationError, Mistake
from mesh.listener.watched_files import Watched, describe, watch

pytestmark = pytest.mark.anyio


@dataclass(slots=True)
class Reader:
    """A reader of one file with a number."""

    path: Path
    used: list[int] = field(default_factory=list)

    @property
    def watched(self) -> Watched[int]:
        return Watched([str(self.path)], lambda: int(self.path.read_text()), self.used.append)


async def test_what_is_read_first_and_when_it_changes(tmp_path: Path) -> None:
    reader = Reader(tmp_path / "number")
    reader.path.write_text("1")
    watched = reader.watched
    watched.first()
    with capture_logs() as logs:
        await watched.check()
        assert (reader.used, logs) == ([1], [])
        reader.path.write_text("22")
        await watched.check()
        await watched.check()
    assert reader.used == [1, 22]
    assert [entry["event"] for entry in logs] == ["file reloaded"]
    assert logs[0]["path"] == str(reader.path)


async def test_what_cannot_be_used_changes_nothing_and_is_told_once(tmp_path: Path) -> None:
    reader = Reader(tmp_path / "number")
    reader.path.write_text("1")
    watched = reader.watched
    watched.first()
    with capture_logs() as logs:
        reader.path.write_text("one")
        await watched.check()
        await watched.check()
        reader.path.unlink()
        await watched.check()
        await watched.check()
        reader.path.write_text("2")
        await watched.check()
    assert reader.used == [1, 2]
    events = [(entry["event"], entry.get("reason", "")) for entry in logs]
    assert [event for event, _ in events] == ["file not reloaded"] * 2 + ["file reloaded"]
    assert "'one'" in events[0][1]
    assert "No such file" in events[1][1]


async def test_a_link_that_points_elsewhere_is_a_change(tmp_path: Path) -> None:
    """Kubernetes exchanges all files of a secret at once in this way."""
    for name, text in (("a", "1"), ("b", "2")):
        (tmp_path / name).write_text(text)
        os.utime(tmp_path / name, ns=(5, 5))
    reader = Reader(tmp_path / "number")
    reader.path.symlink_to(tmp_path / "a")
    watched = reader.watched
    watched.first()
    (tmp_path / "other").symlink_to(tmp_path / "b")
    (tmp_path / "other").replace(reader.path)
    await watched.check()
    assert reader.used == [1, 2]


async def test_the_first_time_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Reader(tmp_path / "nowhere").watched.first()


def test_every_mistake_of_a_file_stands_in_one_line() -> None:
    problem = ConfigurationError([Mistake(("users", 0), "a", "b"), Mistake(("users", 1), "c", "d")])
    assert describe(problem) == "users[0]: a: b; users[1]: c: d"


async def test_what_could_not_be_read_for_a_moment_is_read_at_the_next_check(tmp_path: Path) -> None:
    reader, problems = Reader(tmp_path / "number"), [OSError(24, "Too many open files")] * 2
    reader.path.write_text("1")

    def load() -> int:
        if reader.used and problems:
            raise problems.pop()
        return int(reader.path.read_text())

    watched = Watched([str(reader.path)], load, reader.used.append)
    watched.first()
    reader.path.write_text("22")
    with capture_logs() as logs:
        for _ in range(4):
            await watched.check()
    assert reader.used == [1, 22]
    assert [entry["event"] for entry in logs] == ["file not reloaded", "file reloaded"]


async def test_a_file_that_could_not_be_read_first_is_read_at_the_next_check(tmp_path: Path) -> None:
    reader = Reader(tmp_path / "number")
    reader.path.write_text("1")
    problems: list[Exception] = [PermissionError(13, "Permission denied", str(reader.path))]

    def load() -> int:
        if problems:
            raise problems.pop()
        return int(reader.path.read_text())

    watched = Watched([str(reader.path)], load, reader.used.append)
    with pytest.raises(PermissionError):
        watched.first()
    await watched.check()
    assert reader.used == [1]


@pytest.mark.parametrize("where", ["load", "apply"])
async def test_a_bug_at_one_file_changes_nothing_at_the_others(tmp_path: Path, where: str) -> None:
    bad, good = Reader(tmp_path / "bad"), Reader(tmp_path / "good")
    bad.path.write_text("1")
    good.path.write_text("1")
    is_broken = [False]
    failures: list[BaseException] = []

    def fail(place: str) -> None:
        if is_broken[0] and place == where:
            raise KeyError("relay")

    def load() -> int:
        fail("load")
        return int(bad.path.read_text())

    def apply(value: int) -> None:
        fail("apply")
        bad.used.append(value)

    def apply_good(value: int) -> None:
        good.used.append(value)
        if is_broken[0]:
            is_changed.set()

    is_changed = anyio.Event()
    watched: list[Watched[Any]] = [
        Watched([str(bad.path)], load, apply),
        Watched([str(good.path)], lambda: int(good.path.read_text()), apply_good),
    ]
    for file in watched:
        file.first()
    is_broken[0] = True
    for each in (bad, good):
        each.path.write_text("22")
    with capture_logs() as logs:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch, watched, failures.append, 0.01)
            with anyio.fail_after(30):
                await is_changed.wait()
            tasks.cancel_scope.cancel()
        bad.path.write_text("333")
        for _ in range(2):
            await watched[0].check(failures.append)
        is_broken[0] = False
        await watched[0].check(failures.append)
    assert (bad.used, good.used) == ([1, 333], [1, 22])
    assert [repr(each) for each in failures] == ["KeyError('relay')"] * 2, "once for each content"
    told = [(entry["event"], entry.get("reason")) for entry in logs if entry["path"] == str(bad.path)]
    assert told == [*[("file not reloaded", "KeyError: 'relay'")] * 2, ("file reloaded", None)]
