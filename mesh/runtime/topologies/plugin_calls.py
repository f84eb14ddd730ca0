"""Calls of a plugin that keeps topology descriptions: with a time limit, and counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeVar

from mesh.streams.description import TopologyDescription
from mesh.streams.spi import PermanentFailure, TopologyPlugin
from mesh.streams.steps import CallResult, PluginOutcome
from mesh.telemetry.logs import get_logger

log = get_logger(__name__)

TIMEOUT: Final = 10.0
"""Seconds that a call may take."""
FAILED: Final = "Topology description plugin failed."
LATE: Final = f"Topology description plugin has not answered within {TIMEOUT:g} s."

Value = TypeVar("Value")


class Call(Enum):
    """The calls of a plugin, as metrics name them."""

    SET = "set"
    GET = "get"
    DELETE = "delete"


@dataclass(slots=True)
class CallCount:
    success: int = 0
    error: int = 0


class PluginCalls:
    """Calls a plugin, and counts its successes and failures. counts: outcomes by kind of call."""

    def __init__(self, virtual_cluster: str, plugin: TopologyPlugin) -> None:
        self.counts: Final = {call: CallCount() for call in Call}
        self._name = virtual_cluster
        self._plugin = plugin

    async def set(self, group: str, epoch: int, description: TopologyDescription) -> PluginOutcome:
        return await self._ended(Call.SET, group, lambda: self._plugin.set_topology(group, epoch, description))

    async def delete(self, group: str) -> PluginOutcome:
        return await self._ended(Call.DELETE, group, lambda: self._plugin.delete_topology(group))

    async def get(self, group: str, epoch: int) -> TopologyDescription | None:
        """Returns the description of a group. Raises the plugin's exceptions, and TimeoutError."""
        try:
            async with asyncio.timeout(TIMEOUT):
                description = await self._plugin.get_topology(group, epoch)
        except Exception:
            self.counts[Call.GET].error += 1
            raise
        self.counts[Call.GET].success += 1
        return description

    async def close(self) -> None:
        try:
            async with asyncio.timeout(TIMEOUT):
                await self._plugin.close()
        except Exception:
            log.exception("topology plugin failed to close", virtual_cluster=self._name)

    async def _ended(self, call: Call, group: str, begin: Callable[[], Coroutine[Any, Any, None]]) -> PluginOutcome:
        outcome = await self._outcome(begin)
        if outcome.result is CallResult.DONE:
            self.counts[call].success += 1
        else:
            self.counts[call].error += 1
            log.warning(
                "topology plugin failed",
                virtual_cluster=self._name,
                group=group,
                reason="permanent" if outcome.result is CallResult.PERMANENT else "temporary",
                detail=f"{call.value}: {outcome.message}",
            )
        return outcome

    async def _outcome(self, begin: Callable[[], Coroutine[Any, Any, None]]) -> PluginOutcome:
        try:
            task = asyncio.get_running_loop().create_task(begin(), name="topology plugin")
        except Exception:
            log.exception("topology plugin raised an exception", virtual_cluster=self._name)
            return PluginOutcome(CallResult.PERMANENT, FAILED)
        await asyncio.sleep(0)  # the task runs to its first await
        is_at_once = task.done()
        try:
            async with asyncio.timeout(TIMEOUT):
                await task
        except PermanentFailure as problem:
            return PluginOutcome(CallResult.PERMANENT, str(problem) or None)
        except TimeoutError as problem:
            return PluginOutcome(CallResult.TRANSIENT, str(problem) or LATE)
        except Exception as problem:  # noqa: BLE001 - whatever somebody else's code raises
            if is_at_once:
                return PluginOutcome(CallResult.PERMANENT, FAILED)
            return PluginOutcome(CallResult.TRANSIENT, str(problem) or None)
        return PluginOutcome(CallResult.DONE)
