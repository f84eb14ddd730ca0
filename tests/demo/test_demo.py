"""The whole demo, as a newcomer runs it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mesh.demo.main import FAULT_VARIABLE

DEEP = [pytest.mark.long, pytest.mark.deep]


class Demo:
    """`kafka-mesh demo`, with `folder` for its temporary files."""

    def __init__(self, folder: Path, *options: str, fault: str = "none") -> None:
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mesh.cli", "demo", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(folder), FAULT_VARIABLE: fault},
            text=True,
        )

    def wait_for_line(self, pattern: str) -> str:
        """The first line of the output, from here on, that the pattern matches."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if re.search(pattern, line):
                return line
        raise AssertionError(f"the demo ended without a line {pattern!r}")

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def outcome(self) -> tuple[int, str]:
        """The exit code, and the rest of the output."""
        output, _ = self._process.communicate()
        return self._process.returncode, output

    def children(self) -> list[tuple[int, str]]:
        """Process ids and command lines of the processes that have one of its files among their arguments."""
        listing = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,args="], check=True, capture_output=True, text=True)
        rows = (line.split(maxsplit=1) for line in listing.stdout.splitlines() if str(self._folder) in line)
        return [(int(number), arguments) for number, arguments in rows]


def test_every_record_is_delivered_exactly_once(tmp_path: Path) -> None:
    demo = Demo(tmp_path, "--duration", "6")
    code, output = demo.outcome()
    assert code == 0, output
    assert "every record was delivered exactly once, unaltered" in output
    counts = re.search(r"([\d,]+) records fed, ([\d,]+) delivered", output)
    assert counts is not None
    assert counts[1] == counts[2]
    assert demo.children() == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "finding"),
    [
        ("suppress", "never delivered: 1"),
        pytest.param("repeat", "delivered more than once: 1", marks=DEEP),
    ],
)
def test_one_record_too_few_or_too_many_is_noticed(tmp_path: Path, fault: str, finding: str) -> None:
    demo = Demo(tmp_path, "--duration", "1", fault=fault)
    code, output = demo.outcome()
    assert code == 1, output
    assert finding in output
    assert demo.children() == []


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=DEEP)])
def test_a_signal_ends_the_feeding_and_all_is_counted(tmp_path: Path, number: signal.Signals) -> None:
    demo = Demo(tmp_path)
    demo.wait_for_line(r" s  +\d.*%")
    assert len(demo.children()) == 7
    demo.signal(number)
    code, output = demo.outcome()
    assert code == 0, output
    assert "every record was delivered exactly once, unaltered" in output
    assert demo.children() == []


@pytest.mark.long
def test_a_signal_during_the_start_leaves_nothing_behind(tmp_path: Path) -> None:
    demo = Demo(tmp_path)
    demo.wait_for_line("starting")
    demo.signal(signal.SIGTERM)
    code, _ = demo.outcome()
    assert code == 1
    assert demo.children() == []


@pytest.mark.long
def test_a_crash_of_the_mesh_ends_the_demo(tmp_path: Path) -> None:
    demo = Demo(tmp_path)
    demo.wait_for_line(r" s  +\d")
    (mesh,) = (number for number, arguments in demo.children() if "mesh.cli run" in arguments)
    os.kill(mesh, signal.SIGKILL)
    code, output = demo.outcome()
    assert code == 1
    assert "kafka-mesh was ended by SIGKILL; its log ends:" in output
    assert "listening" in output
    assert demo.children() == []
