"""The virtual clusters that a reload could not change. Each starts again, with the new configuration, after a rest."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import anyio

from mesh.tasks import LONGEST_REST, SHORTEST_REST, OwnedTask, TaskName, TaskReports, Tasks, is_order
from mesh.telemetry.logs import get_logger
from mesh.telemetry.task_health import reason_of

log = get_logger(__name__)


@dataclass(slots=True, eq=False)
class _Unchanged:
    """A virtual cluster that could not be changed. at: seconds on the clock. rest: seconds until it starts again."""

    reason: str
    at: float
    since: datetime
    rest: float


class UnchangedVirtualClusters:
    """The virtual clusters that the last reload could not change. restart: starts one of them again, if the
    function that it gets returns True when nothing else changes; raises if that fails. reports: gets the failures."""

    def __init__(self, restart: Callable[[str, Callable[[], bool]], Awaitable[None]], reports: TaskReports) -> None:
        self._restart = restart
        self._reports = reports
        self._by_name: dict[str, _Unchanged] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def add(self, name: str, problem: BaseException) -> None:
        """Notes a failure, and reports it."""
        self._reports.failed(OwnedTask(TaskName.RELOAD, name), problem, None)
        self._by_name[name] = _Unchanged(reason_of(problem), time.monotonic(), datetime.now(UTC), SHORTEST_REST)

    def forget(self) -> None:
        """Forgets all of them: another reload starts them, or the process stops."""
        self._by_name.clear()

    def problems(self) -> tuple[str, ...]:
        return tuple(f"virtual cluster {name}: {each.reason}" for name, each in self._by_name.items())

    def begin(self, tasks: Tasks) -> None:
        """Starts each of them again after a rest, until that succeeds."""
        for name, each in self._by_name.items():
            tasks.start(OwnedTask(TaskName.RELOAD, name), lambda name=name, each=each: self._keep(name, each))  # type: ignore[misc]

    def described(self) -> list[dict[str, object]]:
        """Returns them in the form of `UpstreamHealth.described`."""
        now = time.monotonic()
        return [
            {
                "what": "virtual cluster not changed by the reload",
                "virtual_cluster": name,
                "reason": each.reason,
                "since": each.since.isoformat(timespec="seconds"),
                "seconds": round(now - each.at, 1),
                "meanwhile": f"other virtual clusters are served; this one starts again after {each.rest:g} s",
            }
            for name, each in self._by_name.items()
        ]

    async def _keep(self, name: str, unchanged: _Unchanged) -> None:
        def is_meant() -> bool:
            return self._by_name.get(name) is unchanged

        while is_meant():
            await anyio.sleep(unchanged.rest)
            try:
                await self._restart(name, is_meant)
            except BaseException as problem:
                if is_order(problem):
                    raise
                unchanged.reason = reason_of(problem)
                self._reports.failed(OwnedTask(TaskName.RELOAD, name), problem, None)
                unchanged.rest = min(2 * unchanged.rest, LONGEST_REST)
                continue
            if is_meant():
                del self._by_name[name]
                log.info("virtual cluster restarted", virtual_cluster=name, reason=unchanged.reason)
