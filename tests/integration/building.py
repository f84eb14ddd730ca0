"""Builds and downloads, kept in the repository's .cache for later runs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path


def built_once(target: Path, build: Callable[[Path], None]) -> Path:
    """The folder `target`; `build` fills it if it does not exist yet.

    The complete folder is renamed into place. So an interrupted build is never mistaken for a complete one, and two
    runs may build at once.
    """
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="build-") as folder:
        complete = Path(folder, "complete")
        complete.mkdir()
        build(complete)
        try:
            complete.rename(target)
        except OSError:
            if not target.is_dir():
                raise
    return target
