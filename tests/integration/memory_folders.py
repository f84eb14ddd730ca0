"""Folders in memory for the logs of brokers that tests start.

A broker syncs its metadata log at each change, and ZooKeeper its own. On a busy disk that takes seconds: the controller
then takes its broker for dead, and no partition has a leader.
"""

from __future__ import annotations

import atexit
import os
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

_MEMORY = Path("/dev/shm")
_ENOUGH = 4 << 30
"""Free bytes of memory from which on it is used. The logs of a whole run take less than one GiB."""
_PREFIX = "kafka-mesh-tests-"
_OF_PYTEST = "PYTEST_VERSION"
"""Set by pytest. Benchmarks, which write more and measure, use the disk."""


def make_folder(folder: Path) -> None:
    """Makes `folder`: a link to a folder in memory, if there is enough."""
    if _OF_PYTEST in os.environ and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _ENOUGH:
        folder.symlink_to(mkdtemp(dir=_root(os.getpid())), target_is_directory=True)
    else:
        folder.mkdir()


@cache
def _root(process: int) -> Path:
    """The folder of this process. It goes with the process, or with the first folder of a later one."""
    for left in _MEMORY.glob(f"{_PREFIX}*"):
        if not Path("/proc", left.name.removeprefix(_PREFIX)).exists():
            shutil.rmtree(left, ignore_errors=True)
    root = _MEMORY / f"{_PREFIX}{process}"
    root.mkdir(exist_ok=True)
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return root
