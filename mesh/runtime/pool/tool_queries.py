"""What tools ask of the upstream clusters: a few at a time, each answered when its answer is there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from mesh.apis.answers import Answer
from mesh.listener.requests import PendingRequest
from mesh.pool.common.effects import Effect
from mesh.pool.common.queries import Question
from mesh.runtime.pool.administration import Administration

AT_A_TIME = 16


class ToolQueries:
    """Those of one virtual cluster. carry_out: takes the answers."""

    def __init__(self, administration: Administration, carry_out: Callable[[Sequence[Effect]], None]) -> None:
        self._administration = administration
        self._carry_out = carry_out
        self._free = asyncio.Semaphore(AT_A_TIME)
        self._asking: set[asyncio.Task[None]] = set()

    def ask(self, pending: PendingRequest, question: Question) -> None:
        task = asyncio.get_running_loop().create_task(self._answer(pending, question), name="a tool asks upstream")
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    def change(self, administration: Administration) -> None:
        """They are asked there from now on."""
        self._administration.close()
        self._administration = administration

    def close(self) -> None:
        self._administration.close()
        for task in self._asking:
            task.cancel()

    async def _answer(self, pending: PendingRequest, question: Question) -> None:
        async with self._free:
            result = await self._administration.ask(question)
        self._carry_out([Answer(pending, result)])
