"""Files that interceptors are configured with."""

from __future__ import annotations

from pathlib import Path

from mesh.interceptors.spi import CannotBegin


def read_file(key: str, path: Path) -> bytes:
    """key: of the config, by which it is named. Raises CannotBegin."""
    try:
        return path.read_bytes()
    except OSError as problem:
        raise CannotBegin(key, str(path), f"a file that can be read ({problem.strerror})") from problem
