"""The identity of a client: established at the listener, or at the cluster itself."""

from __future__ import annotations

import time
from struct import pack
from typing import Any

import pytest

from mesh.listener.security import ListenerSecurity, Sasl
from mesh.runtime.relay import connection
from mesh.security.credentials import Credentials, StoredUser
from mesh.security.sasl import Mechanism
from mesh.wire.apis import ApiKey
from mesh.wire.relayed_apis import ADVERTISED_APIS
from tests.runtime.relay.frames import answer, request, text, versions_in
from tests.runtime.relay.harness import Asked, Client, FakeBroker, Leg, World, echo, world
from tests.runtime.relay.loops import anyhow, everywhere, until

HANDSHAKE = request(ApiKey.SASL_HANDSHAKE, 1, 1, text("PLAIN"))
HEARTBEAT = request(ApiKey.HEARTBEAT, 3, 9)


def token(correlation_id: int, password: str = "sesam") -> bytes:
    content = f"\0alice\0{password}".encode()
    return request(ApiKey.SASL_AUTHENTICATE, 1, correlation_id, pack(">i", len(content)) + content)


def with_sasl(longest: float | None = None) -> ListenerSecurity:
    credentials = Credentials([StoredUser("alice", password="sesam")], None)
    return ListenerSecurity(sasl=Sasl((Mechanism.PLAIN,), credentials, time.time, longest_session=longest))


def error_in(frame: bytes) -> int:
    return int.from_bytes(frame[4:6], "big", signed=True)


async def authenticate(client: Client, first: int = 1) -> None:
    client.send(request(ApiKey.SASL_HANDSHAKE, 1, first, text("PLAIN")))
    assert error_in(await client.frame()) == 0
    client.send(token(first + 1))
    assert error_in(await client.frame()) == 0


# At the listener


@everywhere
async def test_versions_before_authentication_are_those_of_the_node() -> None:
    serves = {ApiKey.METADATA: (2, 7), ApiKey.API_VERSIONS: (0, 3), ApiKey.PRODUCE: (0, 11), 83: (0, 0)}
    async with world(2, security=with_sasl(), serves=serves) as made:
        client = await made.client(0)
        listed = versions_in(await client.ask(ApiKey.API_VERSIONS, 0))
        assert listed == {ApiKey.METADATA: (2, 7), ApiKey.API_VERSIONS: (0, 3), ApiKey.PRODUCE: (0, 11)}
        of_other = versions_in(await (await made.client(1)).ask(ApiKey.API_VERSIONS, 0))
        assert of_other[ApiKey.FETCH] == ADVERTISED_APIS[ApiKey.FETCH]
        of_any = versions_in(await (await made.client(None)).ask(ApiKey.API_VERSIONS, 0))
        assert of_any[ApiKey.METADATA] == (2, 4), "what all have in common"
        assert not made.broker.legs, "nobody is connected for a client that nobody knows"
        await authenticate(client, 2)
        assert await client.ask(ApiKey.HEARTBEAT, 3, 5) == pack(">ih", 5, 4) + b"test"


@anyhow
async def test_a_version_of_api_versions_that_is_not_served_here() -> None:
    """A client of Kafka 4.4 asks with v5 first (KIP-1242)."""
    for version in (5, 99):
        async with world(security=with_sasl()) as made:
            client = await made.client()
            frame = await client.ask(ApiKey.API_VERSIONS, version)
            assert error_in(frame) == 35
            assert versions_in(frame)[ApiKey.API_VERSIONS] == (0, 4)
            await authenticate(client, 2)
            assert await client.ask(ApiKey.HEARTBEAT, 3, 5)


@anyhow
async def test_a_client_that_comes_before_the_nodes_are_known_waits() -> None:
    async with world(security=with_sasl(), start=False) as made:
        made.broker.serves = {ApiKey.METADATA: (2, 7), ApiKey.API_VERSIONS: (0, 3)}
        client = await made.client()
        client.send(request(ApiKey.API_VERSIONS, 0, 1))
        await until(lambda: made.connections and made.connections[0].is_busy)
        await made.cluster.start()
        assert set(versions_in(await client.frame())) == {ApiKey.METADATA, ApiKey.API_VERSIONS}


