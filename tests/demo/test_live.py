"""The live demo with a terminal and keys; and its last lines."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mesh.demo.display.plain import attaching
from mesh.demo.live import Ending
from mesh.demo.processes.journal import RecordId
from mesh.demo.processes.judge import JudgeVerdict
from mesh.demo.stage import GROUP, MEMBERS
from tests.demo.terminal import Terminal

ONCE = JudgeVerdict(fed=10, delivered=10, missing=(), repeated=(), altered=(), unknown=())
AGAIN = JudgeVerdict(
    fed=10, delivered=12, missing=(), repeated=(RecordId("eu-1"), RecordId("eu-2")), altered=(), unknown=()
)
MISSING = JudgeVerdict(fed=10, delivered=9, missing=(RecordId("eu-1"),), repeated=(), altered=(), unknown=())
ALTERED = JudgeVerdict(fed=10, delivered=10, missing=(), repeated=(), altered=(RecordId("eu-1"),), unknown=())


@pytest.mark.long
def test_keys_add_and_kill_consumers(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        for name in MEMBERS:
            terminal.wait_for(f"{name} is a member of the group demo")
            terminal.wait_for_share(name)
        terminal.press("a")
        terminal.wait_for("fast-3 is a member of the group demo")
        terminal.wait_for_share("fast-3")
        terminal.press("1k")
        terminal.wait_for("fast-1 was killed (kill -9)")
        terminal.wait_for("fast-1 is out of the group", "fast-1 has left the group")
        assert terminal.row("fast-1") == []
        terminal.press("q")
        code = terminal.outcome()
        assert code == 0, terminal.text
        assert "every record was delivered" in terminal.text
        assert terminal.is_restored
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_a_frozen_consumer_loses_what_it_holds_and_comes_back(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.wait_for("slow is a member of the group demo")
        terminal.wait_for_share("slow")
        terminal.press("3f")
        terminal.wait_for("slow was frozen (SIGSTOP)")
        terminal.wait_for("slow is out of the group", "slow has left the group")
        terminal.press("t")
        terminal.wait_for("slow goes on (SIGCONT)")
        terminal.wait_for_share("slow")
        terminal.process.send_signal(signal.SIGINT)
        code = terminal.outcome()
        assert code == 0, terminal.text
        assert "every record was delivered" in terminal.text
        assert terminal.is_restored


@pytest.mark.long
def test_a_consumer_of_ones_own_gets_a_row_and_a_share(tmp_path: Path) -> None:
    """With the five lines of code that the demo prints."""
    with Terminal(tmp_path) as terminal:
        terminal.wait_for("slow is a member of the group demo")
        shown = terminal.wait_for_match(r"kcat -b (\S+) -G demo orders")
        _, _, *program = attaching(shown[1], GROUP)
        for line in program:
            terminal.wait_for(line)
        own = subprocess.Popen([sys.executable, "-c", "\n".join(program)], stdout=subprocess.DEVNULL)
        try:
            terminal.wait_for("your rdkafka is a member of the group demo")
            terminal.wait_for_share("rdkafka")
            assert "yours" in terminal.row("rdkafka")
        finally:
            own.kill()
            own.wait()
        terminal.wait_for("your rdkafka is out of the group", "your rdkafka has left the group")
        terminal.press("q")
        code = terminal.outcome()
        assert code == 0, terminal.text
        assert "went to consumers of your own" in terminal.text or "every record was delivered" in terminal.text


def test_exactly_once_is_said_as_ever() -> None:
    ending = Ending(ONCE, disturbed=True, given_away=0)
    assert ending.is_well
    assert list(ending.lines()) == list(ONCE.lines())


def test_what_comes_again_needs_a_reason() -> None:
    assert not Ending(AGAIN, disturbed=False, given_away=0).is_well
    ending = Ending(AGAIN, disturbed=True, given_away=0)
    assert ending.is_well
    assert list(ending.lines()) == [
        "10 records fed, 12 delivered",
        "every record was delivered, unaltered",
        "2 came again: their members were killed or frozen before a commit",
    ]


def test_what_is_missing_went_to_consumers_of_others_or_is_lost() -> None:
    assert not Ending(MISSING, disturbed=True, given_away=0).is_well
    ending = Ending(MISSING, disturbed=False, given_away=3)
    assert ending.is_well
    assert list(ending.lines())[1:] == ["1 went to consumers of your own, which were given 3"]


def test_nothing_excuses_what_was_altered() -> None:
    ending = Ending(ALTERED, disturbed=True, given_away=3)
    assert not ending.is_well
    assert list(ending.lines()) == list(ALTERED.lines())
