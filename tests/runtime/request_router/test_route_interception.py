"""The interceptors of a route keep the order of a client's records."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import cast

import pytest

from mesh.interceptors.chain import ChainResult, ChainStep, InterceptorName, OnFailure, run_chain
from mesh.interceptors.frames import Task, UnreadableRecords
from mesh.interceptors.selection import ConfiguredInterceptor, InterceptionPoint, Isolation, Selection
from mesh.interceptors.sequences import Sequences
from mesh.interceptors.spi import KEEP, On
from mesh.runtime.interception.client import Interceptors
from mesh.runtime.interception.interceptor_runner import InterceptorRunner
from mesh.runtime.interception.topic_names import TopicNames
from mesh.runtime.interception.workers import Workers
from mesh.runtime.request_router.route_interception import RouteInterception
from mesh.security.principals import ANONYMOUS
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import Buffer
from tests.interceptors.fakes import Does, batch
from tests.runtime.interception.requests import Cluster, answered, framed, interceptors_of
from tests.runtime.relay.loops import anyhow

NAME = InterceptorName("it")
STEPS = {NAME: ChainStep(NAME, Does(lambda record: KEEP), OnFailure.FAIL)}


class SlowAtFirst:
    """Stands for several workers, of which the first that gets a task is slow."""

    def __init__(self) -> None:
        self._is_first = True

    async def run(self, task: Task) -> ChainResult | UnreadableRecords:
        is_slow, self._is_first = self._is_first, False
        if is_slow:
            await asyncio.sleep(0.1)
        return run_chain(list(task.chain(STEPS)), memoryview(task.records), task.where, time.monotonic)


def interception() -> RouteInterception:
    configured = ConfiguredInterceptor(
        NAME, "it", ("*",), frozenset({On.PRODUCE}), ("*",), 60.0, 0, OnFailure.FAIL, Isolation.PROCESS, False
    )
    interceptors = Interceptors(
        InterceptorRunner("front", {}, cast("Workers", SlowAtFirst()), time.monotonic),
        Selection([configured], lambda topic: [InterceptionPoint((configured,), topic)]),
        TopicNames(Cluster().metadata),
        Sequences(1 << 20),
    )
    return RouteInterception(interceptors, lambda: ANONYMOUS, time.monotonic)


@anyhow
async def test_a_batch_that_takes_long_is_sent_before_later_ones() -> None:
    route, sent = interception(), []

    async def send(frame: memoryview) -> list[Buffer]:
        sent.append(next(value for value in (b"first", b"second") if value in bytes(frame)))
        return []

    async def produce(value: bytes) -> None:
        topics = [{"name": "orders", "partition_data": [{"index": 0, "records": batch(value)}]}]
        tree = {"transactional_id": None, "acks": 0, "timeout_ms": 1_000, "topic_data": topics}
        await route.answer(*framed(ApiKey.PRODUCE, 9, tree), None, send)

    async with asyncio.TaskGroup() as tasks:
        for value in (b"first", b"second"):
            tasks.create_task(produce(value))
    assert sent == [b"first", b"second"]


@anyhow
async def test_an_answer_of_a_route_with_a_topic_that_an_interceptor_wants_to_see_does_not_pass() -> None:
    """The Fetch names only topics that none wants to see."""
    route = RouteInterception(interceptors_of(Does(lambda record: KEEP)), lambda: ANONYMOUS, time.monotonic)

    async def asked(*topics: str) -> Sequence[Buffer]:
        tree = {"responses": [{"topic": each, "partitions": [{"records": b"x"}]} for each in topics]}

        async def send(_: memoryview) -> list[Buffer]:
            whole = answered(ApiKey.FETCH, 11, tree)
            return [whole[:8], whole[8:]]

        return await route.answer(*framed(ApiKey.FETCH, 11, fetch), None, send)

    partition = {"partition": 0, "fetch_offset": 5, "partition_max_bytes": 1 << 20}
    fetch = {"session_epoch": -1, "max_bytes": 1 << 20, "topics": [{"topic": "others", "partitions": [partition]}]}
    assert await asked("others")
    with pytest.raises(ProtocolError, match="which was not asked for"):
        await asked("others", "orders")
