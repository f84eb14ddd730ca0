"""A plugin of pytest that counts the processes that a run starts, and fails `make test` above its budget.

A run of minutes stays one only if somebody counts. The budget is in processes and tests, not in seconds, so it is the
same on every machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import pytest

from tests.integration.processes import STARTED
from tests.suites import GATE

BUDGET: Final[Mapping[str, int]] = {"brokers": 12, "meshes": 60, "tools": 12, "tests": 12_500}
"""The most starts of each kind in one run of `make test`, and the most tests."""
_OUTPUT: Final = "started"


class Budget:
    """The counts of one test process, or of all processes of a run."""

    def __init__(self, is_gate: bool) -> None:
        self._is_gate = is_gate
        self._of_others: Counter[str] = Counter()

    @property
    def counts(self) -> Counter[str]:
        """Starts by kind, in all processes that have ended."""
        return STARTED + self._of_others

    @property
    def excess(self) -> list[str]:
        """What is above the budget."""
        return [f"{self.counts[kind]} {kind} of {most}" for kind, most in BUDGET.items() if self.counts[kind] > most]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Adds the counts of a process of xdist."""
        self._of_others.update(getattr(node, "workeroutput", {}).get(_OUTPUT, {}))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._of_others["tests"] += report.when == "call"

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if (output := getattr(session.config, "workeroutput", None)) is not None:
            output[_OUTPUT] = dict(STARTED)
        elif self._is_gate and self.excess and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(self.counts.items()))
        terminalreporter.write_line(f"started: {counts}")
        if self._is_gate and self.excess:
            terminalreporter.section("above the budget of tests/budget.py", red=True)
            terminalreporter.write_line("; ".join(self.excess))


def budget_of(config: pytest.Config) -> Budget:
    """The plugin of a run."""
    return Budget(config.option.markexpr == GATE)