@everywhere
async def test_a_request_before_authentication_closes() -> None:
    async with world(security=with_sasl()) as made:
        clients = [await made.client() for _ in range(3)]
        clients[0].send(HEARTBEAT)
        clients[1].send(request(ApiKey.API_VERSIONS, 0, 1), HEARTBEAT)
        clients[2].send(HANDSHAKE, HEARTBEAT, token(2))
        for client in clients:
            await client.rest()
        assert made.refused == {("unauthenticated",): 3}
        assert not made.broker.legs


@everywhere
async def test_all_at_once() -> None:
    """It does not wait for the answers, unlike any real client; they come in order."""
    async with world(security=with_sasl()) as made:
        client = await made.client()
        client.send(request(ApiKey.API_VERSIONS, 0, 0), HANDSHAKE, token(2), HEARTBEAT)
        assert [(await client.frame())[:4] for _ in range(4)] == [pack(">i", id) for id in (0, 1, 2, 9)]


@everywhere
async def test_a_wrong_password_is_told_and_nothing_behind_it_passes() -> None:
    async with world(security=with_sasl()) as made:
        client = await made.client()
        client.send(HANDSHAKE, token(2, "wrong"), HEARTBEAT)
        await client.frame()
        assert error_in(await client.frame()) == 58
        assert await client.rest() == b""
        assert not made.broker.legs
        assert not made.refused


@everywhere
async def test_nothing_passes_behind_a_failed_reauthentication() -> None:
    async with world(security=with_sasl(longest=1_000)) as made:
        client = await made.client()
        await authenticate(client)
        client.send(HANDSHAKE, token(2, "wrong"), HEARTBEAT)
        assert error_in(await client.frame()) == 0
        assert error_in(await client.frame()) == 58
        assert await client.rest() == b""
        assert not made.broker.legs or not made.broker.leg.asked


@everywhere
async def test_reauthentication_between_pipelined_requests() -> None:
    waiting: list[Asked] = []

    async with world(security=with_sasl(longest=1_000)) as made:
        client = await made.client()
        await authenticate(client)
        made.broker.script = lambda broker, leg, asked: waiting.append(asked)
        client.send(request(ApiKey.HEARTBEAT, 3, 10), request(ApiKey.SASL_HANDSHAKE, 1, 11, text("PLAIN")))
        client.send(token(12), *[request(ApiKey.HEARTBEAT, 3, id) for id in (13, 14)])
        await until(lambda: len(waiting) == 3)
        assert made.metric("kafka_mesh_authentications_total")[("PLAIN", "reauthenticated")] == 1
        for asked in waiting:
            echo(made.broker, made.broker.leg, asked)
        assert [(await client.frame())[:4] for _ in range(5)] == [pack(">i", id) for id in range(10, 15)]


@anyhow
async def test_a_session_that_has_ended() -> None:
    async with world(security=with_sasl(longest=0.05)) as made:
        client = await made.client()
        await authenticate(client)
        session = made.connections[0].client.session
        await until(lambda: session.refusal(made.listener.now()) is not None)
        client.send(HEARTBEAT)
        assert await client.rest() == b""
        assert made.refused == {("session_expired",): 1}


@anyhow
async def test_brokers_without_sasl_do_not_matter() -> None:
    serves = {ApiKey.METADATA: (2, 4), ApiKey.HEARTBEAT: (0, 4)}
    async with world(security=with_sasl(), serves=serves) as made:
        client = await made.client()
        await authenticate(client)
        assert await client.ask(ApiKey.HEARTBEAT, 3, 5)


@anyhow
async def test_requests_that_are_answered_here_are_rationed() -> None:
    """Requests of one chunk too: they would be much work at once, for an unknown client."""
    from mesh.listener.limits import Limits

    async with world(security=with_sasl(), limits=Limits(request_rate=1)) as made:
        client = await made.client()
        client.send(*[request(ApiKey.API_VERSIONS, 0, id) for id in range(5_000)])
        await client.frame()
        await until(lambda: made.connections[0].client.is_reading_paused)
        taken = made.metric("kafka_mesh_requests_total")
        assert sum(taken.values()) < 100


