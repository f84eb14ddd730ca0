"""Files that are read again when they change: certificates, users, rules, keys.

They are checked every few seconds. That works on every file system, and for the links by which Kubernetes replaces all
files of a secret at once. A mistake in a changed file is logged once, and changes nothing.
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
"""Seconds between two checks."""

Value = TypeVar("Value")
Signature = tuple[tuple[int, int, int] | None, ...]


@dataclass(slots=True, eq=False)
class Watched(Generic[Value]):
    """Files that are read together.

    load: reads them, in a thread; raises OSError, ValueError or ConfigurationError if they cannot be used. apply: puts
    the result to use, on the event loop.
    """

    paths: Sequence[str]
    load: Callable[[], Value]
    apply: Callable[[Value], None]
    _seen: Signature = field(default=(), init=False)

    def first(self) -> None:
        """Reads the files for the first time. Raises the errors of `load`."""
        self._seen = self.signature()
        self.apply(self.load())

    def signature(self) -> Signature:
        return tuple(map(_signature, self.paths))

    async def check(self) -> None:
        """Reads the files again if they have changed."""
        signature = await anyio.to_thread.run_sync(self.signature)
        if signature == self._seen:
            return
        self._seen = signature
        where = ", ".join(self.paths)
        try:
            value = await anyio.to_thread.run_sync(self.load)
        except (OSError, ValueError, ConfigurationError) as problem:
            log.warning("file not reloaded", path=where, reason=describe(problem))
        else:
            self.apply(value)
            log.info("file reloaded", path=where)


async def watch(watched: Sequence[Watched[object]], interval: float = INTERVAL) -> None:
    """Checks files at intervals until cancelled. The list of files may change."""
    while True:
        await anyio.sleep(interval)
        for each in tuple(watched):
            await each.check()


def describe(problem: Exception) -> str:
    """Describes a problem in one line."""
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
