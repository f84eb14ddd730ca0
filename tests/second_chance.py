"""Runs pytest, and runs the files of failed tests once more: `python -m tests.second_chance -m "not long" -n 2`.

A test that passes only the second time is flaky: it shows a defect of the test or of kafka-mesh. The run is green then,
and prints a line `FLAKY file::test` for each such test. The second run is a new process without others beside it. It
takes whole files, because a test may need its neighbours.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pytest

MOST_FILES: Final = 5
"""With more failed files than these, the change is to blame, and not the machine."""
WITHIN: Final = 600.0
"""Seconds of the second run."""
_FINAL: Final = frozenset(
    {
        pytest.ExitCode.OK,
        pytest.ExitCode.INTERRUPTED,
        pytest.ExitCode.USAGE_ERROR,
        pytest.ExitCode.NO_TESTS_COLLECTED,
    }
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one run of pytest. failed: each failed test as (file, name), in pytest's order."""

    status: int
    passed: int
    failed: Sequence[tuple[str, str]]

    @property
    def files(self) -> list[str]:
        """The files of the failed tests."""
        return list(dict.fromkeys(file for file, _ in self.failed))


@dataclass(frozen=True, slots=True)
class Run:
    """The results of the first run and of the second one; `second` is None if the files did not run again."""

    first: Outcome
    second: Outcome | None

    @property
    def status(self) -> int:
        """The exit status of both."""
        return self.first.status if self.second is None else self.second.status

    @property
    def flaky(self) -> Sequence[tuple[str, str]]:
        """The tests that passed only the second time."""
        return self.first.failed if self.second is not None and self.second.status == 0 else ()


def run(arguments: Sequence[str], environment: Mapping[str, str] = MappingProxyType({})) -> Run:
    """Runs pytest with `arguments` and further variables, and once more with the files that failed."""
    with tempfile.TemporaryDirectory() as folder:
        first = _pytest(arguments, environment, Path(folder, "first.xml"), None)
        if first.status in _FINAL or not 0 < len(first.files) <= MOST_FILES:
            return Run(first, None)
        print(f"== {len(first.failed)} failed; their files run once more, alone ==", flush=True)
        options = [argument for argument in arguments if not _is_path(argument)]
        again = [*options, "-n", "0", "--dist", "no", *first.files]
        done = Run(first, _pytest(again, environment, Path(folder, "second.xml"), WITHIN))
    for file, name in done.flaky:
        print(f"FLAKY {file}::{name}", flush=True)
    return done


def _pytest(arguments: Sequence[str], environment: Mapping[str, str], report: Path, timeout: float | None) -> Outcome:
    options = ("-o", "junit_family=xunit1", "-o", "junit_logging=no", f"--junit-xml={report}")
    command = [sys.executable, "-m", "pytest", *arguments, *options]
    try:
        variables = {**os.environ, "PYTHONUNBUFFERED": "1", **environment}
        status = subprocess.run(command, timeout=timeout, env=variables).returncode
    except subprocess.TimeoutExpired:
        print(f"== not within {timeout:g} s ==", flush=True)
        status = int(pytest.ExitCode.TESTS_FAILED)
    cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    passed = [case for case in cases if len(case) == 0]
    named = dict.fromkeys((_file_of(case.get("classname", "")), case.get("name", "")) for case in failed)
    return Outcome(status, len(passed), [(file, name) for file, name in named if file])


def _file_of(classname: str) -> str:
    """Returns the file of a module, or of a class in it; "" if there is none. JUnit's own attribute names the file of
    the function, which for a decorated test is another one."""
    parts = classname.split(".")
    places = (Path(*parts[:count]).with_suffix(".py") for count in range(len(parts), 0, -1))
    return next((str(place) for place in places if place.is_file()), "")


def _is_path(argument: str) -> bool:
    return not argument.startswith("-") and Path(argument.partition("::")[0]).exists()


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]).status)
