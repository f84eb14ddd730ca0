"""Unforeseen exceptions in tasks of connections and requests: that client's connection is closed."""

from __future__ import annotations

import asyncio
from unittest.mock import AsyncMock, Mock

import pytest

from mesh.listener.authentication import Authenticator
from mesh.runtime.entity_router.leaves import Leaves
from mesh.runtime.interception.stage import Interception
from mesh.runtime.interception.workers import InterceptorWorker, Workers
from mesh.security.sasl import Slow
from mesh.tasks import OwnedTask, TaskName
from mesh.wire.apis import ApiKey
from tests.fake_time import in_fake_time
from tests.planted import Planting, plants
from tests.runtime.connection_router.harness import choice
from tests.runtime.entity_router.harness import union
from tests.runtime.entity_router.moves.test_moves import fetched, ready
from tests.runtime.entity_router.moves.test_one_node import as_one_node
from tests.runtime.relay.frames import request
from tests.runtime.relay.harness import world
from tests.runtime.relay.loops import anyhow, everywhere


async def resting() -> None:
    """A task with many awaits."""
    while True:  # noqa: ASYNC110 - it waits for nothing
        await asyncio.sleep(0.1)


@plants(TaskName.LEG)
@anyhow
async def test_a_leg_that_is_opened(planting: Planting) -> None:
    """Another exception than a CancelledError is handled as a lost leg."""
    async with world() as made:
        await made.known()
        with planting.into_task(Exception):
            assert await (await made.client()).rest() == b""
        assert await (await made.client()).ask(ApiKey.HEARTBEAT, 3, 1)


@plants(TaskName.NODE_WAIT)
@anyhow
async def test_a_wait_for_nodes(planting: Planting) -> None:
    async with union() as made:
        with pytest.MonkeyPatch.context() as patched, planting.into_task(Exception):
            patched.setattr(Leaves, "are_known", False)
            patched.setattr(Leaves, "wait_until_known", lambda _: resting())
            assert await (await made.client()).rest() == b""
        assert await (await made.client()).asked(ApiKey.METADATA, 12, {"topics": None})


@plants(TaskName.REQUEST)
@anyhow
async def test_a_divided_request(planting: Planting) -> None:
    """Another exception than a CancelledError is handled as a bug in the request."""
    async with union() as made:
        with planting.into_task(Exception):
            client = await made.client()
            client.send(request(ApiKey.METADATA, 12, 1, b"\0\0\0\0\0\0"))
            await client.rest()  # the connection ends
        assert await (await made.client()).asked(ApiKey.METADATA, 12, {"topics": None})


@plants(TaskName.CHOICE)
@everywhere
async def test_a_client_that_waits_for_its_pool(planting: Planting) -> None:
    async with choice() as made:
        made.pools_ready.clear()
        with planting.into_task():
            member, other = await made.client(), await made.client()
            member.send(request(ApiKey.API_VERSIONS, 0, 7, client_id=b"batch-1"))
            assert await member.rest() == b""
            other.send(request(ApiKey.API_VERSIONS, 0, 7, client_id=b"app"))
            assert await other.frame()


@plants(TaskName.INTERCEPTION)
@in_fake_time
async def test_an_interception_ends_its_connection(planting: Planting) -> None:
    stage = Interception.__new__(Interception)
    stage._transport = Mock(log_fields={"virtual_cluster": "shop"})  # type: ignore[misc]
    stage._connection = Mock()
    with planting.into_task() as reports:
        await asyncio.wait([stage._begin(resting)])
    stage._connection.interception_ended.assert_called_once_with(None)
    assert [task for task, _, _ in reports.failures] == [OwnedTask(TaskName.INTERCEPTION, "shop")]


@plants(TaskName.FETCH)
@anyhow
async def test_a_fetch_from_a_broker_is_one_that_failed(planting: Planting) -> None:
    """The client gets an answer, and asks again."""
    async with as_one_node() as (made, client):
        await ready(made)
        with planting.into_task():
            await fetched(client, 13, 0)
        assert (await fetched(client, 13, 0))["records"]


@in_fake_time
async def test_a_worker_of_interceptors_that_cannot_start_starts_later() -> None:
    made = Workers.__new__(Workers)
    made._name, made._settings, made._alive, made._idle = "shop", Mock(), set(), asyncio.LifoQueue()
    made._go = Mock()  # type: ignore[method-assign]
    worker = Mock()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(InterceptorWorker, "start", AsyncMock(side_effect=[KeyError("relay"), worker]))
        await made._start()
    assert made._alive == {worker}


@plants(TaskName.INTERCEPTOR_WORKER)
@in_fake_time
async def test_a_replacement_of_a_worker_that_fails_is_told(planting: Planting) -> None:
    made = Workers.__new__(Workers)
    made._name, made._tasks = "shop", set()
    with planting.into_task() as reports:
        made._go(resting)
        await asyncio.sleep(1)
    assert [task for task, _, _ in reports.failures] == [OwnedTask(TaskName.INTERCEPTOR_WORKER, "shop")]
    assert not made._tasks


@plants(TaskName.AUTHENTICATION, at=(1,))
@anyhow
async def test_a_check_of_a_password_that_fails_closes_its_connection(planting: Planting) -> None:
    connection = Mock(client_host="10.0.0.1")
    authenticator = Authenticator("shop", Mock())
    with planting.into_call() as reports:
        authenticator.carry_out(connection, Slow(planting.throw), Mock())
        await asyncio.to_thread(authenticator._threads.shutdown)
        await asyncio.sleep(0)
    connection.abort.assert_called_once_with()
    assert [task for task, _, _ in reports.failures] == [OwnedTask(TaskName.AUTHENTICATION, "shop")]
    assert not authenticator._checks


@in_fake_time
async def test_a_check_that_no_thread_takes_is_not_counted() -> None:
    authenticator = Authenticator("shop", Mock())
    authenticator._threads.submit = Mock(side_effect=RuntimeError("can't start new thread"))  # type: ignore[method-assign]
    with pytest.raises(RuntimeError):
        authenticator.carry_out(Mock(client_host="10.0.0.1"), Slow(Mock()), Mock())
    assert not authenticator._checks
    authenticator.close()
