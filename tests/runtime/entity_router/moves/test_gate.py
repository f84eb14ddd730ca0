"""Writes to a topic wait during the cut; the cut waits for writes that have passed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from uuid import UUID

import pytest

from mesh.runtime.entity_router.moves.gate import MAY_ARRIVE, WriteGate
from mesh.wire.apis import ApiKey
from mesh.wire.passing import RequestHead
from mesh.wire.relaying import RelayedRequest
from mesh.wire.trees import Tree
from tests.routing.moves.test_translation import commit, produce

pytestmark = pytest.mark.anyio

ID = UUID(int=7)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 7.0

    def __call__(self) -> float:
        return self.now


class Writer:
    """A client with one request in flight."""

    def __init__(self) -> None:
        self.is_open = True
        self.requests = [RelayedRequest(RequestHead(9, ApiKey.PRODUCE, 9, 1), 0.0, is_local=False)]

    def under_way(self) -> Iterable[RelayedRequest]:
        return self.requests


def gate_of(*writers: Writer) -> WriteGate:
    gate = WriteGate(lambda: writers, Clock())
    gate.know()
    return gate


async def passing(gate: WriteGate, api_key: ApiKey, request: Tree) -> asyncio.Task[None]:
    task = asyncio.get_running_loop().create_task(gate.wait_to_pass(api_key, request))
    await _turns()
    return task


async def _turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_nothing_passes_before_it_is_known_where_topics_are() -> None:
    gate = WriteGate(list, Clock())
    waiting = await passing(gate, ApiKey.METADATA, {})
    assert not waiting.done()
    gate.know()
    await waiting


async def test_what_writes_to_a_held_topic_waits_until_it_is_released() -> None:
    gate = gate_of()
    gate.hold("orders", (ID,))
    waiting = [
        await passing(gate, ApiKey.PRODUCE, produce()),
        await passing(gate, ApiKey.PRODUCE, produce(topic_id=ID)),
        await passing(gate, ApiKey.OFFSET_COMMIT, commit()),
    ]
    await gate.wait_to_pass(ApiKey.PRODUCE, produce("other"))
    await gate.wait_to_pass(ApiKey.FETCH, {"topics": [{"topic": "orders"}]})
    assert not any(each.done() for each in waiting)
    gate.release("orders")
    await asyncio.gather(*waiting)
    assert not gate.has_any


async def test_it_is_drained_when_all_is_answered_that_had_passed() -> None:
    writer = Writer()
    gate = gate_of(writer)
    draining = asyncio.get_running_loop().create_task(gate.drained())
    await _turns()
    assert not draining.done()
    writer.requests = [RelayedRequest(RequestHead(9, ApiKey.PRODUCE, 9, 2), 0.0, is_local=False)]  # of another topic
    assert await draining


async def test_requests_that_are_carried_out_here_are_waited_for() -> None:
    gate = gate_of()
    with gate.working(ApiKey.OFFSET_COMMIT):
        draining = asyncio.get_running_loop().create_task(gate.drained())
        await _turns()
        assert not draining.done()
    assert await draining


async def test_what_was_lost_may_still_come() -> None:
    writer = Writer()
    gate = gate_of(writer)
    draining = asyncio.get_running_loop().create_task(gate.drained())
    await _turns()
    gate.passed_unanswered()
    writer.is_open = False
    assert not await draining


async def test_what_gets_no_answer_may_still_come_for_a_while() -> None:
    clock = Clock()
    gate = WriteGate(list, clock)
    assert await gate.drained()
    gate.passed_unanswered()
    clock.now += MAY_ARRIVE - 0.1
    assert not await gate.drained()
    clock.now += 0.2
    assert await gate.drained()
    gate.passed_unanswered()
    assert not await gate.drained()


@pytest.mark.parametrize(("api_key", "may_come"), [(ApiKey.PRODUCE, True), (ApiKey.FETCH, False)])
async def test_what_is_carried_out_here_and_was_lost_may_still_come(api_key: ApiKey, may_come: bool) -> None:
    gate = gate_of()

    async def work() -> None:
        with gate.working(api_key):
            await asyncio.Event().wait()

    working = asyncio.get_running_loop().create_task(work())
    await _turns()
    draining = asyncio.get_running_loop().create_task(gate.drained())
    await _turns()
    assert draining.done() is not may_come
    working.cancel()
    assert await draining is not may_come
