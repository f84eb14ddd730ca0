"""Free ports, for several test processes at once."""

from __future__ import annotations

import random
import subprocess
import sys
from itertools import chain

import pytest

from tests.integration.processes import free_port

ASK = "from tests.integration.processes import free_port; print(free_port(), flush=True); input()"


def test_a_port_is_given_to_one_process_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not listen yet: a broker takes seconds until it does."""
    mine = free_port()
    with subprocess.Popen([sys.executable, "-c", ASK], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        theirs = int(other.stdout.readline())
        drawn = chain([mine, theirs], range(20_000, 32_000))
        monkeypatch.setattr(random.SystemRandom, "randrange", lambda *_: next(drawn))
        assert free_port() not in (mine, theirs)
        other.stdin.close()
        other.wait(20)
    monkeypatch.setattr(random.SystemRandom, "randrange", lambda *_: theirs)
    assert free_port() == theirs
