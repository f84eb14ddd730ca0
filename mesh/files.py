"""Reads the files that a configuration names."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

LARGEST: Final = 64 << 20
"""The most bytes of a file."""


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


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
