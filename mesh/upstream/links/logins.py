"""The outcomes of logins at the nodes of a cluster: whether any node accepts the mesh, and why not.

Open connections say nothing about the login: brokers keep them after the end of a certificate, and after a password was
changed. So only new connections count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from mesh.tasks import OwnedTask, TaskName, begin
from mesh.upstream.problems import UpstreamProblem

CONFIRMED_AFTER: Final = 1.0
"""Seconds after a refusal until other nodes are tried. A broker that starts may refuse logins for a moment."""
INTERVAL: Final = 5.0
"""Seconds between two attempts while no node accepts the login."""
MOST_NODES: Final = 100
"""The most addresses that are remembered."""
OF_LOGINS: Final = frozenset({UpstreamProblem.CREDENTIALS, UpstreamProblem.ENCRYPTION})
Address: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class LoginOutcome:
    """The outcome of a new connection. at: seconds of the event loop. problem: None if the node accepted the login."""

    at: float
    problem: UpstreamProblem | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LoginRefusal:
    """The reason why no node of a cluster accepts the login. problem: one of `OF_LOGINS`."""

    problem: UpstreamProblem
    reason: str


class Logins:
    """The last outcome at each address of one cluster. on_refusal: called after each refused login."""

    def __init__(self) -> None:
        self.on_refusal: Callable[[], None] = lambda: None
        self._last: dict[Address, LoginOutcome] = {}

    def note(self, address: Address, outcome: LoginOutcome) -> None:
        """Notes the outcome of a new connection."""
        self._last.pop(address, None)
        self._last[address] = outcome
        if len(self._last) > MOST_NODES:
            del self._last[next(iter(self._last))]
        if outcome.problem in OF_LOGINS:
            self.on_refusal()

    def older_than(self, at: float) -> list[Address]:
        """Returns the addresses without an outcome since then."""
        return [address for address, outcome in self._last.items() if outcome.at < at]

    def refusal(self) -> LoginRefusal | None:
        """Returns the refusal of all nodes; None if a node has accepted the login, or none has refused it. A node that
        cannot be reached does neither."""
        if any(outcome.problem is None for outcome in self._last.values()):
            return None
        refused = [(address, each) for address, each in self._last.items() if each.problem in OF_LOGINS]
        if not refused:
            return None
        (host, port), last = refused[-1]
        assert last.problem is not None, "that of a refusal"
        return LoginRefusal(last.problem, f"no node accepts the login; {host}:{port}: {last.reason}")


class LoginWatch:
    """The watch over the logins at one cluster. After a refusal it tries the other nodes, until one accepts.

    attempt: makes a new connection to an address, whose outcome the logins get; raises nothing. report: called with the
    refusal of all nodes when its kind changes, and with None when a node accepts again.
    """

    def __init__(
        self,
        cluster: str,
        logins: Logins,
        attempt: Callable[[Address], Awaitable[object]],
        report: Callable[[LoginRefusal | None], object],
    ) -> None:
        self._cluster = cluster
        self._logins = logins
        self._attempt = attempt
        self._report = report
        self._task: asyncio.Task[None] | None = None
        self._reported: UpstreamProblem | None = None
        logins.on_refusal = self._refused

    def close(self) -> None:
        self._logins.on_refusal = lambda: None
        if self._task is not None:
            self._task.cancel()

    def forget(self) -> None:
        """Forgets what was reported."""
        self._reported = None

    def _refused(self) -> None:
        if self._task is None or self._task.done():
            self._task = begin(OwnedTask(TaskName.LOGINS, cluster=self._cluster), self._run)

    async def _run(self) -> None:
        rest, loop = CONFIRMED_AFTER, asyncio.get_running_loop()
        while True:
            await asyncio.sleep(rest)
            others = self._logins.older_than(loop.time() - rest / 2)
            await asyncio.gather(*map(self._attempt, others))
            refusal = self._logins.refusal()
            problem = refusal.problem if refusal is not None else None
            if problem is not self._reported:
                self._reported = problem
                self._report(refusal)
            if refusal is None:
                return
            rest = INTERVAL
