"""What the machine is, and how much of it others used while something was measured."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
DISTURBED = 0.5
"""CPU of other programs, in cores, above which a run is repeated once; the second result counts in any case."""


def describe() -> dict[str, str]:
    """What a reader must know to compare figures."""
    model = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory = re.search(r"^MemTotal:\s*(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return {
        "processor": f"{len(os.sched_getaffinity(0))} x {model[1] if model else platform.processor()}",
        "memory": f"{int(memory[1]) >> 20} GiB" if memory else "unknown",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "java": _java(),
        "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime()) + " UTC",
    }


def _java() -> str:
    try:
        told = subprocess.run(["java", "-version"], capture_output=True, text=True).stderr.splitlines()
    except FileNotFoundError:
        told = []
    return told[0] if told else "none"


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def peak_mib(pid: int) -> float:
    """The largest resident memory so far."""
    return _status_kib(pid, "VmHWM") / 1024


def resident_kib(pid: int) -> int:
    """Resident memory now."""
    return _status_kib(pid, "VmRSS")


def _status_kib(pid: int, name: str) -> int:
    found = re.search(rf"^{name}:\s*(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found[1]) if found else 0


@dataclass(frozen=True, slots=True)
class Load:
    """seconds: wall. foreign: cores that processes outside of the benchmark used, on average."""

    seconds: float
    foreign: float


class LoadMeter:
    """Measures between its making and `read`; ours: process groups that belong to the benchmark."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._busy = _busy_seconds()
        self._ours = _session_seconds()

    def read(self) -> Load:
        seconds = time.monotonic() - self._begin
        foreign = (_busy_seconds() - self._busy) - (_session_seconds() - self._ours)
        return Load(seconds, max(foreign, 0.0) / max(seconds, 0.001))


def _busy_seconds() -> float:
    user, nice, system, _, _, interrupts, soft, *_ = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:])
    return (user + nice + system + interrupts + soft) / _TICKS


def _session_seconds() -> float:
    """CPU of this process, and of all its descendants, also of those that have ended and were waited for."""
    processes: dict[int, tuple[int, float]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            processes[int(folder.name)] = (int(fields[1]), sum(map(int, fields[11:15])) / _TICKS)
    total = 0.0
    for pid, (_, seconds) in processes.items():
        if _descends(pid, processes):
            total += seconds
    return total


def _descends(pid: int, processes: dict[int, tuple[int, float]]) -> bool:
    while pid in processes:
        if pid == os.getpid():
            return True
        pid = processes[pid][0]
    return False


def prefer(pid: int) -> None:
    """Above other login sessions: where the kernel groups processes by session, nice does nothing between groups."""
    try:
        Path(f"/proc/{pid}/autogroup").write_text("-15")
    except OSError:
        return


def children_of(pid: int) -> tuple[int, ...]:
    """The processes that a process has started and that are there."""
    return tuple(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
