"""Links to brokers: pipelining, errors that close a connection, reconnecting, and sessions that end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mesh.upstream.links.connection import BrokerLink
from mesh.upstream.links.connection_settings import ConnectionSettings, Login
from mesh.upstream.links.handshake import Unreachable
from mesh.wire.client.connection import ClientRequest
from tests.upstream.harness import run
from tests.upstream.scripted_broker import Answer, Conversation, ScriptedBroker, scripted_broker

KEY = 60
QUICK = ConnectionSettings(request_timeout=20.0, setup_timeout=20.0, backoff=0.001, most_backoff=0.004)


def request() -> ClientRequest:
    return ClientRequest(KEY, 0, False, (b"question",))


def echo(conversation: Conversation, key: int, correlation_id: int) -> None:
    conversation.answer(correlation_id, b"answer %d" % correlation_id)


@asynccontextmanager
async def linked(broker: ScriptedBroker, access: ConnectionSettings = QUICK) -> AsyncIterator[BrokerLink]:
    link = BrokerLink("127.0.0.1", broker.port, access)
    try:
        yield link
    finally:
        link.close()


def test_requests_are_pipelined_over_one_connection() -> None:
    async def test() -> None:
        held: list[tuple[Conversation, int]] = []

        def hold(conversation: Conversation, key: int, correlation_id: int) -> None:
            held.append((conversation, correlation_id))
            if len(held) == 5:  # no request was answered before the last one came
                for each in held:
                    echo(each[0], key, each[1])

        async with scripted_broker(hold) as broker, linked(broker) as link:
            answers = await asyncio.gather(*(link.request(request()) for _ in range(5)))
            assert [bytes(answer.frame[answer.body :]) for answer in answers] == [b"answer %d" % n for n in range(1, 6)]
            assert broker.accepted == 1

    run(test)


def wrong_correlation(conversation: Conversation, key: int, correlation_id: int) -> None:
    conversation.answer(correlation_id + 1, b"")


def too_long(conversation: Conversation, key: int, correlation_id: int) -> None:
    conversation.writer.write((1 << 30).to_bytes(4, "big"))


def closed(conversation: Conversation, key: int, correlation_id: int) -> None:
    conversation.writer.close()


def twice(conversation: Conversation, key: int, correlation_id: int) -> None:
    conversation.send(bytes(2))


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (wrong_correlation, "response 2 instead of 1"),
        (too_long, "a response of 1073741824 bytes"),
        (twice, "a response of 2 bytes"),
        (closed, "closed the connection"),
    ],
)
def test_what_breaks_a_connection_fails_what_is_under_way_and_the_next_request_makes_another(
    broken: Answer, reason: str
) -> None:
    async def test() -> None:
        async with scripted_broker(broken) as broker, linked(broker) as link:
            both = await asyncio.gather(link.request(request()), link.request(request()), return_exceptions=True)
            assert all(isinstance(each, Unreachable) for each in both)
            assert reason in str(both[0])
            broker.answer = echo
            await link.request(request())
            assert broker.accepted == 2

    run(test)


def test_a_request_that_is_not_answered_in_time_takes_the_connection_with_it() -> None:
    async def test() -> None:
        access = ConnectionSettings(request_timeout=0.1, setup_timeout=20.0, backoff=0.001)
        async with scripted_broker(lambda *_: None) as broker, linked(broker, access) as link:
            with pytest.raises(Unreachable, match=r"no answer within 0\.1 s"):
                await link.request(request())
            broker.answer = echo
            await link.request(request())
            assert broker.accepted == 2

    run(test)


def test_callers_that_wait_for_a_connection_share_the_attempt_and_its_failure() -> None:
    async def test() -> None:
        async with scripted_broker(echo) as broker, linked(broker) as link:
            broker.refuses = True
            failures = await asyncio.gather(*(link.request(request()) for _ in range(20)), return_exceptions=True)
            assert all(isinstance(each, Unreachable) for each in failures)
            assert broker.accepted == 1
            broker.refuses = False
            await asyncio.gather(*(link.request(request()) for _ in range(20)))
            assert broker.accepted == 2

    run(test)


def test_attempts_are_further_and_further_apart_up_to_a_bound_until_a_request_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        waited.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", note)
    monkeypatch.setattr(random, "uniform", lambda low, high: high)

    async def test() -> None:
        access = ConnectionSettings(request_timeout=20.0, setup_timeout=20.0, backoff=1.0, most_backoff=3.0)
        async with scripted_broker(closed) as broker, linked(broker, access) as link:
            for _ in range(5):  # each connects and gets no answer: that is no success
                with pytest.raises(Unreachable):
                    await link.request(request())
            assert waited == [0.0, 1.0, 2.0, 3.0, 3.0]
            broker.answer = echo
            await link.request(request())
            waited.clear()
            broker.answer = closed
            for _ in range(2):
                with pytest.raises(Unreachable):
                    await link.request(request())
            assert waited == [0.0]

    run(test)


def test_before_a_session_ends_new_requests_go_over_another_connection() -> None:
    async def test() -> None:
        access = ConnectionSettings(
            mechanism="PLAIN", login=Login("u", "p"), request_timeout=20.0, setup_timeout=20.0, backoff=0.001
        )
        held: list[tuple[Conversation, int]] = []

        def hold(conversation: Conversation, key: int, correlation_id: int) -> None:
            held.append((conversation, correlation_id))

        async with scripted_broker(hold) as broker, linked(broker, access) as link:
            async with asyncio.TaskGroup() as tasks:
                broker.lifetime_ms = 1
                tasks.create_task(link.request(request()))
                await broker.until(lambda: len(held) == 1)
                await asyncio.sleep(0.01)
                broker.lifetime_ms = 0
                tasks.create_task(link.request(request()))
                await broker.until(lambda: len(held) == 2)
                assert held[0][0] is not held[1][0]
                for conversation, correlation_id in held:
                    echo(conversation, KEY, correlation_id)
            broker.answer = echo
            await link.request(request())
            assert broker.accepted == 2
            assert broker.conversations[0].requests == [(18, 0), (17, 1), (36, 1), (KEY, 0)]

    run(test)


def test_a_link_that_is_closed_stays_closed_and_fails_what_waits() -> None:
    async def test() -> None:
        async with scripted_broker(lambda *_: None) as broker, linked(broker) as link:
            broker.answer = lambda *_: link.close()
            for _ in range(2):
                with pytest.raises(Unreachable, match="closed here"):
                    await link.request(request())
            assert broker.accepted == 1

    run(test)


def test_a_caller_that_is_cancelled_while_a_link_is_closed_stays_cancelled() -> None:
    """It would go on otherwise, without a second cancellation."""

    async def test() -> None:
        async with scripted_broker(lambda *_: None) as broker, linked(broker) as link:
            waiting = asyncio.get_running_loop().create_task(link.request(request()))
            await asyncio.sleep(0)
            link.close()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    run(test)
