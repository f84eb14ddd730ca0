"""Steps of the interpreter: a measure of work that no other process on the machine disturbs."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def count_steps(work: Callable[[], None]) -> int:
    """The number of bytecode instructions of `work`. Loops inside of functions written in C count as one. Python's
    garbage collector rests meanwhile: it may call destructors of objects that earlier tests have left."""
    steps = 0
    was_collecting = gc.isenabled()
    gc.disable()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal steps
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        steps += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
        if was_collecting:
            gc.enable()
    return steps
