"""Steps of the interpreter: a measure of work that no other process on the machine disturbs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def count_steps(work: Callable[[], None]) -> int:
    """The number of bytecode instructions of `work`. Loops inside of functions written in C count as one."""
    steps = 0

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
    return steps
