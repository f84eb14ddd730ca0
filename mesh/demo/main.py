"""`kafka-mesh demo`: the main job on embedded clusters, and an independent count of the result."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from mesh.demo.display.plain import Plain, say
from mesh.demo.live import SESSION, Live
from mesh.demo.processes.children import ChildFailed, Children
from mesh.demo.processes.member import Fault
from mesh.demo.processes.signals import StopRequest
from mesh.demo.stage import RATE, Stage, Stopped

FAULT_VARIABLE = "KAFKA_MESH_DEMO_FAULT"
"""The environment variable with the fault of the first member at its first record, for tests."""


def run(duration: float | None = None, *, plain: bool = False, rate: float = RATE) -> int:
    """Runs the demo for `duration` seconds of feeding, or until a stop; on a live screen if there is a terminal.

    Returns the exit code: 0 when every record fed was delivered exactly once and every process succeeded, else 1. On
    the live screen, records of killed or frozen consumers may come again.
    """
    folder = Path(tempfile.mkdtemp(prefix="kafka-mesh-demo-"))
    is_live = duration is None and not plain and has_terminal()
    succeeded = False
    try:
        with StopRequest() as stop, Children(folder) as children:
            fault = Fault(os.environ.get(FAULT_VARIABLE, "none"))
            stage = Stage(folder, children, stop, fault, SESSION if is_live else None)
            succeeded = _live(stage, stop, rate) if is_live else _plain(stage, stop, duration, rate)
    except ChildFailed as failure:
        say(str(failure))
    except Stopped:
        say("stopped before a record was fed")
    except KeyboardInterrupt:
        say("stopped at once, by a second signal: no records were counted")
    if succeeded:
        shutil.rmtree(folder)
    else:
        say(f"configuration, logs and journals are in {folder}")
    return 0 if succeeded else 1


def _plain(stage: Stage, stop: StopRequest, duration: float | None, rate: float) -> bool:
    verdict = Plain(stage, stop).run(duration, rate)
    say(*verdict.lines())
    return verdict.exactly_once


def _live(stage: Stage, stop: StopRequest, rate: float) -> bool:
    ending = Live(stage, stop).run(rate)
    say(*ending.lines())
    return ending.is_well


def has_terminal() -> bool:
    """Returns whether there is a terminal with a screen and keys."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
