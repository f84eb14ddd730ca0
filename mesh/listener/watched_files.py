"""Files that are read again when they change: certificates, users, rules, keys.

They are checked every few seconds. That works on every file system, and for the links by which Kubernetes replaces all
files of a secret at once. A mistake in a changed file is logged once, and changes nothing. A file that could not be
read is read again at the next check. No file keeps the others from being checked.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import anyio
from anyio.to_thread import run_sync

from mesh.config.mistakes import ConfigurationError
from mesh.files import Signature, signature_of
from mesh.tasks import is_order
from mesh.telemetry.logs import get_logger

log = get_logger(__name__)

INTERVAL: Final = 2.0
"""Seconds between two checks."""

Value = TypeVar("Value")
Failed = Callable[[BaseException], None]


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
    _problem: tuple[Signature, str] | None = field(default=None, init=False)
    """The last problem that was logged, and the files that it was about."""

    def first(self) -> None:
        """Reads the files for the first time. Raises the errors of `load`."""
        signature = self.signature()
        self.apply(self.load())
        self._seen = signature

    def signature(self) -> Signature:
        return signature_of(self.paths)

    async def check(self, failed: Failed = lambda _: None) -> None:
        """Reads the files again if they have changed. No exception of `load` or `apply` is raised. failed: called with
        one that `load` must not raise."""
        signature = self._seen
        try:
            signature = await run_sync(self.signature, abandon_on_cancel=True)
            if signature == self._seen:
                return
            self.apply(await run_sync(self.load, abandon_on_cancel=True))
        except BaseException as problem:
            if is_order(problem):
                raise
            self._note(signature, problem, failed)
        else:
            self._seen, self._problem = signature, None
            log.info("file reloaded", path=", ".join(self.paths))

    def _note(self, signature: Signature, problem: BaseException, failed: Failed) -> None:
        if isinstance(problem, ValueError | ConfigurationError):
            self._seen = signature  # the files were read, and the same files have the same mistake
        reason = describe(problem)
        if self._problem == (signature, reason):
            return
        self._problem = (signature, reason)
        log.warning("file not reloaded", path=", ".join(self.paths), reason=reason)
        if not isinstance(problem, OSError | ValueError | ConfigurationError):
            failed(problem)


async def watch(
    watched: Sequence[Watched[object]], failed: Failed = lambda _: None, interval: float = INTERVAL
) -> None:
    """Checks files at intervals until cancelled. The list of files may change. failed: called with exceptions that are
    bugs; the other files are checked all the same."""
    while True:
        await anyio.sleep(interval)
        for each in tuple(watched):
            await each.check(failed)


def describe(problem: BaseException) -> str:
    """Describes a problem in one line."""
    match problem:
        case ConfigurationError(mistakes=mistakes):
            return "; ".join(map(str, mistakes))
        case OSError(filename=str(name), strerror=str(reason)) if not isinstance(problem, ssl.SSLError):
            return f"{name}: {reason}"
        case OSError() | ValueError():
            return str(problem)
        case _:
            return f"{type(problem).__name__}: {problem}"
