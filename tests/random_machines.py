"""Runs the state machines of the tests with random seeds, each in a separate process, until the time is over.

`make test` runs them with fixed examples, which depend on the loaded modules. So here each of them finds other things,
with other seeds.
"""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

TESTS = Path(__file__).parent
MOST = 300.0
"""Seconds of one run; a longer one is reported with its seed."""


def machines() -> list[Path]:
    """The test files that have a state machine."""
    return sorted(file for file in TESTS.rglob("test_*.py") if "RuleBasedStateMachine" in file.read_text())


def run(file: Path, seed: int) -> str:
    """The failure of a run; "" for none."""
    options = ["-q", "-x", "-p", "no:cacheprovider", f"--hypothesis-seed={seed}"]
    command = [sys.executable, "-m", "pytest", *options, str(file)]
    environment = {**os.environ, "HYPOTHESIS_PROFILE": "random"}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=MOST, check=False)
    except subprocess.TimeoutExpired:
        return f"it took more than {MOST:.0f} s"
    return done.stdout if done.returncode else ""


def main(minutes: Annotated[float, typer.Option(help="How long.")] = 10.0) -> None:
    """Names the failing seeds, and exits with 1 if there are any."""
    end, runs, failures = time.monotonic() + minutes * 60, 0, 0
    files = itertools.cycle(machines())
    while time.monotonic() < end:
        file, runs = next(files), runs + 1
        seed = random.randrange(1 << 32)
        if problem := run(file, seed):
            failures += 1
            typer.echo(f"{problem}\n{file.relative_to(TESTS.parent)} fails with --hypothesis-seed={seed}")
    typer.echo(f"{runs} runs, {failures} of them failed")
    raise typer.Exit(1 if failures else 0)


if __name__ == "__main__":
    typer.run(main)
