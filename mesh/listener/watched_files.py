"""Files that are read again when they change: certificates, users, rules, keys.

They are looked at every few seconds rather than watched: that holds on every file system, and for the links by which
Kubernetes exchanges all files of a secret at once. What is wrong with a changed file is logged once, and changes
nothing.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import anyio

from mesh.config.mistakes import ConfigurationError
from mesh.telemetry.logs import get_logger

log = get_logger(__name__)

INTERVAL: Final = 2.0
"""Seconds between two looks."""

Value = TypeVar("Value")
Signature = tuple[tuple[int, int, int] | None, ...]


@dataclass(slots=True, eq=False)
class Watched(Generic[Value]):
    """Files that belong together.

    load: reads them, in a thread; raises OSError, ValueError or ConfigurationError if they cannot be used. apply: puts
    what was read to use, on the event loop.
    """

    paths: Sequence[str]
    load: Callable[[], Value]
    apply: Callable[[Value], None]
    _seen: Signature = field(default=(), init=False)

    def first(self) -> None:
        """Read them for the first time. Raises what `load` raises."""
        self._seen = self.signature()
        self.apply(self.load())

    def signature(self) -> Signature:
        return tuple(map(_signature, self.paths))

    async def look(self) -> None:
        """Read them again if they have changed."""
        signature = await anyio.to_thread.run_sync(self.signature)
        if signature == self._seen:
            return
        self._seen = signature
        where = ", ".join(self.paths)
        try:
            value = await anyio.to_thread.run_sync(self.load)
        except (OSError, ValueError, ConfigurationError) as problem:
            log.warning("a changed file is not used", path=where, reason=describe(problem))
        else:
            self.apply(value)
            log.info("a changed file is in use", path=where)


async def watch(watched: Sequence[Watched[object]], interval: float = INTERVAL) -> None:
    """Look at them again and again, until cancelled; which ones they are may change."""
    while True:
        await anyio.sleep(interval)
        for each in tuple(watched):
            await each.look()


def describe(problem: Exception) -> str:
    """What is wrong, in one line."""
    match problem:
        case ConfigurationError(mistakes=mistakes):
            return "; ".join(map(str, mistakes))
        case OSError(filename=str(name), strerror=str(reason)) if not isinstance(problem, ssl.SSLError):
            return f"{name}: {reason}"
        case _:
            return str(problem)


def _signature(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
