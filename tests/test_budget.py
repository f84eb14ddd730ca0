"""The counts of a run, and its budget."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests import budget
from tests.budget import BUDGET, Budget
from tests.integration.processes import STARTED, count_start


@pytest.fixture(autouse=True)
def _nothing_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "STARTED", type(STARTED)())


def test_starts_count_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = type(STARTED)()
    monkeypatch.setattr("tests.integration.processes.STARTED", counted)
    for words in (
        ["/bin/kafka-mesh", "run", "file"],
        ["/bin/kafka-mesh", "check", "file"],
        ["java", "-cp", "path", "kafka.Kafka", "file"],
        ["java", "-cp", "path", "Tools"],
        ["kcat"],
    ):
        count_start(words)
    assert counted == {"meshes": 1, "brokers": 1, "tools": 1}


def test_the_counts_of_all_processes_are_added() -> None:
    run = Budget(is_gate=True)
    for started in ({"brokers": 2}, {"brokers": 1, "meshes": 4}):
        run.pytest_testnodedown(SimpleNamespace(workeroutput={"started": started}))
    run.pytest_testnodedown(SimpleNamespace())  # it crashed
    assert (run.counts, run.excess) == ({"brokers": 3, "meshes": 4}, [])


def test_a_run_above_its_budget_fails() -> None:
    run = Budget(is_gate=True)
    run.pytest_testnodedown(SimpleNamespace(workeroutput={"started": {"tools": BUDGET["tools"] + 1}}))
    session = SimpleNamespace(config=SimpleNamespace(), exitstatus=pytest.ExitCode.OK)
    run.pytest_sessionfinish(session)  # type: ignore[arg-type]
    assert session.exitstatus == pytest.ExitCode.TESTS_FAILED
    assert run.excess == [f"{BUDGET['tools'] + 1} tools of {BUDGET['tools']}"]


def test_other_runs_have_no_budget() -> None:
    run = Budget(is_gate=False)
    run.pytest_testnodedown(SimpleNamespace(workeroutput={"started": {"tools": 1_000}}))
    session = SimpleNamespace(config=SimpleNamespace(), exitstatus=pytest.ExitCode.OK)
    run.pytest_sessionfinish(session)  # type: ignore[arg-type]
    assert session.exitstatus == pytest.ExitCode.OK