# At the cluster


def upstream(error: int = 0) -> Any:
    """A broker that accepts any client with a token."""

    def script(broker: FakeBroker, leg: Leg, asked: Asked) -> None:
        match asked.key:
            case ApiKey.SASL_HANDSHAKE:
                leg.writer.write(answer(asked.correlation_id, pack(">hi", 0, 0)))
            case ApiKey.SASL_AUTHENTICATE:
                leg.writer.write(answer(asked.correlation_id, pack(">hhiq", error, -1, 0, 0)))
            case _:
                echo(broker, leg, asked)

    return script


async def bare_client(made: World) -> Client:
    made.broker.script = upstream()
    return await made.client()


@everywhere
async def test_tokens_pass() -> None:
    async with world(passes_authentication=True) as made:
        client = await bare_client(made)
        await authenticate(client)
        frames = [len(each.frame).to_bytes(4, "big") + each.frame for each in made.broker.leg.asked]
        assert frames == [request(ApiKey.SASL_HANDSHAKE, 1, 1, text("PLAIN")), token(2)]
        assert await client.ask(ApiKey.HEARTBEAT, 3, 3, bytes(1 << 20)), "requests may be large now"


@everywhere
async def test_only_small_requests_before_the_cluster_has_let_it_in() -> None:
    async with world(passes_authentication=True) as made:
        client = await bare_client(made)
        client.send(request(ApiKey.SASL_AUTHENTICATE, 1, 1, bytes(64 << 10)))
        assert await client.rest() == b""
        other = await made.client()
        made.broker.script = upstream(error=58)
        other.send(HANDSHAKE, token(2))
        assert error_in(await other.frame()) == 0
        assert error_in(await other.frame()) == 58
        other.send(request(ApiKey.HEARTBEAT, 3, 3, bytes(64 << 10)))
        assert await other.rest() == b""
        assert made.refused == {("frame_size",): 2}


@anyhow
async def test_a_cluster_that_lets_nobody_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "AUTHENTICATION_TIMEOUT", 0.1)
    async with world(passes_authentication=True) as made:
        client = await bare_client(made)
        made.broker.script = upstream(error=58)
        client.send(HANDSHAKE, token(2))
        await client.rest()
        silent = await made.client()
        assert await silent.rest() == b""
        assert made.refused == {("authentication_timeout",): 2}


@anyhow
async def test_a_client_that_is_let_in_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "AUTHENTICATION_TIMEOUT", 0.5)
    async with world(passes_authentication=True) as made:
        made.broker.script = upstream()
        client = await made.client()
        await authenticate(client)
        late = await made.client()
        assert await late.rest() == b"", "by now its time would be over too"
        assert await client.ask(ApiKey.HEARTBEAT, 3, 3)


@everywhere
async def test_a_handshake_whose_tokens_are_no_requests() -> None:
    async with world(passes_authentication=True) as made:
        client = await bare_client(made)
        client.send(request(ApiKey.SASL_HANDSHAKE, 0, 1, text("PLAIN")))
        assert await client.rest() == b""
        assert made.refused == {("unsupported_version",): 1}


@anyhow
async def test_versions_are_the_brokers_own() -> None:
    from tests.runtime.relay.frames import versions

    async with world(passes_authentication=True) as made:
        listed = {ApiKey.SASL_HANDSHAKE: (0, 1), ApiKey.FETCH: (4, 99)}
        made.broker.script = lambda broker, leg, asked: leg.writer.write(answer(asked.correlation_id, versions(listed)))
        found = versions_in(await (await made.client()).ask(ApiKey.API_VERSIONS, 0))
        assert found == {ApiKey.SASL_HANDSHAKE: (0, 1), ApiKey.FETCH: ADVERTISED_APIS[ApiKey.FETCH]}
