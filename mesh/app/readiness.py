"""What the admin address says of the process as a whole, and what operators may ask of it there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mesh.admin.drain import answer as answer_drain
from mesh.admin.status import status_of
from mesh.listener.target import Target
from mesh.runtime.pool.runtime import PoolRuntime
from mesh.telemetry.upstream_health import UpstreamHealth

_NO_TOKEN = "the admin address has no token (admin.token): {} on loopback only"
_NOT_SERVING = "the process is starting or stopping"


class Reloading(Protocol):
    def described(self) -> dict[str, object]:
        """What became of the last attempt to change the configuration."""

    async def ask(self) -> tuple[int, dict[str, object]]:
        """The HTTP status and the answer to a request to read it again."""


@dataclass(slots=True)
class Readiness:
    """What is missing before clients are served well. targets: of all virtual clusters; pools: those of them that are
    pools."""

    upstream_health: UpstreamHealth
    targets: list[Target]
    pools: Callable[[], Sequence[PoolRuntime]]
    reloading: Reloading | None = None
    listening: bool = False
    stopping: bool = False
    is_open: bool = False
    """Whether only those reach the admin address who may change something."""
    grace: float = 0.0
    """Seconds that members of a pool have to commit when it is drained."""

    @property
    def serving(self) -> bool:
        """Whether the process has started, and does not stop."""
        return self.listening and not self.stopping

    def drain(self, method: str, asked: Mapping[str, str]) -> tuple[int, dict[str, object]]:
        """What was asked of /drain. Who reaches the address without a token must not stop a pool."""
        if not self.listening:
            return 503, {"problem": _NOT_SERVING}
        if not self.is_open and method != "GET":
            return 403, {"problem": _NO_TOKEN.format("pools are drained")}
        return answer_drain(self.pools(), self.grace, method, asked)

    async def reload(self, method: str) -> tuple[int, dict[str, object]]:
        """What was asked of /reload."""
        if self.reloading is None or not self.serving:
            return 503, {"problem": _NOT_SERVING}
        if method != "POST":
            return 200, self.reloading.described()
        if not self.is_open:
            return 403, {"problem": _NO_TOKEN.format("the configuration is read again")}
        return await self.reloading.ask()

    def problems(self) -> list[str]:
        missing = [] if self.listening else ["not listening yet"]
        if self.stopping:
            missing.append("stopping")
        clusters = self.upstream_health.clusters
        if not any(map(self.upstream_health.has_reached, clusters)):
            missing.append(f"no upstream cluster reached yet: {', '.join(clusters)}")
        return missing + self.upstream_health.blocking()

    def status(self) -> dict[str, object]:
        """Every pool, its members and partitions; and the configuration."""
        of_configuration = self.reloading.described() if self.reloading is not None else {}
        return {**status_of(self.targets), "configuration": of_configuration}

    def degraded(self) -> list[dict[str, object]]:
        """What is wrong upstream, though the rest goes on."""
        return self.upstream_health.described()
