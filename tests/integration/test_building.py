from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.building import built_once


def test_it_is_built_once(tmp_path: Path) -> None:
    target, builds = tmp_path / "cache" / "it", []

    def build(folder: Path) -> None:
        builds.append(folder)
        (folder / "file").write_text("whole")

    for _ in range(2):
        assert (built_once(target, build) / "file").read_text() == "whole"
    assert len(builds) == 1


def test_a_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def build(folder: Path) -> None:
        (folder / "file").write_text("half")
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError):
        built_once(tmp_path / "it", build)
    assert not list(tmp_path.iterdir())


def test_the_second_process_takes_what_the_first_has_built(tmp_path: Path) -> None:
    target = tmp_path / "it"

    def first(folder: Path) -> None:
        (folder / "file").write_text("first")

    def second(folder: Path) -> None:
        (folder / "file").write_text("second")
        built_once(target, first)

    assert (built_once(target, second) / "file").read_text() == "first"
