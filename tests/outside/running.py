"""Runs one test of a program, and shows its output if it failed."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_LINES = 60


def run(command: Sequence[str | Path], environment: Mapping[str, str], log: Path, timeout: float) -> str:
    """Returns its output; raises AssertionError with the end of the output unless it exits with 0 in time."""
    with log.open("wb") as output:
        try:
            code: int | str = subprocess.run(
                [str(part) for part in command],
                env={**os.environ, **environment},
                cwd=log.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=timeout,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            code = f"no exit code within {timeout:g} s"
    said = _COLOURS.sub("", log.read_text(errors="replace"))
    assert code == 0, f"{code}; the end of {log}:\n" + "\n".join(said.splitlines()[-_LINES:])
    return said
