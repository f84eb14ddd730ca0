"""SIGHUP before the process can reload: it is remembered, since it would end the process."""

from __future__ import annotations

import signal
from typing import Any

_found: list[int] = []


def remember() -> None:
    """Remembers SIGHUP from now on, until another handler is set."""
    signal.signal(signal.SIGHUP, _remember)


def take() -> bool:
    """Returns True if there was a SIGHUP since the last call."""
    found = bool(_found)
    _found.clear()
    return found


def _remember(number: int, _frame: Any) -> None:
    _found.append(number)
