"""Files that are read again when they change."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from mesh.config.mistakes import ConfigurationError, Mistake
from mesh.listener.watched_files import Watched, describe

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
