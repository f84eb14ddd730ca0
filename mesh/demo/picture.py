"""`python -m mesh.demo.picture FILE.svg`: takes a picture of the live demo in a real run.

One consumer is added, one comes from elsewhere, one is killed; the picture is taken when others have its records.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from mesh.demo.display.keys import KeyPress
from mesh.demo.display.plain import attaching, say
from mesh.demo.display.screen import screen
from mesh.demo.display.show import Show
from mesh.demo.processes.children import ChildFailed, Children
from mesh.demo.processes.member import Fault
from mesh.demo.processes.signals import StopRequest
from mesh.demo.processes.snapshot import MeshSnapshot
from mesh.demo.stage import GROUP, MEMBERS, RATE, Stage

WIDTH, HEIGHT = 100, 32
_DEADLINE = 120.0
_PAUSE = 0.5
_SETTLED = 12.0
"""Seconds until the shares are those of all present members."""


def take(file: Path) -> None:
    """Runs the demo for half a minute and writes the picture."""
    console = Console(width=WIDTH, height=HEIGHT, file=io.StringIO(), record=True, color_system="truecolor")
    with (
        tempfile.TemporaryDirectory(prefix="kafka-mesh-demo-") as folder,
        StopRequest() as stop,
        Children(Path(folder)) as children,
    ):
        stage = Stage(Path(folder), children, stop, Fault.NONE)
        stage.start(RATE)
        show = Show(stage)
        own = _own_consumer(stage)
        try:
            _play(show)
            console.print(screen(show.scene(), HEIGHT))
        finally:
            own.kill()
            own.wait()
    console.save_svg(str(file), title="make demo", unique_id="demo")


def _own_consumer(stage: Stage) -> subprocess.Popen[bytes]:
    _, _, *program = attaching(stage.endpoint.bootstrap_servers, GROUP)
    return subprocess.Popen([sys.executable, "-c", "\n".join(program)], stdout=subprocess.DEVNULL)


def _play(show: Show) -> None:
    _until(show, lambda snapshot: len(snapshot.members) == len(MEMBERS) + 1)
    show.press(KeyPress.ADD)
    _until(show, lambda snapshot: len(snapshot.members) == len(MEMBERS) + 2)
    _for(show, _SETTLED)
    show.press(1)
    show.press(KeyPress.KILL)
    _until(show, lambda snapshot: len(snapshot.members) == len(MEMBERS) + 1)
    _for(show, _SETTLED)


def _until(show: Show, reached: Callable[[MeshSnapshot], bool]) -> None:
    deadline = time.monotonic() + _DEADLINE
    while show.latest is None or not reached(show.latest):
        if time.monotonic() > deadline:
            raise ChildFailed("\n".join(["what the picture is to show did not come:", *show.log()]))
        _for(show, _PAUSE)


def _for(show: Show, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        show.look()
        time.sleep(_PAUSE)


if __name__ == "__main__":
    take(Path(sys.argv[1]))
    say(f"wrote {sys.argv[1]}")
