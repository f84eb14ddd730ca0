"""Processes that are watched, stopped in order and never left running."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesh.demo.processes.children import Child, ChildFailed, Children

READY = "print('ready', flush=True)\n"
WELL_BEHAVED = (
    "import signal, sys, threading\n"
    "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n" + READY + "while True: signal.pause()\n"
)
DEAF = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + READY + "while True: signal.pause()\n"
BROKEN = "raise SystemExit('the reason')\n"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module called `program` that children can run."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path / "program.py"


def started(children: Children, folder: Path) -> Child:
    child = children.start("it", "program")
    log = folder / "it.log"
    while "ready" not in log.read_text():
        children.check()
    return child


def test_a_child_that_ends_well_when_asked(program: Path, tmp_path: Path) -> None:
    program.write_text(WELL_BEHAVED)
    with Children(tmp_path) as children:
        child = started(children, tmp_path)
        children.check()
        children.stop(child)
        assert child.exit_code == 0
        children.check()


def test_a_child_that_crashes_is_named_with_the_end_of_its_log(program: Path, tmp_path: Path) -> None:
    program.write_text(BROKEN)
    with Children(tmp_path) as children:
        child = children.start("it", "program")
        with pytest.raises(ChildFailed, match="it exited with 1 when"):
            child.wait(30)
        with pytest.raises(ChildFailed, match="it exited with 1; its log ends:\n  the reason"):
            children.check()


def test_a_child_that_is_killed_is_named_with_the_signal(program: Path, tmp_path: Path) -> None:
    program.write_text(WELL_BEHAVED)
    with Children(tmp_path) as children:
        started(children, tmp_path).kill()
        with pytest.raises(ChildFailed, match="it was ended by SIGKILL"):
            children.check()


def test_a_child_that_does_not_stop(program: Path, tmp_path: Path) -> None:
    program.write_text(DEAF)
    with Children(tmp_path) as children:
        child = started(children, tmp_path)
        with pytest.raises(ChildFailed, match=r"it still ran 0\.1 s after"):
            children.stop(child, timeout=0.1)
        assert child.exit_code is None
    assert child.exit_code == -9


def test_no_child_outlives_an_exception(program: Path, tmp_path: Path) -> None:
    program.write_text(WELL_BEHAVED)
    with pytest.raises(KeyboardInterrupt), Children(tmp_path) as children:
        child = started(children, tmp_path)
        raise KeyboardInterrupt
    assert child.exit_code == -9
