"""Unforeseen exceptions in the calls of the event loop to connections: they are reported, and close that connection
alone. uvloop reports no OSError by itself."""

from __future__ import annotations

import asyncio
import errno
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import Mock

import pytest
import uvicorn
from uvicorn.server import ServerState

from mesh.admin.connections import AdminProtocol
from mesh.listener.client_transport import ClientTransport
from mesh.listener.listener import Listener
from mesh.runtime.relay.connection import RelayConnection
from mesh.tasks import OwnedTask, TaskName, reporting
from mesh.upstream.links.chunks import Chunks
from mesh.upstream.links.handshake import RequestConnection, Unreachable
from mesh.upstream.links.leg import Leg
from mesh.wire.apis import ApiKey
from mesh.wire.client.messages import api_versions_request
from tests.fake_time import in_fake_time
from tests.planted import Planting, plants
from tests.runtime.connection_router.harness import choice
from tests.runtime.entity_router.harness import UnionClient, union
from tests.runtime.relay.frames import request
from tests.runtime.relay.harness import world
from tests.runtime.relay.loops import everywhere, until
from tests.runtime.request_router.harness import routed
from tests.test_tasks import Reports

FULL = OSError(errno.EMFILE, "Too many open files")
Made = tuple[Listener, Callable[[], Any]]


@asynccontextmanager
async def relay() -> AsyncIterator[Made]:
    async with world() as made:
        yield made.listener, made.client


@asynccontextmanager
async def router() -> AsyncIterator[Made]:
    async with union() as made:
        yield made.listener, made.client


@asynccontextmanager
async def requests() -> AsyncIterator[Made]:
    async with routed() as made:
        yield made.listener, made.client


@asynccontextmanager
async def pool() -> AsyncIterator[Made]:
    async with choice() as made:

        async def client() -> UnionClient:
            client = await made.client()
            client.send(request(ApiKey.API_VERSIONS, 0, 7, client_id=b"batch-1"))
            await client.frame()
            return client

        yield made.listener, client


@asynccontextmanager
async def undecided() -> AsyncIterator[Made]:
    async with choice() as made:
        yield made.listener, made.client


WORLDS = [relay, router, requests, pool, undecided]
HEARTBEAT = request(ApiKey.HEARTBEAT, 3, 7)
VERSIONS = request(ApiKey.API_VERSIONS, 0, 7, client_id=b"app")
REQUEST = {relay: HEARTBEAT, router: VERSIONS, requests: VERSIONS, pool: VERSIONS, undecided: VERSIONS}


def raising(problem: BaseException) -> Callable[..., None]:
    def call(*_: object, **__: object) -> None:
        raise problem

    return call


def taken_by(failing: type) -> Callable[[Chunks], memoryview]:
    """A `Chunks.take` that fails for one class."""
    take = Chunks.take

    def call(chunks: Chunks) -> memoryview:
        if isinstance(sys._getframe(1).f_locals["self"], failing):
            raise FULL
        return take(chunks)

    return call


async def transport_of(listener: Listener) -> ClientTransport:
    """The transport of the newest client."""
    await until(lambda: listener.connections)
    newest = listener.connections[max(listener.connections)]
    assert isinstance(newest, ClientTransport)
    return newest


@plants(TaskName.CONNECTION, at=(1,))
@pytest.mark.parametrize("begin", WORLDS, ids=lambda each: each.__name__)
@everywhere
async def test_bytes_of_a_client(begin: Any, planting: Planting) -> None:
    async with begin() as (listener, connect):
        staying = await connect()
        await transport_of(listener)
        client = await connect()
        await until(lambda: len(listener.connections) == 2)
        (await transport_of(listener)).received = planting.throw  # type: ignore[method-assign]
        with planting.into_call() as reports:
            client.send(VERSIONS[:3] if begin is undecided else REQUEST[begin])
            await client.rest()
        told = [(task, each) for task, each, _ in reports.failures]
        assert told == [(OwnedTask(TaskName.CONNECTION, listener.name), planting.problem)]
        staying.send(REQUEST[begin])
        assert await staying.frame()


@plants(TaskName.CONNECTION, at=(1,))
@pytest.mark.parametrize("begin", [relay, router, requests, undecided], ids=lambda each: each.__name__)
@everywhere
async def test_a_buffer_for_bytes_of_a_client(begin: Any, planting: Planting) -> None:
    """The event loop closes the connection. uvloop does not report why."""
    async with begin() as (listener, connect):
        staying, client = await connect(), await connect()
        await until(lambda: len(listener.connections) == 2)
        connection: Any = (await transport_of(listener))._connection
        if begin is undecided:
            connection._count = len(connection._received)
            connection._make_room = planting.throw
        else:
            connection._services = Mock(wraps=connection._services, chunks=Mock(take=planting.throw))
        reports = Reports()
        with reporting(reports):
            client.send(REQUEST[begin])
            assert await client.rest() == b""
            await until(lambda: len(listener.connections) == 1)
        told = [(task, each) for task, each, _ in reports.failures if task.name is not TaskName.CALLBACK]
        assert told == [(OwnedTask(TaskName.CONNECTION, listener.name), planting.problem)]
        staying.send(REQUEST[begin])
        assert await staying.frame()


