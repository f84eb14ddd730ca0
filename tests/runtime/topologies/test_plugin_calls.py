"""Calls of plugins that fail in every way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mesh.runtime.topologies import plugin_calls
from mesh.runtime.topologies.plugin_calls import FAILED, Call, PluginCalls
from mesh.streams.description import TopologyDescription
from mesh.streams.spi import PermanentFailure
from mesh.streams.steps import CallResult, PluginOutcome
from mesh.topology_plugins.memory import MemoryPlugin
from tests.upstream.harness import run

EMPTY = TopologyDescription()
DONE = PluginOutcome(CallResult.DONE)


class Plugin(MemoryPlugin):
    """Does something first in every method."""

    def __init__(self, first: Callable[[], Awaitable[None]]) -> None:
        super().__init__(None, "front")
        self._first = first

    async def set_topology(self, group: str, epoch: int, description: TopologyDescription) -> None:
        await self._first()
        await super().set_topology(group, epoch, description)

    async def get_topology(self, group: str, epoch: int) -> TopologyDescription | None:
        await self._first()
        return await super().get_topology(group, epoch)

    async def delete_topology(self, group: str) -> None:
        await self._first()
        await super().delete_topology(group)

    async def close(self) -> None:
        await self._first()


def raising(problem: Exception, *, at_once: bool) -> Callable[[], Awaitable[None]]:
    async def first() -> None:
        if not at_once:
            await asyncio.sleep(0)
        raise problem

    return first


@pytest.mark.parametrize(
    ("problem", "at_once", "outcome"),
    [
        (PermanentFailure("too large"), True, PluginOutcome(CallResult.PERMANENT, "too large")),
        (PermanentFailure("too large"), False, PluginOutcome(CallResult.PERMANENT, "too large")),
        (PermanentFailure(), False, PluginOutcome(CallResult.PERMANENT)),
        (ValueError("secret"), True, PluginOutcome(CallResult.PERMANENT, FAILED)),
        (ValueError("no room"), False, PluginOutcome(CallResult.TRANSIENT, "no room")),
        (OSError(), False, PluginOutcome(CallResult.TRANSIENT)),
    ],
    ids=str,
)
def test_how_a_call_fails(problem: Exception, at_once: bool, outcome: PluginOutcome) -> None:
    async def test() -> None:
        calls = PluginCalls("front", Plugin(raising(problem, at_once=at_once)))
        assert await calls.set("g", 1, EMPTY) == outcome
        assert await calls.delete("g") == outcome
        with pytest.raises(type(problem)):
            await calls.get("g", 1)
        assert {call: (each.success, each.error) for call, each in calls.counts.items()} == dict.fromkeys(Call, (0, 1))
        await calls.close()

    run(test)


def test_one_that_goes_well_is_counted_too() -> None:
    async def test() -> None:
        async def first() -> None: ...

        calls = PluginCalls("front", Plugin(first))
        assert (await calls.set("g", 1, EMPTY), await calls.get("g", 1), await calls.delete("g")) == (DONE, EMPTY, DONE)
        assert {call: (each.success, each.error) for call, each in calls.counts.items()} == dict.fromkeys(Call, (1, 0))

    run(test)


def test_one_that_hangs_fails_and_may_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_calls, "TIMEOUT", 0.01)

    async def test() -> None:
        forever = asyncio.Event()

        async def first() -> None:
            await forever.wait()

        calls = PluginCalls("front", Plugin(first))
        assert (await calls.set("g", 1, EMPTY)).result is CallResult.TRANSIENT
        with pytest.raises(TimeoutError):
            await calls.get("g", 1)
        await calls.close()

    run(test)


def test_one_that_is_no_coroutine_has_failed_for_good() -> None:
    class Plain(MemoryPlugin):
        def set_topology(self, *_: Any) -> None:  # type: ignore[override]  # as somebody may write it
            ...

    async def test() -> None:
        calls = PluginCalls("front", Plain(None, "front"))
        assert await calls.set("g", 1, EMPTY) == PluginOutcome(CallResult.PERMANENT, FAILED)

    run(test)
