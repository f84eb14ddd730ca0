"""Reads the files that a configuration names."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final, TypeAlias

LARGEST: Final = 64 << 20
"""The most bytes of a file."""
Signature: TypeAlias = tuple[tuple[int, int, int] | None, ...]
"""What changes when files change: of each its time, its inode and its size; None if it is not there."""


def read_file(path: str | Path, largest: int = LARGEST) -> bytes:
    """Returns the content of a file. Raises OSError if it cannot be read, has more than `largest` bytes, or is no
    regular file: a pipe may never end, and neither may a device."""
    with open(path, "rb", opener=_open) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        content: bytes = file.read(largest + 1)
    if len(content) > largest:
        raise OSError(errno.EFBIG, f"more than {largest} bytes", str(path))
    return content


def signature_of(paths: Iterable[str]) -> Signature:
    """Returns the signature of files, without reading them."""
    return tuple(map(_signature, paths))


def _signature(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
