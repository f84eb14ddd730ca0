"""What is built or fetched once, and kept in the repository's .cache for all runs to come."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path


def built_once(target: Path, build: Callable[[Path], None]) -> Path:
    """The folder `target`; `build` fills it, if it is not there yet.

    It is renamed into place when it is complete: an interrupted build is never mistaken for one, and two runs that
    build at once are no problem.
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
