"""The principal of a client where the choice depends on it: known from its certificate, or after SASL."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from mesh.apis.listener_table import LISTENER_TABLE
from mesh.pool.apis.table import TABLE
from mesh.routing.names import RouteName
from mesh.routing.spi import Client as Who
from mesh.routing.spi import Undecided
from mesh.wire.apis import ApiKey
from tests.integration.security.certificates import Authority
from tests.runtime.connection_router.harness import SHARED, US, Choose, choice
from tests.runtime.connection_router.test_connection import first, topics, versions
from tests.runtime.relay.frames import request, text, versions_in
from tests.runtime.relay.harness import Client
from tests.runtime.relay.loops import anyhow, everywhere
from tests.runtime.relay.test_authentication import authenticate, error_in, token, with_sasl


def by_principal(route: RouteName) -> Choose:
    def choose(who: Who) -> RouteName | Undecided:
        return Undecided() if who.principal is None else route

    return choose


@everywhere
@pytest.mark.parametrize("route", [US, SHARED])
async def test_led_when_the_principal_is_known(route: RouteName) -> None:
    async with choice(by_principal(route), security=with_sasl()) as made:
        client = await made.client()
        common = await first(client, b"app")
        assert set(common) == (set(TABLE) & set(common)) | set(LISTENER_TABLE)
        assert ApiKey.FETCH in common and ApiKey.INIT_PRODUCER_ID not in common
        await authenticate(client)
        served = await first(client, b"app")
        assert (ApiKey.INIT_PRODUCER_ID in served) is (route == US)
        assert await topics(client) is not None
        assert [str(who.principal) for who in made.router.asked] == ["None", "User:alice"]
        assert len(made.listener.connections) == made.limiter.connections == 1


@everywhere
@pytest.mark.parametrize("route", [US, SHARED])
async def test_requests_that_do_not_wait_for_their_answers(route: RouteName) -> None:
    async with choice(by_principal(route), security=with_sasl()) as made:
        client = await made.client()
        handshake = request(ApiKey.SASL_HANDSHAKE, 1, 2, text("PLAIN"))
        client.send(versions(b"app") + handshake + token(3) + versions(b"app") * 2)
        assert ApiKey.INIT_PRODUCER_ID not in versions_in(await client.frame())
        assert [error_in(await client.frame()) for _ in range(2)] == [0, 0]
        for _ in range(2):
            assert (ApiKey.INIT_PRODUCER_ID in versions_in(await client.frame())) is (route == US)


@anyhow
async def test_versions_in_a_version_that_is_not_known() -> None:
    async with choice(by_principal(US), security=with_sasl()) as made:
        client = await made.client()
        assert error_in(await client.ask(ApiKey.API_VERSIONS, 99)) == 35
        await authenticate(client)
        assert await first(client, b"app")


@anyhow
async def test_a_client_that_does_not_authenticate_is_closed() -> None:
    async with choice(by_principal(US), security=with_sasl()) as made:
        wrong, early, large = [await made.client() for _ in range(3)]
        await first(wrong, b"app")
        wrong.send(request(ApiKey.SASL_HANDSHAKE, 1, 1, text("PLAIN")), token(2, "wrong"))
        assert [error_in(await wrong.frame()) for _ in range(2)] == [0, 58]
        assert await wrong.rest() == b""
        await first(early, b"app")
        early.send(request(ApiKey.METADATA, 4, 1))
        assert await early.rest() == b""
        large.send(request(ApiKey.API_VERSIONS, 0, 1, bytes(1 << 17)))
        assert await large.rest() == b""
        assert made.refused == {"unknown_api": 1, "frame_size": 1}
        assert not made.us.brokers[0].legs


@anyhow
async def test_a_choice_that_needs_no_principal_is_made_before() -> None:
    """So its clients learn all APIs of their route."""
    async with choice(lambda who: US, security=with_sasl()) as made:
        client = await made.client()
        assert ApiKey.INIT_PRODUCER_ID in await first(client, b"app")
        await authenticate(client)
        assert await topics(client) == {}
        assert len(made.router.asked) == 1
        early: Client = await made.client()
        early.send(request(ApiKey.METADATA, 4, 1))
        assert await early.rest() == b""


@everywhere
@pytest.mark.parametrize("route", [US, SHARED])
async def test_a_certificate(route: RouteName, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    ours, theirs = authority.issue("mesh"), authority.issue("partner")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(ours.certificate, ours.key)
    server.load_verify_locations(authority.certificate)
    server.verify_mode = ssl.CERT_REQUIRED
    client_side = ssl.create_default_context(cafile=str(authority.certificate))
    client_side.check_hostname = False
    client_side.load_cert_chain(theirs.certificate, theirs.key)
    async with choice(lambda who: route, tls=server) as made:
        client = await made.client(tls=client_side)
        client.send(*[versions(b"app")] * 50)
        for _ in range(50):
            assert (ApiKey.INIT_PRODUCER_ID in versions_in(await client.frame())) is (route == US)
        assert await topics(client) is not None
        assert "CN=partner" in (made.router.asked[0].certificate or "")
