"""Reads files that the config of an interceptor names."""

from __future__ import annotations

from pathlib import Path

from mesh import files
from mesh.interceptors.spi import CannotBegin


def read_file(key: str, path: Path) -> bytes:
    """Returns the content of a file. key: the key of the config that names it. Raises CannotBegin."""
    try:
        return files.read_file(path)
    except OSError as problem:
        raise CannotBegin(key, str(path), f"a file that can be read ({problem.strerror})") from problem
