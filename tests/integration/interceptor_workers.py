"""The processes in which the interceptors of a mesh run."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.integration.mesh_process import MeshProcess


def workers_of(mesh: MeshProcess) -> list[int]:
    """The processes in which its interceptors run now."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            words = (entry / "cmdline").read_bytes()
        except (OSError, ValueError, IndexError):
            continue
        if parent == mesh.pid and b"mesh.interceptors.worker" in words:
            found.append(int(entry.name))
    return found


def kill_workers(mesh: MeshProcess) -> int:
    killed = workers_of(mesh)
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    return len(killed)
