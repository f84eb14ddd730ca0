"""The end of a process in which a thread hangs."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import threading, time
from mesh.commands import serving
serving.LAST_WAIT = {wait}
threading.Thread(target=time.sleep, args=({seconds},)).start()
serving._end_in_spite_of_threads(3)
"""


@pytest.mark.parametrize(("seconds", "wait", "code"), [(100_000, 0.0, 3), (0, 60.0, 0)])
def test_a_process_ends_although_a_thread_hangs(seconds: int, wait: float, code: int) -> None:
    program = PROGRAM.format(seconds=seconds, wait=wait)
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == code
