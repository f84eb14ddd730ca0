"""Unforeseen exceptions in tasks of connections and requests: that client's connection is closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from mesh import tasks
from mesh.listener.authentication import Authenticator
from mesh.runtime.entity_router.leaves import Leaves
from mesh.runtime.interception.stage import Interception
from mesh.runtime.interception.workers import InterceptorWorker, Workers
from mesh.runtime.one_node.fetches import ClientFetches
from mesh.security.sasl import Slow
from mesh.tasks import OwnedTask, TaskName, reporting
from mesh.wire.apis import ApiKey
from tests.fake_time import in_fake_time
from tests.runtime.connection_router.harness import choice
from tests.runtime.entity_router.harness import union
from tests.runtime.relay.frames import request
from tests.runtime.relay.harness import world
from tests.runtime.relay.loops import anyhow, everywhere
from tests.test_tasks import Reports, throwing

OF_CLIENTS = {
    TaskName.AUTHENTICATION,
    TaskName.CHOICE,
    TaskName.FETCH,
    TaskName.INTERCEPTION,
    TaskName.INTERCEPTOR_WORKER,
    TaskName.LEG,
    TaskName.NODE_WAIT,
    TaskName.REQUEST,
}
PROBLEMS = [KeyError("relay"), OSError(24, "Too many open files"), asyncio.CancelledError()]


@contextmanager
def planted(name: TaskName, problem: BaseException, at: int = 1) -> Iterator[Reports]:
    """Throws once into a task with that name."""
    reports, begun, hit = Reports(), tasks._begun, list[OwnedTask]()

    async def begin(task: OwnedTask, run: Any, failed: Callable[[], object]) -> None:
        async def thrown() -> object:
            return await throwing(run(), at, problem)

        is_first = task.name is name and not hit
        if is_first:
            hit.append(task)
        await begun(task, thrown if is_first else run, failed)

    with pytest.MonkeyPatch.context() as patched, reporting(reports):
        patched.setattr(tasks, "_begun", begin)
        yield reports
    assert [(task.name, each) for task, each, _ in reports.failures] == [(name, problem)]


@everywhere
async def test_a_leg_that_is_opened() -> None:
    """Another exception than a CancelledError is reported as a lost leg."""
    async with world() as made:
        await made.known()
        reports, open_leg = Reports(), made.nodes.open_leg
        with reporting(reports):
            made.nodes.open_leg = AsyncMock(side_effect=asyncio.CancelledError())  # type: ignore[method-assign]
            assert await (await made.client()).rest() == b""
        assert [task.name for task, _, _ in reports.failures] == [TaskName.LEG]
        made.nodes.open_leg = open_leg  # type: ignore[method-assign]
        assert await (await made.client()).ask(ApiKey.HEARTBEAT, 3, 1)


@anyhow
async def test_a_wait_for_nodes() -> None:
    async with union() as made:
        with pytest.MonkeyPatch.context() as patched, planted(TaskName.NODE_WAIT, asyncio.CancelledError()):
            patched.setattr(Leaves, "are_known", False)
            patched.setattr(Leaves, "wait_until_known", lambda _: asyncio.Event().wait())
            assert await (await made.client()).rest() == b""
        assert await (await made.client()).asked(ApiKey.METADATA, 12, {"topics": None})


@anyhow
async def test_a_divided_request() -> None:
    async with union() as made:
        with planted(TaskName.REQUEST, asyncio.CancelledError()):
            client = await made.client()
            client.send(request(ApiKey.METADATA, 12, 1, b"\0\0\0\0\0\0"))
            assert await client.rest() == b""
        assert await (await made.client()).asked(ApiKey.METADATA, 12, {"topics": None})


@everywhere
@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
async def test_a_client_that_waits_for_its_pool(problem: BaseException) -> None:
    async with choice() as made:
        made.pools_ready.clear()
        with planted(TaskName.CHOICE, problem):
            member, other = await made.client(), await made.client()
            member.send(request(ApiKey.API_VERSIONS, 0, 7, client_id=b"batch-1"))
            assert await member.rest() == b""
            other.send(request(ApiKey.API_VERSIONS, 0, 7, client_id=b"app"))
            assert await other.frame()


@in_fake_time
async def test_an_interception_ends_its_connection() -> None:
    for problem in PROBLEMS:
        stage, work = Interception.__new__(Interception), Mock(side_effect=problem)
        stage._transport = Mock(log_fields={"virtual_cluster": "shop"})  # type: ignore[misc]
        stage._connection = Mock()
        reports = Reports()
        with reporting(reports):
            await asyncio.wait([stage._begin(work)])
        stage._connection.interception_ended.assert_called_once_with(None)
        assert [task for task, _, _ in reports.failures] == [OwnedTask(TaskName.INTERCEPTION, "shop")]


@in_fake_time
async def test_a_fetch_from_a_broker_is_one_that_failed() -> None:
    async def run_leg(*_: object) -> None:
        raise KeyError("relay")

    fetches, reports = ClientFetches.__new__(ClientFetches), Reports()
    fetches._legs, fetches._leg_sessions, fetches._news = set(), {}, asyncio.Event()  # type: ignore[misc]
    fetches._join, fetches._run_leg = Mock(), run_leg  # type: ignore[misc,method-assign,assignment]
    with reporting(reports):
        fetches._ask(Mock(), Mock(broker=3))
        await fetches._news.wait()
    fetches._join.failed.assert_called_once_with(3)
    assert [task.name for task, _, _ in reports.failures] == [TaskName.FETCH]


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


@in_fake_time
async def test_a_replacement_of_a_worker_that_fails_is_told() -> None:
    reports, made = Reports(), Workers.__new__(Workers)
    made._name, made._tasks = "shop", set()
    with reporting(reports):
        made._go(AsyncMock(side_effect=KeyError("relay")))
        await asyncio.sleep(1)
    assert [task for task, _, _ in reports.failures] == [OwnedTask(TaskName.INTERCEPTOR_WORKER, "shop")]
    assert not made._tasks


@in_fake_time
async def test_a_check_of_a_password_that_fails_closes_its_connection() -> None:
    reports, connection = Reports(), Mock(client_host="10.0.0.1")
    checked: Future[Any] = Future()
    checked.set_exception(KeyError("relay"))
    authenticator = Authenticator("shop", Mock())
    authenticator._checks["10.0.0.1"] += 1
    with reporting(reports):
        authenticator._checked(connection, Mock(), checked)
    connection.abort.assert_called_once_with()
    assert [task for task, _, _ in reports.failures] == [OwnedTask(TaskName.AUTHENTICATION, "shop")]
    authenticator._threads.submit = Mock(side_effect=RuntimeError("can't start new thread"))  # type: ignore[method-assign]
    with pytest.raises(RuntimeError):
        authenticator.carry_out(connection, Slow(Mock()), Mock())
    assert not authenticator._checks
    authenticator.close()
