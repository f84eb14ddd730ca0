"""The readiness of the whole process, and whether operators may change something at the admin address."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mesh.admin.drain import answer as answer_drain
from mesh.admin.status import status_of
from mesh.listener import certificates
from mesh.listener.target import Target
from mesh.listener.watched_files import Watched
from mesh.runtime.pool.runtime import PoolRuntime
from mesh.telemetry.task_health import TaskHealth
from mesh.telemetry.upstream_health import UpstreamHealth

_NO_TOKEN = "the admin address has no token (admin.token): {} on loopback only"
_NOT_SERVING = "the process is starting or stopping"


class Reloading(Protocol):
    def described(self) -> dict[str, object]:
        """Returns the outcome of the last attempt to change the configuration."""

    def degraded(self) -> list[dict[str, object]]:
        """Returns the virtual clusters that the last attempt could not change."""

    async def ask(self) -> tuple[int, dict[str, object]]:
        """Reloads the configuration. Returns the HTTP status and the answer."""


@dataclass(slots=True)
class Readiness:
    """The readiness of the process, and the problems that prevent it. targets: those of all virtual clusters. pools:
    returns the pools among them."""

    upstream_health: UpstreamHealth
    targets: list[Target]
    pools: Callable[[], Sequence[PoolRuntime]]
    reloading: Reloading | None = None
    listening: bool = False
    stopping: bool = False
    may_change: bool = False
    """True if only callers that may change something reach the admin address."""
    waiting: Callable[[], Sequence[str]] = tuple
    """Returns the virtual clusters whose clients wait until the store has been read."""
    grace: float = 0.0
    """Seconds that members of a pool have to commit when it is drained."""
    task_health: TaskHealth | None = None
    watched: Sequence[Watched[Any]] = ()
    """The watched files, with the certificates among them."""

    @property
    def serving(self) -> bool:
        """Returns whether the process has started, and is not stopping."""
        return self.listening and not self.stopping

    def drain(self, method: str, asked: Mapping[str, str]) -> tuple[int, dict[str, object]]:
        """Answers /drain. A caller without a token must not stop a pool."""
        if not self.listening:
            return 503, {"problem": _NOT_SERVING}
        if not self.may_change and method != "GET":
            return 403, {"problem": _NO_TOKEN.format("pools are drained")}
        return answer_drain(self.pools(), self.grace, method, asked)

    async def reload(self, method: str) -> tuple[int, dict[str, object]]:
        """Answers /reload."""
        if self.reloading is None or not self.serving:
            return 503, {"problem": _NOT_SERVING}
        if method != "POST":
            return 200, self.reloading.described()
        if not self.may_change:
            return 403, {"problem": _NO_TOKEN.format("the configuration is read again")}
        return await self.reloading.ask()

    def problems(self) -> list[str]:
        missing = [] if self.listening else ["not listening yet"]
        if self.stopping:
            missing.append("stopping")
        clusters = self.upstream_health.clusters
        if not any(map(self.upstream_health.has_reached, clusters)):
            missing.append(f"no upstream cluster reached yet: {', '.join(clusters)}")
        missing += [
            f"{name}: the store has not been read, so the places of moved topics are unknown" for name in self.waiting()
        ]
        return missing + self.upstream_health.blocking()

    def status(self) -> dict[str, object]:
        """Returns every pool with its members and partitions, and the state of the configuration."""
        of_configuration = self.reloading.described() if self.reloading is not None else {}
        return {**status_of(self.targets), "configuration": of_configuration}

    def degraded(self) -> list[dict[str, object]]:
        """Returns the problems that do not stop the rest: upstream, of tasks, and of certificates that end soon."""
        of_tasks = self.task_health.described() if self.task_health is not None else []
        of_reload = self.reloading.degraded() if self.reloading is not None else []
        return (
            self.upstream_health.described() + of_tasks + of_reload + certificates.degraded(self.watched, time.time())
        )
