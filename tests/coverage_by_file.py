"""The lines of each pure file that its own tests run: `make coverage`.

The own tests of mesh/x/y.py are tests/x/test_y.py. All tests of its package together must run more of it; for a file
without own tests only that counts. Each line is kept with the tests that ran it, and lines run by an import count for
all. Exit code 1 if a file is below a bound, 2 if a test fails.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from coverage import Coverage, CoverageData

TOP: Final = Path(__file__).parents[1]
PACKAGES: Final = ("wire", "records", "pool", "routing", "config")
DATA: Final = TOP / "build" / "coverage" / "data"
OWN_BOUND: Final = 65.0
"""Percent of the lines of a file that its own tests run."""
PACKAGE_BOUND: Final = 75.0
"""Percent of the lines of a file that the tests of its package run, all together."""
ELSEWHERE: Final = frozenset({Path("mesh/config/security/files.py")})
"""Tested with the listeners that use it, tests/listener/test_listener_setup.py: it reads certificates."""


@dataclass(frozen=True, slots=True)
class Covered:
    """own: percent of its lines that its own tests run; None if it has none. together: by all tests of its package."""

    file: Path
    lines: int
    own: float | None
    together: float

    @property
    def is_enough(self) -> bool:
        return self.together >= PACKAGE_BOUND and (self.own is None or self.own >= OWN_BOUND)

    def __str__(self) -> str:
        own = f"{self.own:5.0f} %" if self.own is not None else "   none"
        return f"{self.file!s:44}{self.lines:6}{own:>10}{self.together:8.0f} %{'' if self.is_enough else '   below'}"


def run_tests(packages: Sequence[str], more: Sequence[str]) -> int:
    """pytest's exit code."""
    DATA.parent.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "-p", "no:warnings"]
    words += ["-m", "not long and not kafka and not alone", "--timeout=900", "--cov-context=test", "--cov-report="]
    words += [f"--cov=mesh.{package}" for package in packages] + [f"tests/{package}" for package in packages]
    environment = {**os.environ, "COVERAGE_FILE": str(DATA), "HYPOTHESIS_PROFILE": "traced"}
    return subprocess.run([*words, *more], cwd=TOP, env=environment, check=False).returncode


def covered(coverage: Coverage, packages: Sequence[str]) -> Iterator[Covered]:
    data = coverage.get_data()
    for package in packages:
        for file in sorted((TOP / "mesh" / package).rglob("*.py")):
            _, statements, _, _, _ = coverage.analysis2(str(file))
            if statements and file.relative_to(TOP) not in ELSEWHERE:
                inside = file.relative_to(TOP / "mesh")
                test = Path("tests", *inside.parts[:-1], f"test_{inside.name}")
                own = _percent(data, file, statements, str(test)) if (TOP / test).exists() else None
                together = _percent(data, file, statements, f"tests/{package}/")
                yield Covered(file.relative_to(TOP), len(statements), own, together)


def _percent(data: CoverageData, file: Path, statements: Sequence[int], tests: str) -> float:
    """tests: the beginnings of the names of tests that count."""
    data.set_query_contexts([f"^{re.escape(tests)}", "^$"])
    ran = set(data.lines(str(file)) or ())
    return 100 * len(ran.intersection(statements)) / len(statements)


def main(more: Sequence[str]) -> int:
    failed = run_tests(PACKAGES, more)
    coverage = Coverage(data_file=str(DATA))
    coverage.load()
    found = list(covered(coverage, PACKAGES))
    print(f"{'file':44}{'lines':>6}{'own tests':>10}{'package':>10}")
    for each in found:
        print(each)
    short = [each for each in found if not each.is_enough]
    bounds = f"{OWN_BOUND:.0f} % by their own tests or {PACKAGE_BOUND:.0f} % by those of their package"
    print(f"{len(short)} of {len(found)} files are below {bounds}")
    return 2 if failed else int(bool(short))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
