"""What a client may do before it has authenticated, and how a failed login ends."""

from __future__ import annotations

import asyncio
import time

from structlog.testing import capture_logs

from mesh.listener.authentication import FAILURE_DELAY, MOST_CHECKS
from mesh.listener.client_transport import AUTHENTICATION_TIMEOUT
from mesh.listener.security import ListenerSecurity, Sasl, Tokens
from mesh.runtime.pool.connection import MOST_BEFORE_AUTHENTICATION
from mesh.security.credentials import Credentials, StoredUser
from mesh.security.oauthbearer import TokenRules
from mesh.security.sasl import Mechanism
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.fake_time import in_fake_time
from tests.runtime.pool.harness import Bench, Peer

PASSWORD = b"\0alice\0sesam"


def bench(longest: float | None = None) -> Bench:
    """A bench whose listener accepts alice with PLAIN."""
    bench = Bench()
    credentials = Credentials([StoredUser("alice", password="sesam")], None)
    sasl = Sasl((Mechanism.PLAIN,), credentials, time.time, longest_session=longest)
    bench.server.listener.security = ListenerSecurity(sasl=sasl)
    return bench


async def authenticate(peer: Peer, message: bytes = PASSWORD) -> object:
    """The answer, after a thread has checked the password; None if there is none."""
    assert peer.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN").error_code == 0
    correlation = peer.send(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=message)
    for _ in range(2_000):
        answer = peer.answer(correlation)
        if answer is not None:
            return answer
        time.sleep(0.001)  # noqa: ASYNC251 - the loop's time is not real, that of the thread is
        await asyncio.sleep(0.001)
    return None


@in_fake_time
async def test_only_versions_and_authentication_before() -> None:
    world = bench()
    peer = world.peer()
    assert peer.ask(ApiKey.API_VERSIONS, 0).error_code == 0
    peer.send(ApiKey.METADATA, 1, topics=())
    assert peer.transport.closed
    assert not peer.transport.written
    assert world.metric("kafka_mesh_protocol_errors_total") == {("unauthenticated",): 1}


@in_fake_time
async def test_everything_after() -> None:
    world = bench()
    peer = world.peer()
    answer = await authenticate(peer)
    assert getattr(answer, "error_code") == 0  # noqa: B009 - kio's class is not known here
    assert peer.ask(ApiKey.METADATA, 1, topics=()).brokers
    await asyncio.sleep(AUTHENTICATION_TIMEOUT + 1)
    assert not peer.transport.closed
    assert world.metric("kafka_mesh_authentications_total") == {("PLAIN", "success"): 1}


@in_fake_time
async def test_a_wrong_password_is_told_late_and_closed() -> None:
    world = bench()
    peer = world.peer()
    before = asyncio.get_running_loop().time()
    with capture_logs() as logs:
        answer = await authenticate(peer, b"\0alice\0wrong")
    assert getattr(answer, "error_code") == ErrorCode.SASL_AUTHENTICATION_FAILED  # noqa: B009
    assert asyncio.get_running_loop().time() >= before + 0.99 * FAILURE_DELAY
    assert peer.transport.closed
    (entry,) = (entry for entry in logs if entry["event"] == "authentication failed")
    assert (entry["claimed"], entry["reason"]) == ("alice", "wrong_credentials")
    assert "wrong" not in str({key: value for key, value in entry.items() if key != "reason"})


@in_fake_time
async def test_large_frames_only_after() -> None:
    peer = bench().peer()
    peer.protocol.data_received((MOST_BEFORE_AUTHENTICATION + 1).to_bytes(4, "big"))
    assert peer.transport.closed
    known = bench().peer()
    await authenticate(known)
    known.protocol.data_received((MOST_BEFORE_AUTHENTICATION + 1).to_bytes(4, "big"))
    assert not known.transport.closed


@in_fake_time
async def test_time_to_authenticate_is_limited() -> None:
    world = bench()
    peer = world.peer()
    await asyncio.sleep(AUTHENTICATION_TIMEOUT - 0.1)
    assert peer.ask(ApiKey.API_VERSIONS, 0).error_code == 0
    await asyncio.sleep(0.2)
    assert peer.transport.closed
    assert world.metric("kafka_mesh_protocol_errors_total") == {("authentication_timeout",): 1}


@in_fake_time
async def test_a_session_ends_at_the_next_request() -> None:
    world = bench(longest=30.0)
    renewing, forgetful = world.peer(), world.peer()
    for peer in (renewing, forgetful):
        await authenticate(peer)
    await asyncio.sleep(25)
    await authenticate(renewing)
    await asyncio.sleep(10)
    assert renewing.ask(ApiKey.METADATA, 1, topics=()).brokers
    assert not forgetful.transport.closed
    forgetful.send(ApiKey.METADATA, 1, topics=())
    assert forgetful.transport.closed
    assert world.metric("kafka_mesh_protocol_errors_total") == {("session_expired",): 1}


@in_fake_time
async def test_a_client_that_comes_while_too_many_passwords_wait_is_not_told_that_its_own_is_wrong() -> None:
    """Java's clients never try again after SASL_AUTHENTICATION_FAILED: guessing strangers would end them all."""
    world = bench()
    peer = world.peer()
    checks = world.server.listener.authenticator._checks
    checks["10.0.0.1"] = MOST_CHECKS // 2
    assert peer.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN").error_code == 0
    correlation = peer.send(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=PASSWORD)
    await asyncio.sleep(1)
    assert peer.answer(correlation) is None
    assert peer.transport.closed
    assert world.metric("kafka_mesh_authentications_total") == {("PLAIN", "busy"): 1}


@in_fake_time
async def test_an_address_that_guesses_keeps_no_other_out() -> None:
    world = bench()
    peer = world.peer()
    checks = world.server.listener.authenticator._checks
    checks["192.0.2.7"] = MOST_CHECKS // 2
    assert getattr(await authenticate(peer), "error_code") == 0  # noqa: B009
    assert checks == {"192.0.2.7": MOST_CHECKS // 2}


@in_fake_time
async def test_a_token_that_comes_before_the_keys_is_not_called_invalid() -> None:
    world = Bench()
    asked: list[object] = []

    def refresh(_key_id: str) -> bool:
        asked.append(1)
        return True

    tokens = Tokens(TokenRules(), None, refresh)
    credentials = Credentials([], None)
    world.server.listener.security = ListenerSecurity(
        sasl=Sasl((Mechanism.OAUTHBEARER,), credentials, time.time, tokens)
    )
    peer = world.peer()
    assert peer.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="OAUTHBEARER").error_code == 0
    correlation = peer.send(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"n,,\x01auth=Bearer a.b.c\x01\x01")
    await asyncio.sleep(1)
    assert peer.answer(correlation) is None
    assert peer.transport.closed
    assert asked, "they are fetched soon"
    assert world.metric("kafka_mesh_authentications_total") == {("OAUTHBEARER", "busy"): 1}
