"""Ports, which several test processes want at once."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

from tests.integration.processes import free_port

ASK = "from tests.integration.processes import free_port; print(free_port(), flush=True); input()"


def test_a_port_is_given_to_one_process_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens on it yet: a broker takes seconds until it does."""
    mine = free_port()
    with subprocess.Popen([sys.executable, "-c", ASK], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        theirs = int(other.stdout.readline())
        unused = free_port()
        drawn = iter([mine, theirs, unused + 1, unused + 2, theirs])
        monkeypatch.setattr(random.SystemRandom, "randrange", lambda *_: next(drawn))
        assert free_port() in (unused + 1, unused + 2)
        other.stdin.close()
        other.wait(20)
    monkeypatch.setattr(random.SystemRandom, "randrange", lambda *_: theirs)
    assert free_port() == theirs