@everywhere
@pytest.mark.parametrize("begin", WORLDS, ids=lambda each: each.__name__)
async def test_a_client_that_stops_reading_and_reads_again(begin: Any) -> None:
    async with begin() as (listener, connect):
        for call in ("pause_writing", "resume_writing"):
            reports, client = Reports(), await connect()
            transport = await transport_of(listener)
            setattr(transport, call, raising(FULL))
            with reporting(reports):
                getattr(transport._connection, call)()
            assert [task for task, _, _ in reports.failures] == [OwnedTask(TaskName.CONNECTION, listener.name)]
            assert await client.rest() == b""
            await until(lambda: not listener.connections)


@everywhere
@pytest.mark.parametrize("begin", WORLDS, ids=lambda each: each.__name__)
async def test_a_client_that_connects(begin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is closed, and gives back what was counted, whatever step fails."""
    async with begin() as (listener, connect):
        for step in ("open", "_bound_send_buffer", "_watch_again", "_identify"):
            reports = Reports()
            with monkeypatch.context() as patched, reporting(reports):
                patched.setattr(ClientTransport, step, raising(FULL))
                try:
                    client = await connect()
                    assert await client.rest() == b""
                except (asyncio.IncompleteReadError, ConnectionError):
                    pass  # the client of a pool has sent something before
                await until(lambda reports=reports: reports.failures)  # type: ignore[misc]
                await until(lambda: not listener.admission._limiter.connections)
            assert {task for task, _, _ in reports.failures} == {OwnedTask(TaskName.CONNECTION, listener.name)}
            assert not listener.connections
        client = await connect()
        client.send(REQUEST[begin])
        assert await client.frame()


@everywhere
async def test_time_limits_of_a_client() -> None:
    async with world() as made:
        for call in ("_check_timeouts", "_throttle_ended", "_close_unauthenticated"):
            reports, client = Reports(), await made.client()
            transport = await transport_of(made.listener)
            setattr(transport, call, raising(FULL))
            with reporting(reports):
                transport.guarded(getattr(transport, call))()
            assert [task for task, _, _ in reports.failures] == [OwnedTask(TaskName.CONNECTION, "front")]
            assert await client.rest() == b""
            await until(lambda: not made.listener.connections)


@everywhere
async def test_the_leg_of_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client is closed, and other clients are not."""
    async with world() as made:
        staying = await made.client()
        assert await staying.ask(ApiKey.HEARTBEAT, 3, 1)
        for call in ("leg_opened", "leg_received", "leg_full", "get_buffer"):
            reports = Reports()
            with monkeypatch.context() as patched, reporting(reports):
                if call == "get_buffer":
                    patched.setattr(Chunks, "take", taken_by(Leg))
                else:
                    patched.setattr(RelayConnection, call, raising(FULL))
                client = await made.client()
                client.send(HEARTBEAT)
                if call == "leg_full":
                    assert await client.frame()
                    leg = made.connections[-1]._leg
                    assert leg is not None
                    leg.pause_writing()
                assert await client.rest() == b""
            told = [task for task, _, _ in reports.failures if task.name is not TaskName.CALLBACK]
            assert told == [OwnedTask(TaskName.CONNECTION, "front")]
            await until(lambda: made.nodes.known[0].legs == 1)
        assert await staying.ask(ApiKey.HEARTBEAT, 3, 1)


@plants(TaskName.LINK, at=(1,))
@pytest.mark.parametrize("call", ["buffer", "received"])
@in_fake_time
async def test_a_link_to_a_broker_fails_what_it_was_asked(call: str, planting: Planting) -> None:
    link, transport = RequestConnection("kafka-mesh", bytearray, "eu"), Mock()
    link.connection_made(transport)
    waiting = link.send(api_versions_request())
    setattr(link._wire, call, planting.throw)
    with planting.into_call() as reports:
        if call == "received":
            link.buffer_updated(1)
        else:
            with pytest.raises(ConnectionAbortedError):
                link.get_buffer(-1)
            await asyncio.sleep(0)
    with pytest.raises(Unreachable, match="kafka-mesh failed"):
        await asyncio.wait_for(waiting, 1)
    assert [task for task, _, _ in reports.failures] == [OwnedTask(TaskName.LINK, cluster="eu")]
    transport.abort.assert_called_once_with()


@plants(TaskName.ADMIN_CONNECTION, at=(1,))
@in_fake_time
async def test_a_connection_of_the_admin_address(planting: Planting) -> None:
    calls = ("connection_made", "data_received", "pause_writing", "resume_writing", "connection_lost", "_expire")
    for call in calls:
        transport = Mock()
        connection = AdminProtocol(uvicorn.Config(Mock(), log_config=None), ServerState(), {})
        if call != "connection_made":
            connection.connection_made(transport)
        for step in ("_look", "_start_timer", "_stop_timer") if call != "_expire" else ("_expire",):
            setattr(connection, step, planting.throw)
        with planting.into_call() as reports:
            match call:
                case "connection_made":
                    connection.connection_made(transport)
                case "data_received":
                    connection.data_received(b"GET / HTTP/1.1\r\n")
                case "connection_lost":
                    connection.connection_lost(None)
                case "_expire":
                    connection._stop_timer()
                    connection._look()
                    await asyncio.sleep(20)
                case _:
                    getattr(connection, call)()
        assert {task for task, _, _ in reports.failures} == {OwnedTask(TaskName.ADMIN_CONNECTION)}, call
        assert transport.abort.called
