"""Connections that are lost while each step of their clean-up fails: everything that was counted is given back.

One call at a time raises. Excluded are the calls on the way to the counters, which come first.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any, Final
from unittest.mock import Mock

import uvicorn
from uvicorn.server import ServerState

from mesh.admin.connections import AdminProtocol
from mesh.listener.limits import Limits
from mesh.tasks import reporting
from mesh.upstream.links.leg import Leg
from mesh.wire.apis import ApiKey
from tests.fake_time import in_fake_time
from tests.runtime.connection_router.harness import choice
from tests.runtime.entity_router.harness import union
from tests.runtime.entity_router.test_counts import KEYS
from tests.runtime.entity_router.test_requests import coordinators
from tests.runtime.pool.harness import Bench
from tests.runtime.pool.test_engines import consuming
from tests.runtime.relay.frames import request
from tests.runtime.relay.harness import world
from tests.runtime.relay.loops import anyhow, until
from tests.runtime.request_router.harness import EU as EU_ROUTE
from tests.runtime.request_router.harness import routed
from tests.runtime.request_router.test_static_routes import raw_produce
from tests.test_tasks import Reports

GIVE_BACK: Final = {
    "Admission.leave",
    "ClientTransport.abort",
    "ClientTransport.end",
    "ClientTransport.failed",
    "ConnectionContext.close",
    "ConnectionLimiter.leave",
    "LegOpener.release",
    "Listener.disconnected",
    "PoolConnection.closed",
    "RelayConnection._release_leg",
    "RelayConnection.closed",
    "RelayedConnection.end",
    "RequestMemory.give_back",
    "RequestRoom.give_back",
    "RequestRouterConnection.closed",
    "RequestSplicing.close",
    "RouterConnection.closed",
    "RouterWork.close",
    "SideLinks.close",
    "StaticLeg.close",
}
"""The way to the counters. They only call each other, and change numbers."""
COUNTING: Final = {"_guard", "connection_lost", "count_broker_connections", "count_unread"}


class Planted:
    """Raises in one of the calls that are made while it is used. at: the number of that call. done: its name."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.done: str | None = None

    def __enter__(self) -> Planted:
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _called(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or self.done is not None or "/mesh/" not in code.co_filename:
            return
        if code.co_filename.endswith("/mesh/tasks.py") or code.co_qualname in GIVE_BACK or code.co_name in COUNTING:
            return
        self.left -= 1
        if not self.left:
            self.done = code.co_qualname
            raise OSError(24, "Too many open files")


Lost = Callable[[Planted], Awaitable[None]]
"""Makes a connection, loses it while something is planted, and checks the counters."""


async def each_call_fails(lost: Lost, expected: set[str]) -> None:
    """Loses a connection again and again, until no further call can be made to fail. expected: some that are made."""
    hit: set[str] = set()
    for at in range(1, 500):
        planted = Planted(at)
        reports = Reports()
        with reporting(reports):
            await lost(planted)
        if planted.done is None:
            assert not reports.failures
            break
        hit.add(planted.done)
        assert len(reports.failures) <= 1, planted.done
    else:
        raise AssertionError("its clean-up never ends")
    assert expected <= hit, hit


@in_fake_time
async def test_a_client_of_a_pool() -> None:
    async def lost(planted: Planted) -> None:
        bench = Bench(limits=Limits(unread=1 << 20))
        peer = await consuming(bench)
        peer.transport.stuck = True
        peer.protocol.pause_writing()
        assert (bench.limiter.connections, len(bench.server.listener.connections)) == (1, 1)
        with planted:
            peer.protocol.connection_lost(None)
        assert (bench.limiter.connections, bench.limiter.unread, bench.limiter._descriptors.used) == (0, 0, 0)
        assert not bench.server.listener.connections

    await each_call_fails(lost, {"PoolCore.disconnected", "StepLoop.carry_out"})


@anyhow
async def test_a_client_of_a_relay_and_its_leg() -> None:
    async with world() as made:

        async def lost(planted: Planted) -> None:
            client = await made.client()
            assert await client.ask(ApiKey.HEARTBEAT, 3, 1)
            (connection,) = made.connections
            node = made.nodes.known[0]
            limiter = made.listener.admission._limiter
            assert (limiter.connections, limiter._descriptors.used, node.legs) == (1, 2, 1)
            with planted:
                connection.connection_lost(None)
            assert (limiter.connections, limiter._descriptors.used, node.legs) == (0, 0, 0)
            assert not made.listener.connections
            client.abort()

        await each_call_fails(lost, {"Leg.close", "NoInterception.close"})


@anyhow
async def test_a_leg_of_a_relay() -> None:
    async with world() as made:

        async def lost(planted: Planted) -> None:
            client = await made.client()
            assert await client.ask(ApiKey.HEARTBEAT, 3, 1)
            (connection,) = made.connections
            node, limiter = made.nodes.known[0], made.listener.admission._limiter
            leg = connection._leg
            assert isinstance(leg, Leg)
            with planted:
                leg.connection_lost(ConnectionResetError())
            assert (limiter._descriptors.used, node.legs) == (limiter.connections, 0)
            assert await client.rest() == b""
            assert (limiter.connections, limiter._descriptors.used) == (0, 0)

        await each_call_fails(lost, {"RelayConnection.leg_lost", "LegOpener.lost"})


@anyhow
async def test_a_client_of_a_union() -> None:
    async with union() as made:
        for cluster in (made.eu, made.us):
            cluster.answers = lambda api_key, version, request, cluster=cluster: coordinators(cluster, request)  # type: ignore[misc]

        async def lost(planted: Planted) -> None:
            client = await made.client()
            await client.asked(ApiKey.FIND_COORDINATOR, 4, KEYS)
            (peer,) = made.listener.connections.values()
            connection: Any = peer._connection  # type: ignore[attr-defined]
            limiter = made.listener.admission._limiter
            connection._wire._room.take(1 << 20)
            assert (limiter.connections, made.descriptors.used, made.memory.used) == (1, 3, 1 << 20)
            with planted:
                connection.connection_lost(None)
            assert (limiter.connections, made.descriptors.used, made.memory.used) == (0, 0, 0)
            assert not made.listener.connections
            client.abort()

        await each_call_fails(lost, {"BrokerLink.close", "RequestConnection.fail"})


@anyhow
async def test_a_client_of_a_router_that_decides_by_request() -> None:
    async with routed(static_routes={ApiKey.PRODUCE: EU_ROUTE}) as made:
        node = made.runtime.leaves[0].nodes.known[0]

        async def lost(planted: Planted) -> None:
            client = await made.client()
            await client.asked(ApiKey.HEARTBEAT, 4, {"group_id": "one"})
            client.send(raw_produce(b""))
            await until(lambda: node.legs)
            (peer,) = made.listener.connections.values()
            connection: Any = peer._connection  # type: ignore[attr-defined]
            connection._room.take(1 << 20)
            assert (made.limiter.connections, made.descriptors.used, made.memory.used) == (1, 3, 1 << 20)
            with planted:
                connection.connection_lost(None)
            assert (made.limiter.connections, made.descriptors.used, made.memory.used) == (0, 0, 0)
            assert not node.legs
            client.abort()

        await each_call_fails(lost, {"Leg.close", "BrokerLink.close", "RouterWork._close_router"})


@anyhow
async def test_a_client_whose_target_is_not_chosen() -> None:
    async with choice() as made:
        made.pools_ready.clear()

        async def lost(planted: Planted) -> None:
            client = await made.client()
            client.send(request(ApiKey.API_VERSIONS, 0, 7, client_id=b"batch-1"))
            await until(lambda: made.listener.connections)
            (peer,) = made.listener.connections.values()
            connection: Any = peer._connection  # type: ignore[attr-defined]
            await until(lambda: connection._waiting is not None)
            with planted:
                connection.connection_lost(None)
            assert (made.limiter.connections, made.limiter._descriptors.used) == (0, 0)
            client.abort()

        await each_call_fails(lost, {"ChoosingConnection.closed"})


@in_fake_time
async def test_a_connection_of_the_admin_address() -> None:
    async def lost(planted: Planted) -> None:
        state = ServerState()
        connection = AdminProtocol(uvicorn.Config(Mock(), log_config=None), state, {})
        connection.connection_made(Mock())
        assert (state.connections, connection._timer is not None) == ({connection}, True)
        with planted:
            connection.connection_lost(None)
        assert not state.connections

    await each_call_fails(lost, {"AdminProtocol._stop_timer"})
