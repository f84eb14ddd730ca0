"""Reads the files that a configuration names."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Final, TypeAlias

LARGEST: Final = 64 << 20
"""The most bytes of a file."""
Signature: TypeAlias = tuple[tuple[int, int, int] | None, ...]
"""What changes when files change: of each its time, its inode and its size; None if it is not there."""


def read_file(path: str | Path, largest: int = LARGEST) -> bytes:
    """Returns the content of a file. Raises OSError if it cannot be read, has more than `largest` bytes, or is no
    regular file: a pipe may never end, and neither may a device."""
    if "\0" in str(path):  # Python raises another error than for other names that no file can have
        raise OSError(errno.EINVAL, "a name with a NUL character", str(path))
    with open(path, "rb", opener=_open) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return _content(file, path, largest)


def read_stream(path: str | Path, largest: int = LARGEST) -> bytes:
    """Returns the content of a file or a pipe; waits for the other end of a pipe. Raises OSError as `read_file`."""
    with open(path, "rb") as file:
        return _content(file, path, largest)


def is_irregular(path: str) -> bool:
    """Returns whether something is there that is neither a regular file nor a folder, such as a pipe."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def shown_name(path: str | Path) -> str:
    """Returns the name of a file for messages. Names that are not in UTF-8 cannot be sent; their odd bytes are
    escaped."""
    return os.fsencode(path).decode(errors="backslashreplace")


def signature_of(paths: Iterable[str]) -> Signature:
    """Returns the signature of files, without reading them."""
    return tuple(map(_signature, paths))


def _content(file: IO[bytes], path: str | Path, largest: int) -> bytes:
    content = file.read(largest + 1)
    if len(content) > largest:
        raise OSError(errno.EFBIG, f"more than {largest} bytes", str(path))
    return content


def _signature(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):  # ValueError: a name with a NUL character
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
