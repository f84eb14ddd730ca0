"""The form of the demo: live or plain."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesh.demo import main
from mesh.demo.live import Ending
from mesh.demo.processes.judge import JudgeVerdict
from mesh.demo.stage import Stage

VERDICT = JudgeVerdict(fed=1, delivered=1, missing=(), repeated=(), altered=(), unknown=())


@pytest.fixture
def forms(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The forms that were chosen; nothing starts."""
    taken: list[str] = []

    class Plain:
        def __init__(self, _stage: Stage, _stop: object) -> None: ...

        def run(self, duration: float | None, _rate: float) -> JudgeVerdict:
            taken.append(f"plain {duration}")
            return VERDICT

    class Live:
        def __init__(self, _stage: Stage, _stop: object) -> None: ...

        def run(self, _rate: float) -> Ending:
            taken.append("live")
            return Ending(VERDICT, disturbed=False, given_away=0)

    monkeypatch.setattr(main, "Plain", Plain)
    monkeypatch.setattr(main, "Live", Live)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return taken


@pytest.mark.parametrize(
    ("duration", "plain", "terminal", "form"),
    [
        (None, False, True, "live"),
        (None, True, True, "plain None"),
        (5.0, False, True, "plain 5.0"),
        (None, False, False, "plain None"),
    ],
)
def test_live_on_a_terminal_unless_plain_is_asked_for(
    forms: list[str], monkeypatch: pytest.MonkeyPatch, duration: float | None, plain: bool, terminal: bool, form: str
) -> None:
    monkeypatch.setattr(main, "has_terminal", lambda: terminal)
    assert main.run(duration, plain=plain) == 0
    assert forms == [form]


def test_a_dumb_terminal_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    assert not main.has_terminal()
    monkeypatch.setenv("TERM", "xterm")
    assert main.has_terminal()
