"""A bug on the way to a broker costs one connection, and is logged; the end of a session does not interrupt requests in
flight."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from mesh import tasks
from mesh.runtime.relay import nodes
from mesh.runtime.relay.nodes import RelayNode
from mesh.tasks import TaskName, reporting
from mesh.upstream.links.leg import Leg
from mesh.wire.apis import ApiKey
from tests.runtime.relay.frames import answer, produce, request
from tests.runtime.relay.harness import Asked, FakeBroker, World, world
from tests.runtime.relay.harness import Leg as LegOfBroker
from tests.runtime.relay.loops import anyhow, everywhere, until
from tests.test_tasks import Reports

BUG = "connection closed: bug in kafka-mesh"


@everywhere
async def test_a_bug_where_a_leg_is_opened_ends_that_connection_and_is_told() -> None:
    async with world() as made:
        await made.known()
        open_leg = made.nodes.open_leg

        async def broken(node: int | None, leg: Leg, *, passes_authentication: bool) -> tuple[RelayNode, float]:
            raise RuntimeError("broken")

        made.nodes.open_leg = broken  # type: ignore[method-assign]
        with capture_logs() as logs:
            client = await made.client()
            assert await client.rest() == b""
        assert [entry["event"] for entry in logs if entry["log_level"] == "error"] == [BUG]
        assert made.lost == {("0", "internal_error"): 1}
        made.nodes.open_leg = open_leg  # type: ignore[method-assign]
        assert await (await made.client()).ask(ApiKey.HEARTBEAT, 3, 1)


@anyhow
async def test_a_bug_in_a_look_at_the_nodes_is_told_and_the_next_look_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "SHORTEST_REST", 0.01)
    told = Reports()
    with reporting(told):
        await _a_bug_in_a_look()
    ((task, problem, rest),) = told.failures
    assert (task.name, repr(problem), rest) == (TaskName.BROKERS, "RuntimeError('broken')", 0.01)


async def _a_bug_in_a_look() -> None:
    async with world() as made:
        await made.known()
        layout, broken = made.nodes._links.layout, asyncio.Event()

        async def once(topics: Any) -> Any:
            if broken.is_set():
                return await layout(topics)
            broken.set()
            raise RuntimeError("broken")

        made.nodes._links.layout = once  # type: ignore[method-assign]
        made.nodes._check_soon.set()
        await broken.wait()
        await made.look()


@anyhow
async def test_a_bug_where_versions_are_asked_for_is_told_and_they_are_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(versions: Any) -> Any:
        raise RuntimeError("broken")

    told = Reports()
    with reporting(told):
        await _a_bug_in_versions(told, broken, monkeypatch)


async def _a_bug_in_versions(told: Reports, broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async with world() as made:
        await until(lambda: made.nodes.known and made.nodes.known[0].versions)
        made.nodes.known[0].versions = None
        with monkeypatch.context() as patched:
            patched.setattr(nodes, "served_of", broken)
            await made.look()
            await until(lambda: told.failures)
        await made.look()
        await until(lambda: made.nodes.known[0].versions)


@everywhere
async def test_the_end_of_the_session_of_our_credentials_closes_a_connection_that_waits_for_nothing() -> None:
    async with world() as made:
        await made.known()
        attempt = made.nodes._attempt

        async def soon_over(node: RelayNode, leg: Leg, *, passes_authentication: bool) -> float:
            await attempt(node, leg, passes_authentication=passes_authentication)
            return asyncio.get_running_loop().time() + 0.05

        made.nodes._attempt = soon_over  # type: ignore[method-assign]
        assert await (await made.client()).rest() == b""


def end_session(made: World) -> None:
    """Ends the session of the only client, now."""
    (connection,) = made.connections
    connection._opener._end_session(connection)


@everywhere
async def test_a_session_ends_behind_a_request_without_an_answer_that_has_begun() -> None:
    async with world() as made:
        client = await made.client()
        whole = produce(7, acks=0, records=bytes(100_000))
        client.send(whole[:50_000])
        await until(lambda: made.connections and made.connections[0].has_unfinished_frame)
        await until(lambda: 0 in made.nodes.known and made.nodes.known[0].legs)
        end_session(made)
        assert len(made.connections) == 1, "it may end what it has begun"
        client.send(whole[50_000:])
        assert await client.rest() == b""
        await until(lambda: made.broker.legs and made.broker.leg.has_ended)
        assert [asked.frame for asked in made.broker.leg.asked] == [whole[4:]]


@everywhere
async def test_a_session_ends_when_what_was_asked_is_answered() -> None:
    waiting: list[Asked] = []

    def keep(broker: FakeBroker, leg: LegOfBroker, asked: Asked) -> None:
        waiting.append(asked)

    async with world() as made:
        made.broker.script = keep
        client = await made.client()
        client.send(request(ApiKey.HEARTBEAT, 3, 1))
        await until(lambda: waiting)
        end_session(made)
        made.broker.leg.writer.write(answer(1, b"late"))
        assert await client.rest() == answer(1, b"late")
