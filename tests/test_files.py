"""Files that a configuration names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mesh.files import read_file


def test_a_file_is_read_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100)
    for name in (path, str(path)):
        assert read_file(name, largest=100) == b"x" * 100


def test_what_may_have_no_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    before = os.listdir("/proc/self/fd")
    for name, reason in ((pipe, "not a regular file"), (Path("/dev/zero"), "not a regular file"), (path, "more than")):
        with pytest.raises(OSError, match=reason) as problem:
            read_file(name, largest=99)
        assert problem.value.filename == str(name)
    with pytest.raises(IsADirectoryError):
        read_file(tmp_path)
    assert os.listdir("/proc/self/fd") == before
