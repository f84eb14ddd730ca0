"""Tokens of a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesh.security.oauthbearer_client import TokenRefused
from mesh.upstream.tokens.file import LARGEST, fetch
from tests.security.test_oauthbearer import NOW, token


def test_it_is_read_again_each_time(tmp_path: Path) -> None:
    path = tmp_path / "token"
    for lifetime in (60, 90):
        path.write_text(token(exp=NOW + lifetime) + "\n")
        assert fetch(str(path), {"a": "b"}).expires_at == NOW + lifetime


@pytest.mark.parametrize("content", [b"", b"no token", b"opaque", b"\xff\xfe"])
def test_files_without_one(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(TokenRefused, match="token"):
        fetch(str(path), {})


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_bytes(b"a" * (LARGEST + 1))
    with pytest.raises(OSError, match="more than"):
        fetch(str(path), {})


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="gone"):
        fetch(str(tmp_path / "gone"), {})
