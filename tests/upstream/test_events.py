"""Events reach the event loop in order, with few wake-ups, and none after the end."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from mesh.upstream.events import EventChannel
from tests.upstream.harness import run


def unexpected(problem: BaseException) -> None:
    raise problem


def test_events_of_another_thread_come_in_order_and_on_the_loop() -> None:
    async def test() -> None:
        told: list[tuple[int, threading.Thread]] = []
        ended = asyncio.Event()

        def deliver(event: int) -> None:
            told.append((event, threading.current_thread()))
            if event == 999:
                ended.set()

        channel = EventChannel(asyncio.get_running_loop(), deliver, unexpected)

        def put() -> None:
            for number in range(1_000):
                channel.put(number)

        thread = threading.Thread(target=put)
        thread.start()
        await asyncio.wait_for(ended.wait(), 30)
        thread.join()
        assert told == [(number, threading.current_thread()) for number in range(1_000)]

    run(test)


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts its wake-ups."""

    wakes = 0

    def call_soon_threadsafe(  # type: ignore[override]  # typeshed ties the arguments to the callback
        self, *arguments: Any, **named: Any
    ) -> asyncio.Handle:
        self.wakes += 1
        return super().call_soon_threadsafe(*arguments, **named)


def test_a_busy_loop_is_woken_once() -> None:
    loop = CountingLoop()
    told: list[int] = []
    channel = EventChannel(loop, told.append, unexpected)
    for number in range(10):
        channel.put(number)
    assert (len(channel), loop.wakes) == (10, 1)
    loop.run_until_complete(asyncio.sleep(0))
    assert (told, len(channel)) == (list(range(10)), 0)
    channel.put(10)
    loop.run_until_complete(asyncio.sleep(0))
    assert (told[-1], loop.wakes) == (10, 2)
    loop.close()


def test_nothing_is_delivered_after_the_end() -> None:
    async def test() -> None:
        told: list[int] = []

        def deliver(event: int) -> None:
            told.append(event)
            if event == 2:
                channel.close()

        channel = EventChannel(asyncio.get_running_loop(), deliver, unexpected)
        for number in range(5):
            channel.put(number)
        await asyncio.sleep(0)
        channel.put(5)
        await asyncio.sleep(0)
        assert told == [0, 1, 2]
        assert len(channel) == 0

    run(test)


def test_events_behind_one_that_fails_are_delivered() -> None:
    async def test() -> None:
        told: list[int] = []
        failures: list[BaseException] = []
        loop = asyncio.get_running_loop()

        def deliver(event: int) -> None:
            if event == 1:
                raise RuntimeError("deliberate")
            told.append(event)

        channel = EventChannel(loop, deliver, failures.append)
        for number in range(4):
            channel.put(number)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert told == [0, 2, 3]
        assert [str(failure) for failure in failures] == ["deliberate"]

    run(test)


def test_a_loop_that_is_gone() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    channel: EventChannel[int] = EventChannel(loop, lambda event: None, unexpected)
    channel.put(1)
    assert len(channel) == 0
