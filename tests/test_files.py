"""Files that a configuration names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mesh.files import is_irregular, read_file, read_stream, shown_name, signature_of


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


def test_a_name_with_a_nul_character_is_one_of_no_file() -> None:
    with pytest.raises(OSError, match="NUL"):
        read_file("a\0b")
    assert signature_of(["a\0b"]) == (None,)


def test_a_name_that_is_not_in_utf_8_can_be_shown() -> None:
    assert shown_name(Path(os.fsdecode(b"/\xff.yaml"))) == "/\\xff.yaml"
    assert shown_name("/\u00e4.yaml") == "/\u00e4.yaml"


def test_a_stream_without_an_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="more than 99 bytes"):
        read_stream("/dev/zero", largest=99)
    reading, writing = os.pipe()
    os.write(writing, b"x" * 99)
    os.close(writing)
    assert read_stream(f"/dev/fd/{reading}", largest=99) == b"x" * 99
    os.close(reading)


def test_what_is_neither_a_file_nor_a_folder(tmp_path: Path) -> None:
    assert is_irregular("/dev/zero")
    assert not any(map(is_irregular, (str(tmp_path), __file__, "/nowhere", "a\0b")))
