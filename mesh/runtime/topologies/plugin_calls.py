"""Calls of a plugin that keeps topology descriptions, in time, and how often they succeeded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeVar

from mesh.streams.description import TopologyDescription
from mesh.streams.spi import PermanentFailure, TopologyPlugin
from mesh.streams.steps import Kind, PluginOutcome
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
class Count:
    success: int = 0
    error: int = 0


class PluginCalls:
    """A plugin as it is called. counts: of the calls that ended."""

    def __init__(self, virtual_cluster: str, plugin: TopologyPlugin) -> None:
        self.counts: Final = {call: Count() for call in Call}
        self._name = virtual_cluster
        self._plugin = plugin

    async def set(self, group: str, epoch: int, description: TopologyDescription) -> PluginOutcome:
        return await self._ended(Call.SET, group, lambda: self._plugin.set_topology(group, epoch, description))

    async def delete(self, group: str) -> PluginOutcome:
        return await self._ended(Call.DELETE, group, lambda: self._plugin.delete_topology(group))

    async def get(self, group: str, epoch: int) -> TopologyDescription | None:
        """Raises whatever the plugin raises, and TimeoutError."""
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
            log.exception("a plugin for topology descriptions did not close", virtual_cluster=self._name)

    async def _ended(self, call: Call, group: str, begin: Callable[[], Coroutine[Any, Any, None]]) -> PluginOutcome:
        outcome = await self._outcome(begin)
        if outcome.kind is Kind.DONE:
            self.counts[call].success += 1
        else:
            self.counts[call].error += 1
            log.warning(
                "a plugin for topology descriptions failed",
                virtual_cluster=self._name,
                group=group,
                call=call.value,
                is_permanent=outcome.kind is Kind.PERMANENT,
                reason=outcome.message,
            )
        return outcome

    async def _outcome(self, begin: Callable[[], Coroutine[Any, Any, None]]) -> PluginOutcome:
        try:
            task = asyncio.get_running_loop().create_task(begin(), name="topology plugin")
        except Exception:
            log.exception("a plugin for topology descriptions raised", virtual_cluster=self._name)
            return PluginOutcome(Kind.PERMANENT, FAILED)
        await asyncio.sleep(0)  # it runs up to its first await
        is_at_once = task.done()
        try:
            async with asyncio.timeout(TIMEOUT):
                await task
        except PermanentFailure as problem:
            return PluginOutcome(Kind.PERMANENT, str(problem) or None)
        except TimeoutError as problem:
            return PluginOutcome(Kind.TRANSIENT, str(problem) or LATE)
        except Exception as problem:  # noqa: BLE001 - whatever somebody else's code raises
            if is_at_once:
                return PluginOutcome(Kind.PERMANENT, FAILED)
            return PluginOutcome(Kind.TRANSIENT, str(problem) or None)
        return PluginOutcome(Kind.DONE)
