"""The verb that runs the state machines with random seeds."""

from __future__ import annotations

from pathlib import Path

from tests import random_machines

BROKEN = """
from hypothesis.stateful import RuleBasedStateMachine, rule

class Broken(RuleBasedStateMachine):
    @rule()
    def fail(self):
        raise AssertionError("found")

TestBroken = Broken.TestCase
"""


def test_every_file_with_a_state_machine_is_run() -> None:
    names = {file.name for file in random_machines.machines()}
    assert {"test_share_state_machine.py", "test_leases_state_machine.py", "test_state_machine.py"} <= names


def test_what_a_machine_finds_is_told(tmp_path: Path) -> None:
    file = tmp_path / "test_broken.py"
    file.write_text(BROKEN)
    assert "AssertionError: found" in random_machines.run(file, 7)
    file.write_text(BROKEN.replace('raise AssertionError("found")', "pass"))
    assert random_machines.run(file, 7) == ""
